"""What a loop over steps carries: the layers of a small net as one vector."""

from collections.abc import Callable
from typing import Any

import jax
from jax.flatten_util import ravel_pytree

SMALL_BYTES = 512  # of parameters: scalars around one layer; matrices are slower as one vector


def packing(params) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How to pack trees like `params` for a loop, and how to unpack them (jax-level).

    One kernel then updates all layers: a step of a small net is little more than its kernels.
    """
    if size_of(params) > SMALL_BYTES:
        return _same, _same
    return (lambda tree: ravel_pytree(tree)[0]), ravel_pytree(params)[1]


def after(grads, lr) -> Any:
    """The learning rate, but not before the gradient is there (jax-level).

    A layer can be changed in place only when nothing reads it any more. The compiler does not
    order a step so that this is known: it copies all layers at every step instead, which costs as
    much as the products. The gradient of the narrowest layer is the last to be known. 0 · x is
    not folded away; where it is not 0, this step diverges anyway.
    """
    layers = [leaf for leaf in jax.tree.leaves(grads) if leaf.size > 1]
    if not layers or size_of(grads) <= SMALL_BYTES:
        return lr
    last = min(layers, key=lambda leaf: leaf.size)
    return lr + 0.0 * last[(0,) * last.ndim]


def size_of(tree) -> int:
    """The bytes of all arrays in a tree."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _same(tree) -> Any:
    return tree
