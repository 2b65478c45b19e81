"""What a setup is made of, as readable lines: the key of a store, and what changed if it did."""

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from .._engine.setup import Setup
from ..numerics.fingerprint import Lines, Walk, is_library

COMMON = ("problem", "net", "dynamics", "until", "record", "save_at")  # parts of a setup
OWN = ("params", "key")  # those that members mostly have each for itself
PLAIN = (bool, int, float, complex, str, bytes)


class SetupPart(NamedTuple):
    """A part of a setup that was read.

    Attributes:
        value: the part.
        lines: its content.
        kinds: the user's own classes in it: jax knows them by identity.
        unseen: what cannot be followed in it, and why.
    """

    value: Any
    lines: Lines
    kinds: list[type]
    unseen: dict[str, str]

    def equals(self, other: "SetupPart") -> bool:
        """Is the content of both known, and the same?"""
        known = not (self.unseen or other.unseen)
        return known and self.lines == other.lines and self.kinds == other.kinds


class Reader:
    """Reads setups; a part that is the same object as in the setup before is read once.

    Attributes:
        shared: parts of the last setup that are equal to one read before, by name, and that one.
        replaced: functions of the last setup that are equal to one read before, and that one.
        arrays: the arrays of the last setup, by identity.
        changed: the parts of the last setup that hold such functions.
        unseen: what cannot be followed in any setup, by path, and why.
    """

    def __init__(self) -> None:
        self.parts: dict[str, SetupPart] = {}
        self.functions: dict[str, Any] = {}  # by digest
        self.shared: dict[str, Any] = {}
        self.replaced: dict[int, Any] = {}
        self.arrays: dict[int, Any] = {}
        self.changed: set[str] = set()
        self.unseen: dict[str, str] = {}

    def read(self, setup: Setup) -> Lines:
        """The lines of a setup, by the path of what they describe."""
        return self.read_shared(setup) | self.read_own(setup)

    def read_shared(self, setup: Setup) -> Lines:
        """The lines of what setups may have in common: all that is not numbers."""
        self.shared = {}
        self.replaced = {}
        self.arrays = {}
        self.changed = set()
        names = COMMON if _is_dict_of_arrays(setup.params) else (*COMMON, "params")
        return self._lines(setup, names)

    def read_own(self, setup: Setup) -> Lines:
        """The lines of what they mostly have each for itself."""
        return self._lines(setup, OWN)

    def _lines(self, setup: Setup, names: tuple[str, ...]) -> Lines:
        lines: Lines = {}
        for name in names:
            part = getattr(setup, name)
            known = self.parts.get(name)
            if known is None or known.value is not part:
                known = self._part(name, part, known)
            lines.update(known.lines)
        return lines

    def _part(self, name: str, part: object, before: SetupPart | None) -> SetupPart:
        if before is not None and name not in OWN and _clearly_equal(part, before.value):
            self.shared[name] = before.value
            return before
        walk = Walk()
        walk.read(name, part)
        now = SetupPart(part, walk.lines, walk.kinds, walk.unseen)
        self.unseen |= walk.unseen
        if before is not None and name not in OWN and now.equals(before):
            self.shared[name] = before.value
            return before
        self.parts[name] = now
        self.arrays |= walk.arrays
        for function in walk.functions:
            first = self.functions.setdefault(function.digest, function.value)
            if first is not function.value:
                self.replaced[id(function.value)] = first
                self.changed.add(name)
        if name in self.changed:
            del self.parts[name]
        return now


def _clearly_equal(a: Any, b: Any) -> bool:
    """Are these equal, seen at a glance? If not, a walk through both may still say so.

    The same object need not be equal to what it was: only of plain values is that certain.
    """
    if type(a) is not type(b):
        return False
    if a is None or isinstance(a, PLAIN):
        return repr(a) == repr(b)  # as they are read: 0.0 is not −0.0
    if isinstance(a, np.ndarray):
        return a.ndim == 0 == b.ndim and repr(a.item()) == repr(b.item())
    if isinstance(a, dict):
        return list(a) == list(b) and all(map(_clearly_equal, a.values(), b.values()))
    if dataclasses.is_dataclass(a) and is_library(type(a)):
        return all(_clearly_equal(getattr(a, n), getattr(b, n)) for n in _fields(type(a)))
    return False


def _is_dict_of_arrays(value: object) -> bool:
    return type(value) is dict and all(isinstance(item, np.ndarray) for item in value.values())


@functools.lru_cache(maxsize=256)
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
