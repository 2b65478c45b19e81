"""How wrong a step may be, and how long the next one is (jax-level)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..numerics.pytrees import Module
from ..numerics.types import PyTree
from ._unit_sizes import unit_sizes

ABSOLUTE = 1e-11  # of what is smallest: layers at the start, units as they are
TINY = 1e-300  # an error of zero is none, also where zero is allowed
HUGE = 1e150  # times what is allowed: its square is finite
SAFETY = 0.9
SHRINK = 0.2
GROW = 10.0


class Tolerance(Module):
    """rtol·|p| + atol for every parameter, with an atol of its own for every hidden unit.

    Attributes:
        rtol: relative to a parameter.
        atol: what is allowed at least.
        by_unit: is less allowed in small units?
    """

    rtol: Any
    atol: Any
    by_unit: bool = eqx.field(static=True)

    @classmethod
    def at(cls, rtol: np.ndarray, atol: np.ndarray | None, params: PyTree) -> "Tolerance":
        """For a run from these parameters; `atol` None looks at their sizes."""
        if atol is not None:
            return cls(rtol, atol, False)
        return cls(rtol, np.asarray(ABSOLUTE * _smallest_layer(params)), True)

    def ratio(self, net: Net, params: PyTree, candidate: PyTree, error: PyTree) -> jax.Array:
        """The largest error of a unit over what is allowed; infinite if a step overflowed."""
        allowed = jax.tree.map(
            lambda p, c, a: self.rtol * jnp.maximum(jnp.abs(p), jnp.abs(c)) + a + TINY,
            params,
            candidate,
            self._absolute(net, params),
        )
        ratio = _largest(jax.tree.map(lambda e, a: jnp.clip(e / a, -HUGE, HUGE), error, allowed))
        leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(candidate)]
        finite = jnp.all(jnp.stack(leaves)) & jnp.isfinite(ratio)
        return jnp.where(finite, ratio, jnp.inf)

    def distance(self, net: Net, params: PyTree, before: PyTree, anchor: PyTree) -> jax.Array:
        """The largest change of a parameter since the anchor, in units of the tolerance.

        A tiny unit's is in its own, since it may still grow; one that shrinks towards zero would
        move for ever, and counts as the others do. `before` is the state a step earlier.
        """
        units = jax.tree.map(
            lambda p, a, least: jnp.max(
                jnp.abs(p - a) / (least + self.rtol * jnp.abs(p) + TINY), initial=0.0
            ),
            params,
            anchor,
            self._absolute_unless_shrinking(net, params, before, anchor),
        )
        return jnp.max(jnp.stack(jax.tree.leaves(units)))

    def _absolute(self, net: Net, params) -> PyTree:
        if not self.by_unit:
            return jax.tree.map(lambda p: self.atol, params)
        sizes = unit_sizes(net, params)
        return jax.tree.map(lambda size: jnp.minimum(self.atol, ABSOLUTE * size), sizes)

    def _absolute_unless_shrinking(self, net: Net, params, before, anchor) -> PyTree:
        least = self._absolute(net, params)
        if not self.by_unit:
            return least
        sizes = [unit_sizes(net, p) for p in (params, before, anchor)]
        return jax.tree.map(
            lambda own, now, step, far: jnp.where((now < step) & (now < far), self.atol, own),
            least,
            *sizes,
        )


def first_size(
    field: Callable[[Any], Any], tolerance: Tolerance, net: Net, params: PyTree
) -> jax.Array:
    """A first step on which the parameters and the field change by a hundredth at most."""
    speed = field(params)
    zeros = jax.tree.map(jnp.zeros_like, params)
    size = tolerance.ratio(net, params, zeros, params)
    fast = tolerance.ratio(net, params, zeros, speed)
    dt = jnp.where((size > 0) & (fast > 0), 0.01 * size / fast, 1e-6)
    there = field(jax.tree.map(lambda p, v: p + dt * v, params, speed))
    bend = tolerance.ratio(net, params, zeros, jax.tree.map(jnp.subtract, there, speed))
    return jnp.where(bend > 0, dt * jnp.minimum(100.0, 0.1 * fast / bend), 100 * dt)


def next_size(dt, ratio, order: int) -> tuple[Any, Any]:
    """Is a step kept, and how long is the next one?"""
    keep = ratio < 1
    factor = SAFETY * ratio ** (-1 / order)
    low = jnp.where(keep, 1.0, SHRINK)
    high = jnp.where(keep, GROW, SAFETY)
    return keep, dt * jnp.clip(factor, low, high)


def _largest(errors) -> jax.Array:
    """The largest root mean square of a row or column: a unit is not lost among many others."""
    squares = [leaf * leaf for leaf in jax.tree.leaves(errors) if leaf.size]
    means = [
        jnp.maximum(jnp.max(s.mean(axis=0)), jnp.max(s.mean(axis=-1))) if s.ndim > 1 else jnp.max(s)
        for s in squares
    ]
    return jnp.sqrt(jnp.max(jnp.stack(means)))


def _smallest_layer(params) -> float:
    """The root mean square of the smallest non-zero layer; 1 if all are zero."""
    sizes = [_rms(p) for p in jax.tree.leaves(params) if np.any(p)]
    return float(min(sizes, default=1.0))


def _rms(array: np.ndarray) -> float:
    largest = np.abs(array).max()  # divided out: squares of 1e-200 are zero
    return largest * np.sqrt(np.mean(np.square(array / largest)))
