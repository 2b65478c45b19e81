"""How far neighbouring factors are from balance: what gradient flow conserves."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import ChainNet, Net, Rank1, TwoLayer
from ..numerics import checks
from ..numerics.types import Array, PyTree
from ..problems import Problem, QuadraticProblem
from .base import Measurement, Observable, refuse


class Imbalance(Observable):
    r"""$\Lambda_k = F_k^T F_k - F_{k+1} F_{k+1}^T$ of a chain net; see `imbalance_of`."""

    pair: int | None = eqx.field(static=True, default=None)
    matrix: bool = eqx.field(static=True, default=False)
    row_space: bool = eqx.field(static=True, default=False)

    @property
    def name(self) -> str:
        number = "" if self.pair is None else f"_{self.pair}"
        return self._kind + number

    @property
    def _kind(self) -> str:
        seen = "_row_space" if self.row_space else ""
        return "imbalance" + seen + ("_matrix" if self.matrix else "")

    def bind(self, problem: Problem, net: Net) -> Measurement:
        pairs = len(net.chain) - 2 if isinstance(net, ChainNet) else 0
        if pairs < 1:
            refuse(self, "a product of at least two factors", net)
        if self.pair is not None and self.pair > pairs:
            raise ValueError(
                f"observable {self.name!r} needs a pair of at most {pairs} in this "
                f"{type(net).__name__}, got {self.pair}"
            )
        if not self.row_space:
            return self
        if not isinstance(problem, QuadraticProblem):
            refuse(self, "a problem that knows its row space", problem)
        return RowSpaceImbalance(self, np.asarray(problem.row_space))

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...] | None:
        if self._one(net) is None:
            return None
        axis = f"{self._kind}_{self._one(net)}"
        return (f"{axis}_row", f"{axis}_column") if self.matrix else (f"{axis}_mode",)

    def __call__(self, problem: Problem, net: Any, params: PyTree) -> PyTree:
        if self.row_space:
            raise ValueError("imbalance with row_space=True must be bound to a problem: call bind")
        return self.of(net, net.factors(params))

    def of(self, net: Net, factors: list[Any]) -> PyTree:
        """The imbalance of these factors: an array, or a dict with one for every pair."""
        one = self._one(net)
        if one is not None:
            return self._between(factors[one - 1], factors[one])
        return {str(k): self._between(factors[k - 1], factors[k]) for k in range(1, len(factors))}

    def _one(self, net) -> int | None:
        # A deep net gives a dict at every depth, so that a sweep over depths has the same names.
        return 1 if self.pair is None and isinstance(net, TwoLayer) else self.pair

    def _between(self, left, right) -> jax.Array:
        if self.matrix:
            return left.T @ left - right @ right.T
        return imbalance_spectrum(left, right)


class RowSpaceImbalance(eqx.Module):
    """An imbalance whose first factor is seen in the row space of the data."""

    imbalance: Imbalance
    basis: Any

    def __call__(self, problem: Problem, net: Any, params: PyTree) -> jax.Array:
        first, *rest = net.factors(params)
        return self.imbalance.of(net, [self.basis.T @ first, *rest])


class PairGap(Observable):
    """δ_k = ‖v1‖² − ‖u[k]‖² of a rank-1 net, one for every pair."""

    @property
    def name(self) -> str:
        return "gap"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        return _for_rank1(self, net)

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ("pair",)

    def __call__(self, problem: Problem, net: Any, params: PyTree) -> jax.Array:
        return _square(params["v1"]) - _square(params["u"])


class PairImbalance(Observable):
    """Δ = Σ_k (‖v[k]‖² − ‖u[k]‖²)/‖u[k]‖² / (2·depth − 1) of a rank-1 net.

    Signed: pairs can cancel. Undefined (NaN or infinite) when some u[k] is zero.
    """

    @property
    def name(self) -> str:
        return "pair_imbalance"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        return _for_rank1(self, net)

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def __call__(self, problem: Problem, net: Any, params: PyTree) -> jax.Array:
        u = _square(params["u"])
        v = _square(params["v"])
        return jnp.sum((v - u) / u) / (2 * net.depth - 1)


def imbalance_of(
    pair: int | None = None, *, matrix: bool = False, row_space: bool = False
) -> Imbalance:
    """The imbalance of a chain net with settings; `imbalance` is the one without.

    The spectrum of Λ_k, the largest first: min(h, a + b) eigenvalues, where the factors are
    (a, h) and (h, b). The h − a − b others are zero and left out; they belong between the
    positive and the negative ones. Two-layer nets give an array, other chains a dict with an
    array for every pair of neighbours "1", "2", …

    Args:
        pair: only Λ of this pair, counted from 1.
        matrix: the h×h matrix instead of its spectrum.
        row_space: the first factor projected on the row space of the data, as the rates need it.
    """
    pair = None if pair is None else checks.integer("pair", pair, at_least=1)
    for name, flag in (("matrix", matrix), ("row_space", row_space)):
        if not isinstance(flag, bool):
            raise ValueError(f"{name} must be True or False, got {flag!r:.80}")
    return Imbalance(pair, matrix, row_space)


def imbalance_spectrum(left: Array, right: Array) -> jax.Array:
    """The eigenvalues of leftᵀleft − right rightᵀ without those that are zero by width alone."""
    a, h = left.shape
    stacked = jnp.concatenate([left, right.T])
    if h > len(stacked):  # the same spectrum in a basis of the span, never h×h
        stacked = jnp.linalg.qr(stacked.T, mode="r").T
    top = stacked[:a]
    bottom = stacked[a:]
    return jnp.linalg.eigvalsh(top.T @ top - bottom.T @ bottom)[::-1]


def _for_rank1(observable: Observable, net) -> Measurement:
    if not isinstance(net, Rank1):
        refuse(observable, "a Rank1 net", net)
    return observable


def _square(vectors) -> jax.Array:
    return jnp.sum(vectors * vectors, axis=-1)


imbalance: Imbalance = Imbalance()
gap: PairGap = PairGap()
pair_imbalance: PairImbalance = PairImbalance()
