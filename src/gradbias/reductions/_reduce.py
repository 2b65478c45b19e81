"""Reduce → run → lift: one mechanism for two-layer, deep and rank-1 nets."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..nets import ChainNet, Deep, Net
from ..nets.base import product
from ..numerics.memo import latest
from ..numerics.types import Array, PyTree
from ..problems import Problem
from ..problems.base import LossOfOutputs
from ._closure import CERTIFICATE, about_norm, closed, invariant_bases, polished, small, unit
from ._growth_bound import Growth, growth_of, near_saddle
from ._row_space import Spanned, in_row_space
from ._scales import left_out, mixed_inputs, mixed_units, writable

EPS = float(np.finfo(np.float64).eps)


class Lift(NamedTuple):
    """From the parameters of the small net back to all parameters.

    Attributes:
        net: the user's net.
        bases: of the invariant subspaces; None stands for the whole space.
        rests: what lies outside, one per factor; None where nothing does.
        across: (I − P0) F1 E1, the part of the first rest that reaches the outputs.
    """

    net: ChainNet
    bases: list[Any]
    rests: list[Any]
    across: Any

    def predictor(self, params: PyTree) -> Any:
        """The end-to-end predictor, without the hidden width."""
        later = [params[f"W{k}"] for k in range(2, len(self.rests) + 1)]
        # Into all inputs last: the small predictor is narrow, a layer is not.
        inside = _sandwich(self.bases[0], product([params["W1"], *later]), None)
        if self.across is None:
            return inside
        return inside + params["rest"] * product([self.across, *later])

    def for_predictor(self) -> "Lift":
        """Only what `predictor` needs: of a wide net, next to nothing."""
        bases = [self.bases[0], *([None] * (len(self.bases) - 1))]
        return Lift(self.net, bases, [None] * len(self.rests), self.across)

    def __call__(self, params: PyTree) -> Any:
        factors = [
            inside if rest is None else inside + params["rest"] * rest
            for inside, rest in zip(self._inside(params), self.rests, strict=True)
        ]
        return self.net.from_factors(factors)

    def gradient(self, grads: PyTree) -> Any:
        """The gradient in all parameters: it has no part outside the subspaces."""
        return self.net.from_factors(self._inside(grads))

    def _inside(self, params) -> list[Any]:
        return [
            _sandwich(self.bases[k - 1], params[f"W{k}"], self.bases[k])
            for k in range(1, len(self.rests) + 1)
        ]


class Reduction(NamedTuple):
    """A smaller, equivalent run.

    Attributes:
        problem: the data in the basis of their row space.
        net: the small net.
        params: its parameters; "rest" is the scalar that multiplies what lies outside.
        lift: the way back.
        row_space: the basis in which the data are written.
        certificate: how far the subspaces are from invariant, relative.
        growth: how fast errors can grow; None where there are none that may.
        rounding: the size of errors that may: of what was left out, or of a change of basis near
            a saddle; zero where there are none.
    """

    problem: LossOfOutputs
    net: Deep
    params: dict[str, Any]
    lift: Lift
    row_space: np.ndarray
    certificate: float
    growth: Growth | None
    rounding: float


class Bases(NamedTuple):
    """Invariant subspaces: `closed` says what the others are."""

    bases: list[np.ndarray | None]
    residual: float
    even: bool
    leaves_out: list[bool]


def reduce(problem: Problem, net: Net, params: PyTree) -> Reduction | str:
    """The exact closure of a run, or a sentence that says why there is none."""
    if not isinstance(net, ChainNet):
        return f"{type(net).__name__} is not a product of matrices"
    if not isinstance(problem, Spanned):
        return f"the loss of {type(problem).__name__} is not known as one of the outputs"
    if problem.rank == 0:
        return "the data are zero"
    unseen = left_out(problem)
    if unseen is not None:
        return unseen
    factors = net.factors(params)
    inputs = np.abs(factors[0]).max(axis=1, initial=0.0)
    largest = [inputs.max(), *(np.abs(factor).max(initial=0.0) for factor in factors[1:])]
    if not all(map(writable, factors, largest)):
        return "the entries of a layer differ by more orders of magnitude than float64 holds"
    units, norms = zip(*map(unit, factors, largest), strict=True)
    row_space = _row_space(problem)
    found = _closed_bases(units, row_space)
    lost = None
    if small(inputs).any():
        lost = mixed_inputs(problem, row_space, inputs)
    if not found.even:
        found = _closed_bases(units, row_space, by_column=True)
        lost = lost or mixed_units(units, found.bases)
    if lost is not None:
        return lost
    if found.residual > CERTIFICATE:
        return f"invariance residual {found.residual:.1e} is above {CERTIFICATE:.0e}"
    bases = found.bases
    small_factors = list(map(_project, bases[:-1], factors, bases[1:]))
    dims = [small_factors[0].shape[0], *(factor.shape[1] for factor in small_factors)]
    if 0 in dims:
        return "a layer is cut off: no signal passes it"
    rests = _rests(factors, bases)
    across = None if rests[0] is None else _project(None, rests[0], bases[1])
    lift = Lift(net, bases, rests, across)
    inside = {f"W{k}": factor for k, factor in enumerate(small_factors, start=1)}
    inside["rest"] = np.asarray(1.0)
    seen = in_row_space(problem)
    small_net = chain_of(tuple(dims))
    rounding, growth = _errors(factors, small_factors, norms, rests, found)
    if growth is not None and not problem.convex:
        return "near a saddle rounding may grow, by an unknown amount where a loss is not convex"
    return Reduction(seen, small_net, inside, lift, row_space, found.residual, growth, rounding)


def _errors(
    factors: Sequence[np.ndarray],
    inside: Sequence[np.ndarray],
    norms: Sequence[float],
    rests: list[np.ndarray | None],
    found: Bases,
) -> tuple[float, Growth | None]:
    """How large errors are that may grow, and how fast they do; zero and None without any."""
    if len(factors) == 1:
        return 0.0, None  # no other factor through which an error could grow
    scaled = [
        small / norm if norm > 0 else small for small, norm in zip(inside, norms, strict=True)
    ]
    saddle = near_saddle(factors, scaled, found.bases)
    if not saddle and not any(found.leaves_out):
        return 0.0, None
    outside = [0.0 if rest is None else about_norm(rest) for rest in rests[1:-1]]
    shapes = [factor.shape for factor in inside]
    growth = growth_of([0.0, *outside, 0.0][: len(factors)], found.leaves_out, saddle, shapes)
    return float(max(found.residual, EPS) * max(norms)), growth


def _closed_bases(
    units: Sequence[np.ndarray], row_space: np.ndarray, by_column: bool = False
) -> Bases:
    """The invariant subspaces, and how well they close."""
    bases = invariant_bases(units, row_space, by_column)
    found = closed(units, bases, by_column)
    if found.residual > CERTIFICATE:
        bases = polished(units, bases, by_column)
        found = closed(units, bases, by_column)
    return Bases(bases, *found)


@latest
def _row_space(problem: Spanned) -> np.ndarray:
    """One array for all members: it is compared, and sent to workers, once."""
    return problem.row_space


@functools.lru_cache(maxsize=64)
def chain_of(dims: tuple[int, ...]) -> Deep:
    """A net of these sizes: one object for all members that have them."""
    return Deep(dims)


def _rests(factors: list[np.ndarray], bases: list[np.ndarray | None]) -> list[np.ndarray | None]:
    """(I − P0) F1, then (I − P(k−1)) Fk (I − Pk)."""
    rests: list[np.ndarray | None] = []
    for k, factor in enumerate(factors, start=1):
        left = bases[k - 1]
        right = bases[k]
        rest = _outside(left, factor)
        if k > 1 and rest is not None:
            turned = _outside(right, rest.T)
            rest = None if turned is None else turned.T
        rests.append(rest)
    return rests


def _outside(basis: np.ndarray | None, matrix: np.ndarray) -> np.ndarray | None:
    if basis is None or basis.shape[0] == basis.shape[1]:
        return None
    return matrix - basis @ (basis.T @ matrix)


def _project(left: np.ndarray | None, factor: np.ndarray, right: np.ndarray | None) -> np.ndarray:
    rows = factor if left is None else left.T @ factor
    return rows if right is None else rows @ right


def _sandwich(left, small, right) -> Array:
    rows = small if left is None else left @ small
    return rows if right is None else rows @ right.T
