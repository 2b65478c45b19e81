"""Made once for the members of a sweep, which mostly share what it is made of."""

import functools
import operator
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")


class Memo:
    """What was made last under each name, for the next member that shares what it is made of.

    It belongs to one sweep. What things are made of is known by identity and kept alive, so that no
    other object can be taken for it.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[object, ...], Any]] = {}

    def of(self, name: str, sources: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """What was made last under this name if it is of the same objects, else a new one."""
        last = self._last.get(name)
        if last is None or not all(map(operator.is_, last[0], sources)):
            last = sources, make()
            self._last[name] = last
        return last[1]


def latest(make: Callable[..., Made]) -> Callable[..., Made]:
    """A function that remembers its last result, as long as its first argument lives.

    For functions that no sweep hands its `Memo` to, and for runs one after the other.

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
