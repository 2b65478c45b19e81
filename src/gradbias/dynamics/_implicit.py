"""One step of the linearly implicit Euler method, extrapolated to high order (jax-level).

(I + h H) Δ = −h ∇L with the exact Hessian H at the start of a step, in 1, 2, 3, … parts of the
step, and their polynomial extrapolated to parts of no length (Deuflhard; SEULEX in Hairer and
Wanner, Solving Ordinary Differential Equations II, IV.9). No part is unstable however fast a
direction decays, so steps are as long as what still moves allows. Solves are linear: there is no
iteration that could fail, and every step costs the same.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ._curvature import shifted_solver
from ._protocol import System

LEVELS = 10  # of extrapolation: the order of a step, and of the error estimate


def implicit_step(
    system: System, field: Callable[[Any], Any], weight_decay, params, size
) -> tuple[Any, Any]:
    """The state after a step of this size, and an estimate of its error.

    Args:
        system: what moves.
        field: −∇ of the objective, as a function of the parameters.
        weight_decay: of the objective; None for none.
        params: the state.
        size: of the step.
    """
    start, shaped = ravel_pytree(params)

    def flat(point) -> Any:
        return ravel_pytree(field(shaped(point)))[0]

    solver = shifted_solver(system, flat, weight_decay, params)

    def level(sums, entry):
        parts, weights = entry
        solve = solver(parts.astype(start.dtype) / size)
        moved = jax.lax.fori_loop(
            0, parts, lambda _, moved: moved + solve(flat(start + moved)), jnp.zeros_like(start)
        )
        return tuple(s + w * moved for s, w in zip(sums, weights, strict=True)), None

    zeros = jnp.zeros_like(start)
    levels = (jnp.arange(1, LEVELS + 1), jnp.asarray(_weights(LEVELS)))
    (moved, error), _ = jax.lax.scan(level, (zeros, zeros), levels)
    return shaped(start + moved), shaped(error)


def _weights(levels: int) -> np.ndarray:
    """Of every level in the extrapolated step, and in its difference to the one without level 1."""

    def to_zero(parts: list[int]) -> list[float]:
        return [math.prod(n / (n - other) for other in parts if other != n) for n in parts]

    best = to_zero(list(range(1, levels + 1)))
    second = [0.0, *to_zero(list(range(2, levels + 1)))]
    return np.asarray([[b, b - s] for b, s in zip(best, second, strict=True)])
