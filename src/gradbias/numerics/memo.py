"""Made once for the members of a sweep, which mostly share what it is made of."""

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


def latest(make: Callable[..., Made]) -> Callable[..., Made]:
    """A function that remembers its last result, as long as its first argument lives.

    Args:
        make: of an object, known by identity, and of values that can be compared. Its result must
            not hold that object: it would then live for ever.
    """
    memory: list[tuple[Any, tuple[Any, ...], Made]] = []

    @functools.wraps(make)
    def remembered(source: Any, *values: Any) -> Made:
        for known, others, made in memory:
            if known() is source and others == values:
                return made
        made = make(source, *values)
        memory[:] = [(weakref.ref(source), values, made)]
        return made

    return remembered
