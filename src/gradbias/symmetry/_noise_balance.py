"""The balance of gradient noise on any net: charges, noise, drift, distance to equilibrium."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._generators.symmetry import Symmetry
from ..numerics import checks
from ..numerics.host_rng import generator
from ..numerics.precision import host, to_numpy
from ..numerics.types import Number, PyTree
from ._charge_tracker import named
from ._generator_spectrum import squares_of
from ._jump_solvers import lam_star
from ._noether import NoetherFlow
from ._sample_gradients import Data, mean_gradient, mean_of, noise_of, prepared


@dataclasses.dataclass(frozen=True)
class NoiseBalance:
    """The state of one symmetry, or of a family; see `noise_balance`.

    Attributes:
        charge: C = θᵀAθ.
        trace: Tr[ΣA] over all samples.
        half_batches: the estimate of it from differences of half batches.
        error: its standard error; nan with less than two of them.
        flow: dC/dt and its causes.
        lam: λ*, how far each generator is from its equilibrium by itself, nan where not alive. Of
            a matrix family the B of all at once.
        alive: which generators are pulled both ways; others are dead units, or have no noise.
    """

    charge: Any
    trace: Any
    half_batches: Any
    error: Any
    flow: NoetherFlow
    lam: Any
    alive: Any

    @property
    def distance(self) -> float:
        """The mean |λ*| of what is alive, or ‖log P‖ = ‖2B‖ of a matrix family; nan if nothing."""
        if np.ndim(self.alive) == 0 and np.ndim(self.lam) == 2:
            return float(2 * np.linalg.norm(self.lam)) if self.alive else float("nan")
        live = np.abs(np.atleast_1d(self.lam))[np.atleast_1d(self.alive)]
        return float(live.mean()) if live.size else float("nan")


class Form(eqx.Module):
    """gᵀAg, whose mean over centred gradients is Tr[ΣA]."""

    symmetry: Symmetry

    def __call__(self, tree: PyTree) -> Number:
        return self.symmetry.form(tree, tree)


@host
def noise_balance(
    loss: Callable[..., Any],
    params: PyTree,
    data: Data,
    symmetries: Mapping[str, Symmetry],
    lr: float = 1.0,
    batch_size: int = 1,
    weight_decay: float = 0.0,
    replace: bool = True,
    half_batch: int | None = None,
    key: int = 0,
) -> dict[str, NoiseBalance]:
    r"""Measure the noise balance of any jax net: where its charges drift, how far they have to go.

    Σ is the covariance of one sample's gradient, from the gradients of all samples. The half
    batches are what one can afford in training: $\frac{s}{2}(g_1 - g_2)^T A (g_1 - g_2)$ of
    disjoint batches of s samples has the mean Tr[ΣA] (up to n/(n − 1), which is taken out).
    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖², t = steps·lr.

    Args:
        loss: `loss(params, *sample)` of one sample, written with jax.numpy; with data (X, Y) it
            is called as loss(params, x, y). For an equinox model, params is its array part
            (`eqx.partition`), and the loss combines it again.
        params: the point θ.
        data: an array, or a tuple of arrays whose first axis counts samples.
        symmetries: by name, such as net.symmetries() or what `detect` finds.
        lr: learning rate.
        batch_size: S.
        weight_decay: γ ≥ 0 (half of torch's weight decay).
        replace: batches with replacement? If not, noise is smaller by (n − S)/(n − 1).
        half_batch: s; a sixteenth of the data if None.
        key: an integer; decides the half batches.
    """
    params, samples = prepared(loss, params, data)
    lr = checks.number("lr", lr, above=0)
    gamma = checks.number("weight_decay", weight_decay, at_least=0)
    kappa = _kappa(lr, batch_size, len(samples[0]), replace)
    mean = mean_gradient(loss, params, samples)
    where = loss, params, samples, mean
    halves = _halves(loss, params, samples, half_batch, key)
    found = {}
    for name, symmetry in named(symmetries).items():
        trace = mean_of(Form(symmetry), *where)[()]
        charge = symmetry.charge(params)
        drift = -4 * gamma * charge, kappa * trace, lr * symmetry.form(mean, mean)
        squares = np.asarray(squares_of(symmetry)(params))
        noise = np.asarray(noise_of(squares_of(symmetry), *where))
        lam, alive = lam_star(symmetry, noise, squares, kappa, gamma)
        lam = np.where(alive, lam, np.nan)[()]
        estimates = _estimated(symmetry, halves, len(samples[0]))
        flow = NoetherFlow(charge, *drift, lr)
        found[name] = NoiseBalance(charge, trace, *estimates, flow, lam, alive)
    return found


def _kappa(lr: float, batch_size: int, n: int, replace: bool) -> float:
    S = checks.integer("batch_size", batch_size, at_least=1)
    if not replace and n < S:
        raise ValueError(f"batch_size must be at most the {n} samples, got {S}")
    return lr / S * (1.0 if replace or n == 1 else (n - S) / (n - 1))


def _halves(loss, params, samples, half_batch: int | None, key: int) -> tuple[Any, int]:
    """Differences of the gradients of disjoint batches (pairs, …), and the size of a batch."""
    n = len(samples[0])
    s = (
        max(n // 16, 1)
        if half_batch is None
        else checks.integer("half_batch", half_batch, at_least=1)
    )
    pairs = n // (2 * s)
    if half_batch is not None and pairs == 0:
        raise ValueError(f"half_batch must be at most half of the {n} samples, got {s}")
    order = generator(key, "symmetry.noise_balance").permutation(n)[: 2 * s * pairs]
    rows = order.reshape(pairs, 2, s)
    batches = tuple(array[rows] for array in samples)
    return to_numpy(_differences(loss, params, batches)) if pairs else None, s


def _estimated(symmetry: Symmetry, halves: tuple[Any, int], n: int) -> tuple[Any, Any]:
    """The mean of the half-batch estimates and its standard error."""
    differences, s = halves
    if differences is None:
        return np.nan, np.nan
    forms = s / 2 * (n - 1) / n * np.asarray(_forms(symmetry, differences))
    if len(forms) < 2:
        return forms[0], np.full_like(forms[0], np.nan)[()]
    with np.errstate(over="ignore"):  # of huge gradients the error is infinite
        return forms.mean(axis=0), forms.std(axis=0, ddof=1) / np.sqrt(len(forms))


@eqx.filter_jit
def _differences(loss, params, batches) -> PyTree:
    def mean(p, batch):
        return jnp.mean(jax.vmap(loss, (None, *(0 for _ in batch)))(p, *batch))

    def of_pair(pair):
        one, other = (jax.grad(mean)(params, tuple(a[i] for a in pair)) for i in (0, 1))
        return jax.tree.map(jnp.subtract, one, other)

    return jax.lax.map(of_pair, batches)


@eqx.filter_jit
def _forms(symmetry: Symmetry, trees) -> Number:
    return jax.vmap(lambda g: symmetry.form(g, g))(trees)


@dataclasses.dataclass(frozen=True)
class Drift:
    """How charges moved along a run, and how they should have; see `drift`.

    Attributes:
        observed: C at the end − C at the start.
        decay: ∫ −4γC dt.
        noise: ∫ κ Tr[ΣA] dt.
        gd: ∫ lr·ḡᵀAḡ dt.
    """

    observed: Any
    decay: Any
    noise: Any
    gd: Any

    @property
    def predicted(self) -> np.ndarray:
        """The sum of the three."""
        return self.decay + self.noise + self.gd

    @property
    def slope(self) -> float:
        """Observed against predicted over the generators of a family: 1 if they agree."""
        told = np.ravel(self.predicted)
        seen = np.ravel(self.observed)
        return float(told @ seen / (told @ told)) if np.any(told) else float("nan")

    @property
    def correlation(self) -> float:
        """Between observed and predicted; nan for a single charge."""
        told = np.ravel(self.predicted)
        seen = np.ravel(self.observed)
        if told.size < 2 or np.ptp(told) == 0 or np.ptp(seen) == 0:
            return float("nan")
        return float(np.corrcoef(told, seen)[0, 1])


@host
def drift(
    loss: Callable[..., Any],
    path: Sequence[Any],
    data: Data,
    symmetries: Mapping[str, Symmetry],
    lr: float,
    batch_size: int,
    every: int,
    weight_decay: float = 0.0,
    replace: bool = True,
) -> dict[str, Drift]:
    """The drift of charges along saved parameters of an SGD run, observed and predicted.

    The Noether flow is measured at the saved points and integrated by the trapezoidal rule.
    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖², t = steps·lr.

    Args:
        loss: `loss(params, *sample)` of one sample.
        path: parameters at steps 0, every, 2·every, …; at least two.
        data: what the run was trained on.
        symmetries: by name.
        lr: learning rate.
        batch_size: S.
        every: steps from one saved point to the next.
        weight_decay: γ ≥ 0.
        replace: batches with replacement?
    """
    if len(path) < 2:
        raise ValueError(f"path must hold at least two points, got {len(path)}")
    time = checks.number("lr", lr, above=0) * checks.integer("every", every, at_least=1)
    gamma = checks.number("weight_decay", weight_decay, at_least=0)
    chosen = named(symmetries)
    points = [prepared(loss, p, data) for p in path]
    kappa = _kappa(lr, batch_size, len(points[0][1][0]), replace)
    flows = [_causes(loss, *point, chosen, kappa, gamma, lr) for point in points]
    found = {}
    for name, symmetry in chosen.items():
        ends = [symmetry.charge(points[i][0]) for i in (0, -1)]
        causes = np.stack([flow[name] for flow in flows])
        totals = time * (causes.sum(axis=0) - (causes[0] + causes[-1]) / 2)
        found[name] = Drift(ends[1] - ends[0], *(total[()] for total in totals))
    return found


def _causes(
    loss, params, samples, symmetries, kappa: float, gamma: float, lr: float
) -> dict[str, np.ndarray]:
    mean = mean_gradient(loss, params, samples)
    where = loss, params, samples, mean
    return {
        name: np.stack(
            [
                -4 * gamma * np.asarray(s.charge(params)),
                kappa * np.asarray(mean_of(Form(s), *where)),
                lr * np.asarray(s.form(mean, mean)),
            ]
        )
        for name, s in symmetries.items()
    }
