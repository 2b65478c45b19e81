"""PyTrees of ours: equinox modules whose attributes cost what attributes cost in Python."""

import dataclasses
import html
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np

from .constants import constant, is_constant, refuse_assignment, sealed
from .show import as_call
from .types import PyTree


class Module(eqx.Module):
    """An equinox module with methods as Python makes them.

    Equinox makes a PyTree of each method when it is looked up, so that it can be an argument of
    compiled code. That costs 50 µs, and every other attribute ten times its price: a sweep looks
    up some hundred of them for every member. Here the object itself is what compiled code takes.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__


class Value(Module):
    """A module that people make and a run depends on: nothing in it can change.

    Fields cannot be assigned, and the arrays in them are read-only copies of what was given.
    """

    def __check_init__(self) -> None:
        fields = vars(self)
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                if not is_constant(value):
                    fields[name] = constant(value)
            elif type(value) in (dict, list, tuple):
                fields[name] = constant(value)

    def __repr__(self) -> str:
        return as_call(self)

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        sealed(state)  # a pickle, or a deep copy, makes arrays that can be written to

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            try:
                _assign(self, name, value)
            except dataclasses.FrozenInstanceError:
                _refuse(self, name)

        def __delattr__(self, name: str) -> None:
            _refuse(self, name)


_assign = eqx.Module.__setattr__


def _refuse(value: Value, name: str) -> None:
    made = f"make a new {type(value).__name__}"
    refuse_assignment(value, name, f"{made}, and put it into a setup with setup.replace(…)")


def named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    """The leaves of a PyTree with a readable name each: W1, layers_0_weight."""
    return [
        (jax.tree_util.keystr(path, simple=True, separator="_"), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]
