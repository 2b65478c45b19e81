"""Linear systems with the Hessian of two layers on data in their eigenbasis (jax-level).

With W2 = Q s Pᵀ, hidden units written in the basis Q and outputs in P, the Hessian of W1 is
diagonal and nearly all of its block with W2 is zero,

    H[(i, a), (b, l)] = rate_i W1_ib s_a δ_al + G_il δ_ab,   G the gradient in the predictor,

so what is left for W2 once W1 is eliminated is written down without a product of large matrices.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .protocol import System

Solve = Callable[[Any], Any]


def two_layer_solver(system: System, weight_decay, params, rates) -> Callable[[Any], Solve]:
    """Of a shift c the map b → (c + H)⁻¹ b on flat vectors; not finite unless c + H is positive.

    Args:
        system: what moves.
        weight_decay: of the objective; None for none.
        params: W1, W2 and single numbers on which the loss does not depend.
        rates: of every row of the predictor, a column.
    """
    shaped = ravel_pytree(params)[1]
    hidden, outputs = params["W2"].shape
    Q, s, Pt = jnp.linalg.svd(params["W2"], full_matrices=True)
    by_output = jnp.zeros(outputs).at[: s.size].set(s)  # s_a where a unit stands for an output
    by_unit = jnp.zeros(hidden).at[: s.size].set(s)
    G = system.problem.theta_gradient(params["W1"] @ params["W2"]) @ Pt.T
    W1 = params["W1"] @ Q
    scaled = rates * W1
    same = jnp.eye(outputs, hidden)
    decay = 0.0 if weight_decay is None else 2 * weight_decay
    units = jnp.eye(hidden)
    labels = jnp.eye(outputs)

    def couple(first) -> jax.Array:
        """Of a move of W1, what W2 feels."""
        return (scaled.T @ (first @ same.T)) * by_output[None, :] + first.T @ G

    def coupled(second) -> jax.Array:
        """The transpose."""
        return ((scaled @ second) @ same) * by_unit[None, :] + G @ second.T

    def shifted(shift) -> Solve:
        inverse = 1 / (shift + decay + rates * (by_unit * by_unit)[None, :])
        of_output = (inverse @ same.T) * by_output[None, :]
        weighed = (scaled[:, :, None] * of_output[:, None, :]).transpose(2, 1, 0)
        diagonal = ((shift + decay) * units + W1.T @ scaled)[None, :, :]
        diagonal = diagonal - by_output[:, None, None] * (weighed @ scaled)
        cross = weighed @ G
        own = (G[:, :, None] * inverse[:, None, :]).transpose(2, 1, 0) @ G
        # Axes are unit, output, unit, output.
        crossed = cross.transpose(1, 0, 2)[:, :, None, :] * same[None, :, :, None]
        schur = diagonal.transpose(1, 0, 2)[:, :, :, None] * labels[None, :, None, :]
        schur = schur - own[:, :, None, :] * units[:, None, :, None]
        schur = (schur - crossed - crossed.transpose(2, 3, 0, 1)).reshape((hidden * outputs,) * 2)
        root = jnp.linalg.cholesky(schur, symmetrize_input=False)

        def solve(b) -> jax.Array:
            whole = shaped(b)
            first = whole["W1"] @ Q
            second = Q.T @ whole["W2"] @ Pt.T
            alone = inverse * first
            rest = jax.scipy.linalg.cho_solve((root, True), (second - couple(alone)).ravel())
            rest = rest.reshape(hidden, outputs)
            found = {name: value / (shift + decay) for name, value in whole.items()}
            found["W1"] = (alone - inverse * coupled(rest)) @ Q.T
            found["W2"] = Q @ rest @ Pt
            return ravel_pytree(found)[0]

        return solve

    return shifted
