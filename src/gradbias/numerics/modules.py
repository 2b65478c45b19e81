"""PyTrees of ours: equinox modules whose attributes cost what attributes cost in Python."""

from typing import TYPE_CHECKING

import equinox as eqx


class Module(eqx.Module):
    """An equinox module with methods as Python makes them.

    Equinox makes a PyTree of each method when it is looked up, so that it can be an argument of
    compiled code. That costs 50 µs, and every other attribute ten times its price: a sweep looks
    up some hundred of them for every member. Here the object itself is what compiled code takes.
    """

    if not TYPE_CHECKING:
        __getattribute__ = object.__getattribute__
