"""How fast that can grow which a reduction leaves out.

A direction that is rounding in the parameters, 1e-16 of a layer, is left out of the invariant
subspaces. A run near a saddle may make it grow. Let ε stand for the blocks of the factors that
lead out of the subspaces or back into them. Each step is linear in them to first order,
ε ← (I − lr·M)ε, where M takes one block to another: the slope in the predictor times the other
factors, of which those between the two act outside. So ε grows by exp(∫‖M‖ dt) at most, and by
half of lr·‖M‖² more for every step that sees a noisy M.

The same holds for errors inside the subspaces (a change of basis rounds, too), if "between" are
all factors: there a second term, from the curvature of the loss, only damps them.
"""

import functools
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..nets._base import as_matrix
from ..numerics.modules import Module

NEAR_SADDLE = 1e-8  # of the product of their sizes: a chain of layers that cancel each other


class Growth(Module):
    """How fast small errors of a reduced run can grow.

    Attributes:
        outside: of each factor, the norm of what acts outside of the subspaces.
        leads_out: of each space between two factors, 1 where something is left out, else 0.
        inside: 1 if errors inside the subspaces count as well, else 0.
    """

    outside: Any
    leads_out: Any
    inside: Any

    def __call__(self, problem, net, params, batch) -> Any:
        """A bound on ‖M‖, and on ‖M‖² with the slope of a batch; 0 without one (jax-level)."""
        theta = as_matrix(net.predictor(params))
        slope, noisy = norm(problem.theta_gradient(theta), jnp), jnp.asarray(0.0)
        if batch is not None:
            noisy = norm(problem.theta_gradient(theta, batch), jnp)
        others = self.others([norm(factor, jnp) for factor in net.factors(params)], jnp)
        return jnp.stack([slope * others, (noisy * others) ** 2])

    def others(self, sizes: list[Any], xp: Any = np) -> Any:
        """The largest row sum of M over the slope: products of all factors but two.

        Args:
            sizes: the norms of the factors.
            xp: numpy, or jax.numpy inside of compiled code.
        """
        count, one, zero = len(sizes), xp.asarray(1.0), xp.asarray(0.0)
        if count == 1:
            return zero
        between = [xp.maximum(self.outside[i], self.inside * sizes[i]) for i in range(count)]
        leads = [xp.maximum(self.leads_out[i], self.inside) for i in range(count - 1)]
        before, after = [one], [one]
        for i in range(count - 1):
            before.append(before[-1] * sizes[i])
            after.append(after[-1] * sizes[count - 1 - i])
        after.reverse()  # products of the factors before, and after, each of them
        # Pairs with a later factor, and with an earlier one, one after the other.
        later, earlier = [zero] * count, [zero] * count
        for i in reversed(range(count - 1)):
            later[i] = leads[i] * (after[i + 1] + between[i + 1] * later[i + 1])
        for i in range(1, count):
            earlier[i] = leads[i - 1] * (before[i - 1] + between[i - 1] * earlier[i - 1])
        rows = [before[i] * later[i] + after[i] * earlier[i] for i in range(count)]
        return xp.max(xp.stack(rows))


def growth_of(outside: list[float], leads_out: list[bool], inside: bool) -> Growth:
    """One object for all members whose norms are about equal."""
    return _growth(tuple(map(_rounded_up, outside)), tuple(leads_out), inside)


@functools.lru_cache(maxsize=64)
def _growth(outside: tuple[float, ...], leads_out: tuple[bool, ...], inside: bool) -> Growth:
    return Growth(np.asarray(outside), np.asarray(leads_out, float), np.asarray(float(inside)))


def _rounded_up(value: float) -> float:
    """By a fifth at least, to four steps an octave; rounding to zero."""
    if value < 1e-12:
        return 0.0
    return 2.0 ** (math.ceil(4 * math.log2(1.2 * value)) / 4)


def near_saddle(factors: list[np.ndarray], bases: list[np.ndarray | None]) -> bool:
    """Do exact zeros, or layers that cancel each other, hold still what rounding would set free?

    Not where every basis takes coordinates as they are: that rounds nothing.
    """
    if all(basis is None or np.count_nonzero(basis) == basis.shape[1] for basis in bases):
        return False
    if any(np.any(factor == 0) for factor in factors):
        return True
    for chain in (factors, [factor.T for factor in reversed(factors)]):
        product = chain[0] / _size(chain[0])
        for factor in chain[1:]:
            product = product @ (factor / _size(factor))
            if np.abs(product).max(initial=0.0) < NEAR_SADDLE:
                return True
    return False


def _size(factor: np.ndarray) -> float:
    return float(np.abs(factor).max(initial=0.0)) or 1.0


def norm(matrix, xp: Any = np) -> Any:
    """The spectral norm or a little more: (Σ σ¹⁶)^(1/16), which takes three products.

    Args:
        matrix: of any size.
        xp: numpy, or jax.numpy inside of compiled code.
    """
    largest = xp.max(xp.abs(matrix), initial=0.0)
    unit = matrix / xp.where(largest > 0, largest, 1.0)
    squares = unit @ unit.T if matrix.shape[0] <= matrix.shape[1] else unit.T @ unit
    fourth = squares @ squares
    eighth = fourth @ fourth
    return largest * xp.sum(eighth * eighth) ** (1 / 16)
