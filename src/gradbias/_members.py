"""Ensembles: many runs of one shape as one program, what they share passed once."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

MEMBERS = "members"  # the axis name under which members of an ensemble see each other
VMAP_BYTES = 32 * 1024  # larger members leave the cache when they advance side by side


class Stack(eqx.Module):
    """Equal PyTrees of several members: leaves that differ are stacked, others kept once."""

    own: Any
    shared: Any

    def of(self, own: Any) -> Any:
        """The tree of one member, given its slice of `own`."""
        return eqx.combine(own, self.shared)


def stack(trees: Sequence[Any]) -> Stack:
    """Stack the trees of all members."""
    leaves = [jax.tree.flatten(tree)[0] for tree in trees]
    structure = jax.tree.structure(trees[0])
    own, shared = [], []
    for column in zip(*leaves, strict=True):
        alike = all(_same(column[0], leaf) for leaf in column[1:])
        own.append(None if alike else np.stack(column))
        shared.append(column[0] if alike else None)
    return Stack(jax.tree.unflatten(structure, own), jax.tree.unflatten(structure, shared))


def shape_of(tree: Any) -> Hashable:
    """What trees must have in common to be stacked: structure, shapes, and all that is static."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(
        (leaf.shape, leaf.dtype.str) if eqx.is_array(leaf) else leaf for leaf in leaves
    )


def over_members(function: Callable[..., Any], side_by_side: bool, *args: Any) -> Any:
    """Call a function for every member; `args` have a leading axis of members.

    Side by side (vmap) is fastest while all of them fit into the cache, else one after the other.
    """
    if side_by_side:
        return jax.vmap(function, axis_name=MEMBERS)(*args)
    return jax.lax.map(lambda each: function(*each), args)


def any_member(flag, side_by_side: bool) -> Any:
    """Is it true of any member that advances in the same loop?"""
    if not side_by_side:
        return flag
    return jax.lax.psum(flag.astype(np.int32), MEMBERS) > 0


def fits_side_by_side(tree: Any, members: int) -> bool:
    """Should members of this size advance side by side? Decided by a member's bytes alone."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(tree) if eqx.is_array(leaf))
    return members > 1 and size <= VMAP_BYTES


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if eqx.is_array(a):
        return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b)
    return a == b
