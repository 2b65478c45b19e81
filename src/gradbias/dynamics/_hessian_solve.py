"""Linear systems with the Hessian of an objective, (c + H) x = b (jax-level).

In the exact closure of a product of matrices on quadratic data the inputs are the eigenvectors of
their Gram matrix: the rows of the first layer do not see each other, and the block of the Hessian
that belongs to it is diagonal up to a rotation of its columns. It is by far the largest layer, and
is eliminated without a factorisation of its own.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..nets import MLP, Deep
from ..nets.base import product
from ..problems._population import DiagonalExcess
from ..problems._regression import SpectralExcess
from ._two_layers import two_layer_solver
from .protocol import System

MOST_DENSE = 1000  # rows of a matrix that is factorised ten times in a step
MOST_ELIMINATED = 5_000_000  # numbers in the block between the first layer and the others

Solve = Callable[[Any], Any]


def why_explicit(system: System, params) -> str | None:
    """Why steps cannot be implicit; None if they can."""
    net = system.net
    if isinstance(net, MLP) and net.activation in ("relu", "leaky"):
        return f"a loss with the kinks of {net.activation} has no Hessian that is of use"
    count = sum(p.size for p in jax.tree.leaves(params))
    first = params["W1"].size if _eliminates(system, params) else 0
    others = count - first
    if others <= MOST_DENSE and first * others <= MOST_ELIMINATED:
        return None
    return (
        f"the Hessian of {count} parameters (after the exact closure, if there is one) is too "
        "large to be factorised at every step"
    )


def shifted_solver(system: System, field: Solve, weight_decay, params) -> Callable[[Any], Solve]:
    """Of a shift c the map b → (c + H)⁻¹ b on flat vectors; not finite unless c + H is positive.

    Args:
        system: what moves.
        field: −∇ of the objective on flat vectors.
        weight_decay: of the objective; None for none.
        params: where the Hessian is taken.
    """
    point = ravel_pytree(params)[0]
    if _eliminates(system, params):
        if len(system.net.dims) == 3:
            return two_layer_solver(system, weight_decay, params, rates_of(system))
        return _eliminated(system, field, weight_decay, params, point)
    hessian = -jax.jacfwd(field)(point)
    hessian = (hessian + hessian.T) / 2
    identity = jnp.eye(point.size)

    def shifted(shift) -> Solve:
        root = jnp.linalg.cholesky(shift * identity + hessian, symmetrize_input=False)
        return lambda b: jax.scipy.linalg.cho_solve((root, True), b)

    return shifted


def nothing_grows(system: System, field: Solve, weight_decay, params, time) -> jax.Array:
    """Has the Hessian no negative eigenvalue that would show in ten times this time?"""
    point, shaped = ravel_pytree(params)

    def flat(point) -> jax.Array:
        return ravel_pytree(field(shaped(point)))[0]

    solve = shifted_solver(system, flat, weight_decay, params)(0.1 / time)
    return jnp.all(jnp.isfinite(solve(jnp.ones_like(point))))


def _eliminates(system: System, params) -> bool:
    excess = system.gap.excess
    in_eigenbasis = isinstance(excess, DiagonalExcess) or (
        isinstance(excess, SpectralExcess) and excess.Vt is None
    )
    chain = isinstance(system.net, Deep) and isinstance(params, dict) and min(params) == "W1"
    return in_eigenbasis and chain and len(system.net.dims) > 2


def rates_of(system: System) -> jax.Array:
    """How fast the gradient in a row of the predictor grows with it; a column."""
    theta = jnp.zeros((system.net.dims[0], system.net.dims[-1]))
    gradient = system.problem.theta_gradient
    return (gradient(theta + 1) - gradient(theta))[:, :1]


def _eliminated(
    system: System, field: Solve, weight_decay, params, point
) -> Callable[[Any], Solve]:
    rows, columns = params["W1"].shape
    first = rows * columns
    rates = rates_of(system)
    later = product(system.net.factors(params)[1:])
    sizes, turn = jnp.linalg.eigh(later @ later.T)
    diagonal = rates * jnp.maximum(sizes, 0.0)[None, :]
    if weight_decay is not None:
        diagonal = diagonal + 2 * weight_decay
    diagonal = diagonal.ravel()
    # The columns of the Hessian that belong to the other layers.
    units = jnp.eye(point.size - first, point.size, first)
    others = -jax.vmap(lambda unit: jax.jvp(field, (point,), (unit,))[1])(units)

    def turned(blocks, by) -> jax.Array:
        return (blocks.reshape(-1, columns) @ by).reshape(blocks.shape)

    between = turned(others[:, :first], turn)
    block = others[:, first:]
    block = (block + block.T) / 2
    identity = jnp.eye(point.size - first)

    def shifted(shift) -> Solve:
        inverse = 1 / (shift + diagonal)
        schur = shift * identity + block - (between * inverse[None, :]) @ between.T
        root = jnp.linalg.cholesky(schur, symmetrize_input=False)

        def solve(b) -> jax.Array:
            alone = inverse * turned(b[:first], turn)
            rest = jax.scipy.linalg.cho_solve((root, True), b[first:] - between @ alone)
            return jnp.concatenate([turned(alone - inverse * (rest @ between), turn.T), rest])

        return solve

    return shifted
