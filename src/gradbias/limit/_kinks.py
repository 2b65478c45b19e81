"""Where the Hessian of a loss jumps (jax-level)."""

import jax
import jax.numpy as jnp
import numpy as np

from .._manifold.normal_space import length
from .._manifold.target import Target

HALVINGS = 24  # of the segment: what is smooth changes by 6e-8 of what it does along all of it
JUMP = 1e-3  # of the Hessian: a larger change over so short a way is a jump


def jumps(target: Target, one, other) -> jax.Array:
    """Is there a kink between two points? By bisection for the steepest change of a product Hv.

    Args:
        target: the loss.
        one: an end of the segment, (D,).
        other: the other one.
    """
    probe = jnp.asarray(np.random.default_rng(1).standard_normal(one.size))

    def product(point):
        return target.hessian_product(point, probe)

    def halve(_, carry):
        (a, Ha), (b, Hb) = carry
        middle = (a + b) / 2
        Hm = product(middle)
        first = length(Hm - Ha) >= length(Hb - Hm)
        return jax.tree.map(
            lambda x, y: jnp.where(first, x, y),
            ((a, Ha), (middle, Hm)),
            ((middle, Hm), (b, Hb)),
        )

    ends = ((one, product(one)), (other, product(other)))
    (_, Ha), (_, Hb) = jax.lax.fori_loop(0, HALVINGS, halve, ends)
    return length(Hb - Ha) > JUMP * jnp.maximum(length(Ha), length(Hb))
