"""Observables at the end of gradient flow: SGD itself is a distance of order √lr off Γ."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..numerics.precision import to_numpy
from ..numerics.types import PyTree
from ..observe import Observable
from ..observe.base import Measurement
from ._fit_manifold import Ground, ground
from ._landing import land


class AtLimit(Observable):
    """A measurement at Φ(params); NaN where gradient flow ends on no manifold of minimisers.

    Args:
        inner: what is measured there.
    """

    inner: Observable

    @property
    def name(self) -> str:
        return "at_limit"

    def bind(self, problem, net) -> Measurement:
        return _Bound(self.inner.bind(problem, net), to_numpy(_ground(problem, net)))

    def __call__(self, problem, net, params) -> PyTree:
        return _Bound(self.inner, ground(problem, net))(problem, net, params)


class _Bound(eqx.Module):
    measure: Measurement
    ground: Ground

    def __call__(self, problem, net, params) -> PyTree:
        target = self.ground.target(problem, net, params)
        landed = land(target, ravel_pytree(params)[0])
        value = self.measure(problem, net, target.point(landed.point))
        return jax.tree.map(
            lambda part: jnp.where(landed.arrived, jnp.asarray(part, float), jnp.nan), value
        )


@eqx.filter_jit
def _ground(problem, net) -> Ground:
    return ground(problem, net)
