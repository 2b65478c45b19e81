"""What a loop over steps carries: the layers of a small net as one vector."""

from collections.abc import Callable
from typing import Any

import jax
from jax.flatten_util import ravel_pytree

SMALL_BYTES = 8 * 1024  # of parameters; layers of larger nets are not worth copying every step


def packing(params) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How to pack trees like `params` for a loop, and how to unpack them (jax-level).

    One kernel then updates all layers: a step of a small net is little more than its kernels.
    """
    if sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(params)) > SMALL_BYTES:
        return _same, _same
    return (lambda tree: ravel_pytree(tree)[0]), ravel_pytree(params)[1]


def _same(tree) -> Any:
    return tree
