"""One step of the linearly implicit midpoint rule, extrapolated to high order (jax-level).

With the exact Hessian H at the start of a step, in 2, 6, 10, … parts of it, and their polynomial in
the squared length of a part extrapolated to parts of no length (Bader and Deuflhard 1983; Hairer
and Wanner, Solving Ordinary Differential Equations II, IV.9). No part is unstable however fast a
direction decays, so steps are as long as what still moves allows. Solves are linear: there is no
iteration that could fail, and every step costs the same.

The weights of the levels are of order one. Those of the linearly implicit Euler method, whose
polynomial is in the length itself, are 3000 at the same order, and so are its rounding errors.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ._hessian_solve import shifted_solver
from .protocol import System

# Parts of a level: half of each is odd, so that all damp a fast direction with the same sign.
PARTS = (2, 6, 10, 14, 22, 34, 50)
ORDER = 2 * len(PARTS)  # of a step; its error estimate has two less


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

    def flat(point) -> jax.Array:
        return ravel_pytree(field(shaped(point)))[0]

    solver = shifted_solver(system, flat, weight_decay, params)
    speed = flat(start)

    def level(sums, entry):
        parts, weights = entry
        shift = parts.astype(start.dtype) / size  # one over the length of a part
        solve = solver(shift)

        def part(_, carry):
            moved, last = carry
            last = last + 2 * solve(flat(start + moved) - shift * last)
            return moved + last, last

        first = solve(speed)
        moved, last = jax.lax.fori_loop(1, parts, part, (first, first))
        # Half of the last part: takes out what changes its sign from part to part.
        moved = moved + solve(flat(start + moved) - shift * last)
        return tuple(s + w * moved for s, w in zip(sums, weights, strict=True)), None

    zeros = jnp.zeros_like(start)
    levels = (jnp.asarray(PARTS), jnp.asarray(_weights(PARTS)))
    (moved, error), _ = jax.lax.scan(level, (zeros, zeros), levels)
    return shaped(start + moved), shaped(error)


def _weights(parts: tuple[int, ...]) -> np.ndarray:
    """Of every level in the extrapolated step, and in its difference to the one without the last.

    The error of a level is a polynomial in the square of the length of its parts.
    """

    def to_zero(parts: tuple[int, ...]) -> list[float]:
        return [math.prod(n**2 / (n**2 - other**2) for other in parts if other != n) for n in parts]

    best = to_zero(parts)
    second = [*to_zero(parts[:-1]), 0.0]
    return np.asarray([[b, b - s] for b, s in zip(best, second, strict=True)])
