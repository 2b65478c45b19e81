"""A walk through an object and all that it refers to: one line for each part."""

import types
from typing import Any, NamedTuple

from ._functions import Items, digest
from ._guards import Guards
from ._libraries import is_library
from ._objects import SIMPLE, describe

Lines = dict[str, str]

MOST = 200_000  # parts that are followed


class UserFunction(NamedTuple):
    """A function of the user's own that was met, and the digest of all that it refers to."""

    value: types.FunctionType
    digest: str


class Walk:
    """Lines of one or several objects.

    Every object is followed once, to any depth. What is met again, or is equal to what was met
    before, gets a line that points there: it does not matter which equal parts are one object.

    Attributes:
        lines: what was found, by path.
        unseen: paths of what cannot be followed, and why.
        functions: the user's own functions without such parts.
        kinds: the user's own classes.
        code: the user's own functions and classes, all of them.
        arrays: all arrays, by identity.

    Args:
        guards: to note all that is met; None if nobody will ask again.
    """

    def __init__(self, guards: Guards | None = None) -> None:
        self._guards = guards
        self.unseen: dict[str, str] = {}
        self.functions: list[UserFunction] = []
        self.kinds: list[type] = []
        self.code: list[Any] = []
        self.arrays: dict[int, Any] = {}
        self._said: list[tuple[str, str]] = []
        self._paths: dict[str, str] = {}  # by digest
        self._known: dict[int, tuple[Any, str, str, bool]] = {}  # by identity
        self._count = 0

    @property
    def lines(self) -> Lines:
        """What was found."""
        return dict(self._said)

    def read(self, path: str, value: Any) -> str:
        """Walk through an object; returns the digest of all that was found."""
        frames: list[_Frame] = []
        done = self._enter(frames, path, value)
        while frames:
            frame = frames[-1]
            for name, part in frame.items:
                done = self._enter(frames, f"{frame.path}.{name}", part)
                if done is None:
                    frame.waiting = name
                    break
                frame.parts.append(f"{name} {done}")
            else:
                done = self._leave(frames)
        assert done is not None
        return done

    def _enter(self, frames: "list[_Frame]", path: str, value: Any) -> str | None:
        """The digest of something without parts, or met before; else None and one frame more."""
        if type(value) in SIMPLE:
            line = describe(value)[0]
            self._said.append((path, line))
            return line
        known = self._known.get(id(value))
        if known is not None:
            return self._again(frames, path, known)
        self._count += 1
        if self._guards is not None:
            self._guards.watch(value)
        line, items = describe(value)
        if self._count > MOST:
            line = f"not seen: refers to more than {MOST} parts"
            items = None
        at = len(self._said)
        self._said.append((path, line))
        if items is None:
            if line.startswith("not seen: "):
                self.unseen[path] = line.removeprefix("not seen: ")
                for frame in frames:
                    frame.known = False
            elif hasattr(value, "dtype"):
                self.arrays[id(value)] = value
            return line
        if isinstance(value, type):
            self.kinds.append(value)
        self._known[id(value)] = value, path, "", True
        frames.append(_Frame(path, value, items, at, [line], len(frames)))
        return None

    def _again(self, frames: "list[_Frame]", path: str, known: tuple[Any, str, str, bool]) -> str:
        value, first, done, seen = known
        self._said.append((path, f"as {first}"))
        if done:
            if not seen:
                for frame in frames:
                    frame.known = False
            return done
        depth = next(i for i, frame in enumerate(frames) if frame.value is value)
        frames[-1].highest = min(frames[-1].highest, depth)
        return f"up {len(frames) - depth}"

    def _leave(self, frames: "list[_Frame]") -> str:
        """All parts of the last frame are read."""
        frame = frames.pop()
        done = digest("\n".join(frame.parts))
        closed = frame.highest >= len(frames)  # nothing in it points at what it is a part of
        first = self._paths.get(done)
        if first is not None and closed:
            del self._said[frame.at + 1 :]
            self._said[frame.at] = frame.path, f"as {first}"
        elif closed:
            self._paths[done] = frame.path
        self._known[id(frame.value)] = frame.value, first or frame.path, done, frame.known
        if isinstance(frame.value, types.FunctionType | type) and not is_library(frame.value):
            self.code.append(frame.value)
            if closed and frame.known and isinstance(frame.value, types.FunctionType):
                self.functions.append(UserFunction(frame.value, done))
        if frames:
            parent = frames[-1]
            parent.parts.append(f"{parent.waiting} {done}")
            parent.highest = min(parent.highest, frame.highest)
        return done


class _Frame:
    """An object whose parts are being read."""

    __slots__ = ("at", "highest", "items", "known", "parts", "path", "value", "waiting")

    def __init__(self, path: str, value: Any, items: Items, at: int, parts: list[str], depth: int):
        self.path = path
        self.value = value
        self.items = items
        self.at = at
        self.parts = parts
        self.highest = depth  # the outermost frame that a part points at
        self.known = True
        self.waiting = ""
