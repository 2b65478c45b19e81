"""How far to go along each symmetry: all at once where they are diagonal, else in sweeps."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from .._generators.symmetry import Symmetry
from ..numerics.balance_roots import orbit_balance, signed_root
from ..numerics.precision import to_numpy
from ..numerics.psd import rank, riccati
from ._generator_spectrum import eigenvalues, is_matrix, pulls, squares_of
from ._weighted import diagonals

SWEEPS = 3000  # of one family after the other before it is given up
CLOSE = 1e-12  # the imbalance at which sweeps end

Found = tuple[Any, dict[str, Any], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class MeasuredNoise:
    """A point, and the gradient noise there.

    Attributes:
        params: the point.
        diagonal: the diagonal of Σ, of the parameters' shapes.
        noise: for each family the noise along its eigenvectors.
    """

    params: Any
    diagonal: Any
    noise: dict[str, np.ndarray]

    @property
    def total(self) -> float:
        """Tr Σ."""
        return float(sum(np.sum(leaf) for leaf in jax.tree.leaves(self.diagonal)))

    @property
    def norm(self) -> float:
        """‖θ‖²."""
        return float(sum(np.sum(leaf * leaf) for leaf in jax.tree.leaves(self.params)))

    def squares(self, symmetry: Symmetry) -> np.ndarray:
        """The squares of the parameters along its eigenvectors."""
        return np.asarray(squares_of(symmetry)(self.params))


def joint_jump(
    at: MeasuredNoise, symmetries: Mapping[str, Symmetry], kappa: float, gamma: float
) -> Found:
    """The joint equilibrium of diagonal families: the end, λ and what is alive, by name."""
    columns = []
    sizes = {}
    for name, symmetry in symmetries.items():
        found = diagonals(symmetry, at.params)
        assert found is not None
        unit, mu = found
        sizes[name] = np.shape(symmetry.charge(at.params))
        shape = (mu.size, int(np.prod(sizes[name])))
        columns.append(scipy.sparse.csc_array((mu, (np.arange(mu.size), unit)), shape=shape))
    if not columns:
        return at.params, {}, {}
    with np.errstate(divide="ignore"):
        noise = np.log(kappa) + np.log(_flat(at.diagonal))
        decay = np.log(4 * gamma) + 2 * np.log(np.abs(_flat(at.params)))
    solved = orbit_balance(scipy.sparse.csc_array(scipy.sparse.hstack(columns)), noise, decay)
    if not solved.reached:
        worst = float(np.abs(solved.imbalance).max(initial=0.0))
        raise ValueError(
            "symmetries: these have no joint equilibrium at a finite distance (an imbalance of "
            f"{worst:.1e} is left): along some combination of them noise and decay only fall. "
            "Leave out some of them, or give weight_decay > 0"
        )
    lam = _split(solved.x, sizes)
    alive = _split(solved.alive, sizes)
    return _moved(at.params, symmetries, lam), lam, alive


def _moved(params: Any, symmetries: Mapping[str, Symmetry], lam: Mapping[str, Any]) -> Any:
    for name, symmetry in symmetries.items():
        params = symmetry.move(params, lam[name])
    return params


def _split(values: np.ndarray, sizes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    stops = np.cumsum([int(np.prod(size)) for size in sizes.values()])[:-1]
    parts = np.split(values, stops)
    return {n: p.reshape(s)[()] for (n, s), p in zip(sizes.items(), parts, strict=True)}


def swept_jump(
    params: Any, each: Any, symmetries: Mapping[str, Symmetry], kappa: float, gamma: float
) -> Found:
    """The equilibrium of families of any kind, one after the other until nothing moves.

    Args:
        params: where to start.
        each: the centred gradients of all samples; None for no noise.
        symmetries: by name.
        kappa: lr/S.
        gamma: γ.
    """
    lam = {}
    alive = {}
    turns = {}
    worst = 0.0
    for _ in range(SWEEPS):
        worst = 0.0
        for name, symmetry in symmetries.items():
            step, alive[name] = _step(symmetry, params, each, kappa, gamma)
            worst = max(worst, float(np.abs(step).max(initial=0.0)))
            params = symmetry.move(params, step)
            each = None if each is None else to_numpy(_carried(symmetry, each, step))
            if is_matrix(symmetry):
                turns[name] = turns.get(name, np.eye(len(step))) @ _exponential(step)
                lam[name] = _symmetric_part(turns[name])
            else:
                lam[name] = lam.get(name, 0.0) + step
        if worst <= CLOSE:
            return params, lam, alive
    raise ValueError(
        f"symmetries: the families still move by {worst:.1e} after {SWEEPS} sweeps: some share "
        "layers and converge slowly, or their equilibrium is at infinity. Give weight_decay > 0 "
        "or use theory.symmetry.deep_equilibrium for linear chains"
    )


def _step(symmetry: Symmetry, params: Any, each: Any, kappa: float, gamma: float) -> Any:
    """λ* of one family here, and which of its generators have one; 0 for the others."""
    squares = np.asarray(squares_of(symmetry)(params))
    noise = (
        np.zeros_like(squares) if each is None else np.asarray(_noise(squares_of(symmetry), each))
    )
    return lam_star(symmetry, noise, squares, kappa, gamma)


def lam_star(
    symmetry: Symmetry, noise: np.ndarray, squares: np.ndarray, kappa: float, gamma: float
) -> tuple[Any, Any]:
    """λ* of every generator by itself, 0 where there is none, and where there is one.

    Of a matrix family it is the B of the geometric mean, all at once.
    """
    if is_matrix(symmetry):
        up, down = pulls(symmetry, noise, squares, kappa, gamma)
        if rank(up) < len(up) or rank(down) < len(down):
            return np.zeros_like(up), np.False_
        return _half_log(riccati(down, up)), np.True_
    mu = np.broadcast_to(eigenvalues(symmetry), squares.shape)
    with np.errstate(divide="ignore"):
        logs = [np.log(kappa) + np.log(noise), np.log(4 * gamma) + np.log(squares)]
    x = signed_root(mu, *logs).x
    alive = np.isfinite(x)
    return np.where(alive, x, 0.0)[()], alive[()]


@eqx.filter_jit
def _noise(squares, each) -> Any:
    return jnp.mean(jax.vmap(squares)(each), axis=0)


@eqx.filter_jit
def _carried(symmetry: Symmetry, each, step) -> Any:
    """Gradients move against the parameters."""
    return jax.vmap(lambda g: symmetry.move(g, -jnp.asarray(step)))(each)


def _exponential(B: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(B)
    return (vectors * np.exp(values)) @ vectors.T


def _half_log(P: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(P)
    return (vectors * (np.log(values) / 2)) @ vectors.T


def _symmetric_part(turn: np.ndarray) -> np.ndarray:
    """The symmetric B with W·turn = W·e^B up to a rotation in the seam."""
    return _half_log(turn @ turn.T)


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
