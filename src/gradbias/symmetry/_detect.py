"""Diagonal symmetries of any loss, found by numbers: what the gradient never sees."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..numerics import checks
from ..numerics.precision import host
from ._sample_gradients import Data, prepared
from ._sparse_basis import sparse_basis
from ._weighted import Weighted, weighted

EXACT = 1e-9  # singular values of symmetries, relative to the largest
LARGEST = 4000  # parameters: the search keeps a dense square matrix of that size
PATIENCE = 3  # rounds without a change before the null space is believed
POINTS = 4  # random parameters in a round
ROUNDS = 200


@dataclasses.dataclass(frozen=True)
class Detected:
    """Diagonal symmetries of a loss.

    Attributes:
        symmetries: those that hold, by name "1", "2", …, with as few parameters as possible each.
        approximate: those that nearly hold.
        size: how far each is from true, by name: the largest cosine between the gradient of a
            sample and Aθ at the last points; names of approximate ones start with "~".
        singular_values: of the search, the smallest first, relative to the largest.
        points: how many random parameters it took.
    """

    symmetries: dict[str, Weighted]
    approximate: dict[str, Weighted]
    size: dict[str, float]
    singular_values: np.ndarray
    points: int

    def __repr__(self) -> str:
        near = [f"{name} {self.size[name]:.1e}" for name in self.approximate]
        words = f", approximate: {', '.join(near)}" if near else ""
        return f"{len(self.symmetries)} diagonal symmetries{words} ({self.points} points)"


@host
def detect(
    loss: Callable[..., Any],
    params_sampler: Callable[[int], Any],
    data: Data,
    approximate: float = 1e-3,
) -> Detected:
    r"""Find all diagonal symmetries of a loss: $\sum_k \mu_k \theta_k g_k = 0$ for every sample.

    The μ form the null space of the rows $\theta_k g_{ik}$ over samples i and random θ. At one θ
    directions that depend on θ look like symmetries, so random points are added until the null
    space has stopped shrinking. Its basis is then chosen with as few parameters as possible in
    each generator, which for a ReLU net is one generator for each hidden unit.

    Args:
        loss: `loss(params, *sample)` of one sample, written with jax.numpy; with data (X, Y) it
            is called as loss(params, x, y).
        params_sampler: `params_sampler(i)` gives random parameters, others for every whole
            number; of the size that is used, because at tiny ones everything is nearly linear.
        data: an array, or a tuple of arrays whose first axis counts samples.
        approximate: singular values up to this, relative to the largest, count as approximate
            symmetries, such as a normalisation with an epsilon; 0 for none.
    """
    if not callable(params_sampler):
        raise ValueError(f"params_sampler must be a function of i, got {params_sampler!r:.80}")
    approximate = checks.number("approximate", approximate, at_least=0)
    params, samples = prepared(loss, params_sampler(0), data)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    if size > LARGEST:
        raise ValueError(f"params must have at most {LARGEST} entries to be searched, got {size}")
    search = _SymmetrySearch(loss, params_sampler, samples, size)
    s, Vt = search.run(approximate)
    return _chosen(search, params, s, Vt, approximate)


class _SymmetrySearch:
    """Rows θ∘g/‖g‖‖θ‖ of more and more points, kept as a triangular factor."""

    def __init__(self, loss, params_sampler, samples, size: int):
        self.loss = loss
        self.sampler = params_sampler
        self.samples = samples
        self.size = size
        self.R = np.zeros((0, size))
        self.points = 0
        self.last: list[tuple[np.ndarray, np.ndarray]] = []

    def grow(self) -> None:
        """Add the rows of a few random points."""
        self.last = []
        for _ in range(POINTS):
            params, _ = prepared(self.loss, self.sampler(self.points), self.samples)
            theta = np.asarray(ravel_pytree(params)[0])
            if theta.size != self.size:
                raise ValueError(
                    f"params_sampler must give parameters of one size, got {theta.size} and "
                    f"{self.size} entries"
                )
            self.last.append(
                (theta, _unit_rows(np.asarray(_rows(self.loss, params, self.samples))))
            )
            self.points += 1
        rows = [_unit_rows(g * theta) for theta, g in self.last]
        self.R = np.linalg.qr(np.vstack([self.R, *rows]), mode="r")

    def run(self, approximate: float) -> tuple[np.ndarray, np.ndarray]:
        """Singular values, the smallest first, and vectors, once their number has settled."""
        counts: list[tuple[int, int]] = []
        s = np.zeros(self.size)
        Vt = np.eye(self.size)
        while len(counts) < ROUNDS:
            self.grow()
            _, s, Vt = np.linalg.svd(self.R, full_matrices=True)
            s = np.concatenate([s, np.zeros(self.size - len(s))])
            s = s / (s[0] or 1.0)
            counts.append((int(np.sum(s <= EXACT)), int(np.sum(s <= max(approximate, EXACT)))))
            enough = self.points * len(self.samples[0]) > self.size
            settled = len(set(counts[-PATIENCE - 1 :])) == 1 and len(counts) > PATIENCE
            if (enough and settled) or counts[-1][1] == 0:
                break
        return s[::-1], Vt[::-1]

    def cosine(self, mu: np.ndarray) -> float:
        """The largest cosine between a sample's gradient and Aθ at the last points."""
        worst = 0.0
        for theta, unit in self.last:
            image = mu * theta
            length = np.linalg.norm(image)
            worst = max(worst, float(np.abs(unit @ image).max() / length) if length else 0.0)
        return worst


def _chosen(search: _SymmetrySearch, params, s, Vt, approximate: float) -> Detected:
    exact, near = (int(np.sum(s <= limit)) for limit in (EXACT, max(approximate, EXACT)))
    basis = sparse_basis(Vt[:exact])
    wider = sparse_basis(Vt[:near], start=basis) if near > exact else np.zeros((0, search.size))
    unravel = ravel_pytree(params)[1]

    def made(mu: np.ndarray) -> Weighted:
        return weighted(jax.tree.map(np.asarray, unravel(jnp.asarray(mu))))

    found = {str(i): mu for i, mu in enumerate(basis, start=1)}
    almost = {f"~{i}": mu for i, mu in enumerate(wider, start=1)}
    return Detected(
        symmetries={name: made(mu) for name, mu in found.items()},
        approximate={name: made(mu) for name, mu in almost.items()},
        size={name: search.cosine(mu) for name, mu in (found | almost).items()},
        singular_values=s,
        points=search.points,
    )


def _unit_rows(rows: np.ndarray) -> np.ndarray:
    """Rows of length one; those that are zero (dead units only) stay."""
    top = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows = rows / np.where(top > 0, top, 1.0)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1.0)


@eqx.filter_jit
def _rows(loss, params, samples) -> jax.Array:
    def gradient(z):
        return ravel_pytree(jax.grad(loss)(params, *z))[0]

    return jax.lax.map(gradient, samples, batch_size=64)
