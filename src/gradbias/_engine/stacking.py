"""Ensembles: many runs of one shape as one program, what they share passed once."""

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..numerics.types import Array, PyTree

MEMBERS = "members"  # the axis name under which members of an ensemble see each other
VMAP_BYTES = 32 * 1024  # larger members leave the cache when they advance side by side


class Stack(eqx.Module):
    """Equal PyTrees of several members: leaves that differ are stacked, others kept once."""

    own: Any
    shared: Any

    def of(self, own: PyTree) -> PyTree:
        """The tree of one member, given its slice of `own`."""
        return eqx.combine(own, self.shared)


def stack(trees: Sequence[Any], differ: Collection[str] | None = None) -> Stack:
    """Stack the trees of all members.

    Args:
        trees: one for each member.
        differ: the names of the leaves to stack; None looks for those that are not the same.
    """
    leaves = [jax.tree.leaves(tree) for tree in trees]
    structure = jax.tree.structure(trees[0])
    columns = list(zip(*leaves, strict=True))
    if differ is None:
        alike = [all(same(column[0], leaf) for leaf in column[1:]) for column in columns]
    else:
        alike = [name not in differ for name in names_of(trees[0])]
    own = [None if one else np.stack(column) for one, column in zip(alike, columns, strict=True)]
    shared = [column[0] if one else None for one, column in zip(alike, columns, strict=True)]
    return Stack(jax.tree.unflatten(structure, own), jax.tree.unflatten(structure, shared))


def names_of(tree: PyTree) -> list[str]:
    """A name for every leaf: the way to it."""
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]


def shape_of(leaves: list[Any], structure: Hashable) -> Hashable:
    """What trees must have in common to be stacked: structure, shapes, and all that is static."""
    return structure, tuple(
        (leaf.shape, leaf.dtype.str) if eqx.is_array(leaf) else leaf for leaf in leaves
    )


def over_members(function: Callable[..., Any], side_by_side: bool, *args: PyTree) -> PyTree:
    """Call a function for every member; `args` have a leading axis of members.

    Side by side (vmap) is fastest while all of them fit into the cache, else one after the other.
    """
    if side_by_side:
        return jax.vmap(function, axis_name=MEMBERS)(*args)
    return jax.lax.map(lambda each: function(*each), args)


def any_member(flag, side_by_side: bool) -> Array:
    """Is it true of any member that advances in the same loop?"""
    if not side_by_side:
        return flag
    return jax.lax.psum(flag.astype(np.int32), MEMBERS) > 0


def fits_side_by_side(tree: PyTree, members: int) -> bool:
    """Should members of this size advance side by side? Decided by a member's bytes alone."""
    return members > 1 and bytes_of(tree) <= VMAP_BYTES


def bytes_of(tree: PyTree) -> int:
    """Of all arrays in it."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree) if eqx.is_array(leaf))


def pick(
    tree: PyTree, members: "int | Sequence[int] | np.ndarray | tuple[int | slice | np.ndarray, ...]"
) -> PyTree:
    """Some members of a stacked PyTree."""
    return jax.tree.map(lambda leaf: leaf[members], tree)


def block(rows: np.ndarray, columns: np.ndarray) -> tuple[slice | np.ndarray, ...]:
    """An index of some rows and columns; without a copy where they follow one another."""
    if all(np.array_equal(a, np.arange(a[0], a[0] + len(a))) for a in (rows, columns)):
        return tuple(slice(a[0], a[0] + len(a)) for a in (rows, columns))
    return np.ix_(rows, columns)


def same(a: Any, b: Any) -> bool:
    """Are two leaves equal?"""
    if a is b:
        return True
    if eqx.is_array(a):
        return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b)
    return a == b
