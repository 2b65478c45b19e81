"""How large the unit of a net is to which each parameter belongs (jax-level).

The gradient in the weights that enter a hidden unit is a multiple of the weights that leave it, and
the reverse: a unit of 1e-12 grows from itself alone, whatever the size of its neighbours, and its
rounding errors are as small as it is. So an integrator can follow it to all digits, and has to if
it is to be right about the time at which the unit is learned.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp

from ..nets import MLP, ChainNet, Diagonal, Net
from ..numerics.types import PyTree


def unit_sizes(net: Net, params) -> PyTree:
    """For every parameter the root mean square of the smallest unit it is part of.

    Infinite where nothing is known: in nets whose units are not known, and for units of exact
    zeros, which never move. Shapes are those of the parameters, or broadcast to them.
    """
    sizes = jax.tree.map(lambda p: jnp.full((1,) * p.ndim, jnp.inf), params)
    if isinstance(net, Diagonal):  # every parameter is a multiple of itself
        return jax.tree.map(lambda p: _or_infinite(jnp.abs(p)), params)
    if isinstance(net, ChainNet):
        return {**sizes, **net.from_factors(_in_chain(net.factors(params), {}))}
    if isinstance(net, MLP):
        names = range(1, len(net.dims))
        biases = {k: params[f"b{k}"] for k in names} if net.bias else {}
        layers = _in_chain([params[f"W{k}"] for k in names], biases)
        found = {f"W{k}": layer for k, layer in zip(names, layers, strict=True)}
        found |= {f"b{k}": found[f"W{k}"].min(axis=0) for k in biases}
        return {**sizes, **found}
    return sizes


def _in_chain(layers: list[Any], biases: dict[int, Any]) -> list[Any]:
    """Of every weight in a chain of layers; `biases` belong to the units after layer k."""
    units = [jnp.full(layers[0].shape[0], jnp.inf)]
    for k, (before, after) in enumerate(itertools.pairwise(layers), start=1):
        enters = before if k not in biases else jnp.concatenate([before, biases[k][None]])
        units.append(_or_infinite(jnp.maximum(_rms(enters, 0), _rms(after, 1))))
    units.append(jnp.full(layers[-1].shape[1], jnp.inf))
    pairs = itertools.pairwise(units)
    return [jnp.minimum(enters[:, None], leaves[None, :]) for enters, leaves in pairs]


def _rms(matrix, axis: int) -> jax.Array:
    """Along one axis; divided by the largest first, since squares of 1e-200 are zero."""
    largest = jnp.max(jnp.abs(matrix), axis=axis, keepdims=True, initial=0.0)
    scaled = matrix / jnp.where(largest > 0, largest, 1.0)
    return jnp.squeeze(largest, axis) * jnp.sqrt(jnp.mean(scaled * scaled, axis=axis))


def _or_infinite(sizes) -> jax.Array:
    return jnp.where(sizes > 0, sizes, jnp.inf)
