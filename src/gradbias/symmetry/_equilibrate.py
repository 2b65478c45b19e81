"""Jumps along symmetries: to the noise equilibrium, or to equal norms. No output changes."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import scipy.linalg

from .._generators.symmetry import Symmetry
from ..numerics import checks
from ..numerics.precision import host
from ._charge_tracker import named
from ._generator_spectrum import pulls, rates, squares_of
from ._jump_solvers import MeasuredNoise, joint_jump, swept_jump
from ._sample_gradients import (
    Square,
    gradients,
    losses,
    mean_gradient,
    noise_of,
    prepared,
    without_rounding,
)
from ._weighted import diagonals


@dataclasses.dataclass(frozen=True)
class Jump:
    """A function-preserving move, and what it changed.

    Attributes:
        params: where it ends.
        lam: how far it went along each generator, by name; for a matrix family the symmetric B of
            its seam, W → W e^B up to a rotation.
        alive: which generators are pulled both ways; the others, such as dead units, have no
            equilibrium and stay.
        ratio_before: the pull up over the pull down of each charge, by name: 1 at equilibrium,
            nan where not alive. For a matrix family the eigenvalues of one relative to the other.
        ratio_after: the same at the end, measured anew.
        noise_before: Tr Σ of one sample's gradient; nan without data.
        noise_after: Tr Σ at the end, measured anew.
        norm_before: ‖θ‖².
        norm_after: ‖θ‖² at the end.
        change: the largest change of any sample's loss, relative to the largest loss; nan without
            data.
    """

    params: Any
    lam: dict[str, Any]
    alive: dict[str, Any]
    ratio_before: dict[str, Any]
    ratio_after: dict[str, Any]
    noise_before: float
    noise_after: float
    norm_before: float
    norm_after: float
    change: float

    @property
    def moved(self) -> float:
        """The largest |λ|."""
        return max((float(np.abs(lam).max(initial=0.0)) for lam in self.lam.values()), default=0.0)


@host
def equilibrate(
    params: Any,
    symmetries: Mapping[str, Symmetry],
    loss: Callable[..., Any],
    data: Any,
    kappa: float = 1.0,
    weight_decay: float = 0.0,
) -> Jump:
    r"""Jump along symmetries to their joint noise equilibrium; no output of the net changes.

    It is the point of the orbit with the least $\kappa\,\mathrm{Tr}\Sigma + 4\gamma\|\theta\|^2$,
    a convex problem: the charges of all symmetries stand still there. Without decay κ does not
    matter. Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖².

    Diagonal symmetries (rescalings, units, what `detect` finds) are solved together by Newton's
    method. Others are balanced one after the other, matrices by their geometric mean, which takes
    long where they share layers (deep linear nets: see `theory.symmetry.deep_equilibrium`).

    It removes instability that comes from imbalance and makes a start independent of where on
    its orbit it is; it does not replace warm-up at a well-scaled start, and plain `balance` does
    as well as it.

    Args:
        params: where to start.
        symmetries: by name, such as net.symmetries().
        loss: `loss(params, *sample)` of one sample, written with jax.numpy; with data (X, Y) it
            is called as loss(params, x, y).
        data: an array, or a tuple of arrays whose first axis counts samples.
        kappa: lr/S.
        weight_decay: γ ≥ 0 (half of torch's weight decay).
    """
    params, samples = prepared(loss, params, data)
    return _jump(_Data(loss, samples), params, named(symmetries), *rates(kappa, weight_decay))


@host
def balance(
    params: Any,
    symmetries: Mapping[str, Symmetry],
    loss: Callable[..., Any] | None = None,
    data: Any = None,
) -> Jump:
    """Jump along symmetries to the least ‖θ‖² of the orbit: equal norms in and out, no data.

    It is the equilibrium of weight decay alone, and in experiments as good as `equilibrate`.
    Scalings, with nothing on the other side, stay where they are.

    Args:
        params: where to start.
        symmetries: by name, such as net.symmetries().
        loss: of one sample; with it and `data` the noise before and after is reported too.
        data: an array, or a tuple of arrays whose first axis counts samples.
    """
    if (loss is None) != (data is None):
        raise ValueError("loss and data must be given together, or neither")
    params = jax.tree.map(lambda leaf: checks.array("params", leaf), params)
    source = None
    if loss is not None:
        params, samples = prepared(loss, params, data)
        source = _Data(loss, samples)
    return _jump(source, params, named(symmetries), 0.0, 0.25)


@dataclasses.dataclass(frozen=True)
class _Data:
    """A loss on samples: where noise comes from."""

    loss: Callable[..., Any]
    samples: tuple[np.ndarray, ...]

    def measure(self, params: Any, symmetries: Mapping[str, Symmetry]) -> MeasuredNoise:
        """The noise at a point: entry by entry, and in the eigenbasis of every family."""
        centre = mean_gradient(self.loss, params, self.samples)
        where = self.loss, params, self.samples, centre
        diagonal = noise_of(Square(), *where)
        noise = {name: noise_of(squares_of(s), *where) for name, s in symmetries.items()}
        return MeasuredNoise(params, diagonal, noise)

    def centred(self, params: Any) -> Any:
        """The gradients of all samples, less their mean."""
        each = gradients(self.loss, params, self.samples)
        return jax.tree.map(_less_mean, each)

    def losses(self, params: Any) -> np.ndarray:
        """The losses of the samples."""
        return losses(self.loss, params, self.samples)


def _less_mean(rows: np.ndarray) -> np.ndarray:
    mean = rows.mean(axis=0)
    less = rows - mean
    return np.where(without_rounding((less**2).mean(axis=0), mean**2) > 0, less, 0.0)


def _jump(
    source: _Data | None,
    params: Any,
    symmetries: dict[str, Symmetry],
    kappa: float,
    gamma: float,
) -> Jump:
    for symmetry in symmetries.values():
        symmetry.charge(params)  # unknown names are refused here, with a sentence
    before = _measured(source, params, symmetries)
    if all(diagonals(s, params) is not None for s in symmetries.values()):
        end, lam, alive = joint_jump(before, symmetries, kappa, gamma)
    else:
        each = None if source is None or kappa == 0 else source.centred(params)
        end, lam, alive = swept_jump(params, each, symmetries, kappa, gamma)
    after = _measured(source, end, symmetries)
    noise = [float("nan") if source is None else m.total for m in (before, after)]
    return Jump(
        params=end,
        lam=lam,
        alive=alive,
        ratio_before=_ratios(before, symmetries, alive, kappa, gamma),
        ratio_after=_ratios(after, symmetries, alive, kappa, gamma),
        noise_before=noise[0],
        noise_after=noise[1],
        norm_before=before.norm,
        norm_after=after.norm,
        change=_change(source, params, end),
    )


def _measured(
    source: _Data | None, params: Any, symmetries: Mapping[str, Symmetry]
) -> MeasuredNoise:
    if source is not None:
        return source.measure(params, symmetries)
    nothing = jax.tree.map(np.zeros_like, params)
    none = {n: np.zeros(jax.eval_shape(squares_of(s), params).shape) for n, s in symmetries.items()}
    return MeasuredNoise(params, nothing, none)


def _ratios(
    at: MeasuredNoise,
    symmetries: Mapping[str, Symmetry],
    alive: dict[str, Any],
    kappa: float,
    gamma: float,
) -> dict[str, Any]:
    found = {}
    for name, symmetry in symmetries.items():
        up, down = pulls(symmetry, at.noise[name], at.squares(symmetry), kappa, gamma)
        found[name] = ratio_of(up, down, alive[name])
    return found


def ratio_of(up: Any, down: Any, alive: Any) -> Any:
    """up/down; of matrices the eigenvalues of one relative to the other; nan where not alive."""
    if np.ndim(up) == 2:
        return scipy.linalg.eigh(up, down)[0] if alive else np.full(len(up), np.nan)
    with np.errstate(over="ignore"):  # far from balance a ratio may be infinite
        return np.where(alive, up / np.where(alive, down, 1.0), np.nan)[()]


def _change(source: _Data | None, params: Any, end: Any) -> float:
    if source is None:
        return float("nan")
    old = source.losses(params)
    new = source.losses(end)
    size = np.abs(old).max()
    return float(np.abs(new - old).max() / size) if size > 0 else float(np.abs(new).max())
