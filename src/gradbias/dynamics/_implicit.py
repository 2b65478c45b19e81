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

from ..nets import MLP, Net

LEVELS = 10  # of extrapolation: the order of a step, and of the error estimate
MOST_PARAMETERS = 2000  # of a dense Hessian: 32 MB, and a second for each step


def why_explicit(net: Net, params) -> str | None:
    """Why steps of this net cannot be implicit; None if they can."""
    if isinstance(net, MLP) and net.activation in ("relu", "leaky"):
        return f"a loss with the kinks of {net.activation} has no Hessian that is of use"
    count = sum(p.size for p in jax.tree.leaves(params))
    if count > MOST_PARAMETERS:
        return (
            f"a Hessian of {count} parameters has no room (at most {MOST_PARAMETERS}, after the "
            "exact closure where there is one)"
        )
    return None


def implicit_step(field: Callable[[Any], Any], params, size) -> tuple[Any, Any]:
    """The state after a step of this size, and an estimate of its error.

    Args:
        field: −∇ of the objective, as a function of the parameters.
        params: the state.
        size: of the step.
    """
    start, shaped = ravel_pytree(params)

    def flat(point) -> Any:
        return ravel_pytree(field(shaped(point)))[0]

    hessian = -jax.jacfwd(flat)(start)
    hessian = (hessian + hessian.T) / 2
    identity = jnp.eye(start.size)

    def level(sums, entry):
        parts, weights = entry
        part = size / parts
        root = jnp.linalg.cholesky(identity + part * hessian, symmetrize_input=False)

        def once(_, moved):
            change = part * flat(start + moved)
            return moved + jax.scipy.linalg.cho_solve((root, True), change)

        moved = jax.lax.fori_loop(0, parts, once, jnp.zeros_like(start))
        return tuple(s + w * moved for s, w in zip(sums, weights, strict=True)), None

    zeros = jnp.zeros_like(start)
    levels = (jnp.arange(1, LEVELS + 1), jnp.asarray(_weights(LEVELS)))
    (moved, error), _ = jax.lax.scan(level, (zeros, zeros), levels)
    return shaped(start + moved), shaped(error)


def _weights(levels: int) -> np.ndarray:
    """Of every level in the extrapolated step, and in its difference to the one without level 1."""

    def to_zero(parts: list[int]) -> list[float]:
        return [math.prod(n / (n - other) for other in parts if other != n) for n in parts]

    all_of_them = list(range(1, levels + 1))
    best, second = to_zero(all_of_them), [0.0, *to_zero(all_of_them[1:])]
    return np.asarray([[b, b - s] for b, s in zip(best, second, strict=True)])
