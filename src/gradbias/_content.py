"""What a setup is made of, as readable lines: the key of a store, and what changed if it did."""

import dataclasses
import dis
import functools
import hashlib
import inspect
import pickle
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from ._setup import Setup
from .numerics import checks

COMMON = ("problem", "net", "dynamics", "until", "record", "save_at")  # parts of a setup
OWN = ("params", "key")  # those that members mostly have each for itself
PLAIN = (bool, int, float, complex, str, bytes)
SHOWN = 4  # numbers of an array that are shown; larger ones are known by their hash
DEPTH = 12  # of objects inside objects

Lines = dict[str, str]


class Part(NamedTuple):
    """A part of a setup that was read.

    Attributes:
        value: the part.
        lines: its content.
        kinds: the user's own classes in it; their lines do not tell all that they are.
        opaque: is there something in it that cannot be compared?
    """

    value: Any
    lines: Lines
    kinds: list[type]
    opaque: bool

    def equals(self, other: "Part") -> bool:
        """Is the content of both known, and the same?"""
        known = not (self.opaque or other.opaque)
        return known and self.lines == other.lines and self.kinds == other.kinds


class Reader:
    """Reads setups; a part that is the same object as in the setup before is read once.

    Attributes:
        shared: parts of the last setup that are equal to one read before, by name, and that one.
        replaced: functions of the last setup that are equal to one read before, and that one.
        arrays: the arrays of the last setup, by identity.
        changed: the parts of the last setup that hold such functions.
    """

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self.functions: dict[tuple[tuple[str, str], ...], Any] = {}
        self.frozen: dict[int, tuple[Any, Lines]] = {}  # objects that cannot change, read once
        self.shared: dict[str, Any] = {}
        self.replaced: dict[int, Any] = {}
        self.arrays: dict[int, Any] = {}
        self.changed: set[str] = set()
        self.opaque = False  # was there something in the last part that cannot be compared?
        self.kinds: list[type] = []

    def read(self, setup: Setup) -> Lines:
        """The lines of a setup, by the path of what they describe."""
        return self.read_shared(setup) | self.read_own(setup)

    def read_shared(self, setup: Setup) -> Lines:
        """The lines of what setups may have in common: all that is not numbers."""
        self.shared, self.replaced, self.arrays, self.changed = {}, {}, {}, set()
        names = COMMON if _is_dict_of_arrays(setup.params) else (*COMMON, "params")
        return self._lines(setup, names)

    def read_own(self, setup: Setup) -> Lines:
        """The lines of what they mostly have each for itself."""
        return self._lines(setup, OWN)

    def _lines(self, setup: Setup, names: tuple[str, ...]) -> Lines:
        lines: Lines = {}
        for name in names:
            part, known = getattr(setup, name), self.parts.get(name)
            if known is None or known.value is not part:
                known = self._part(name, part, known)
            lines.update(known.lines)
        return lines

    def _part(self, name: str, part: Any, before: Part | None) -> Part:
        if before is not None and name not in OWN and _clearly_equal(part, before.value):
            self.shared[name] = before.value
            return before
        self.opaque, self.kinds, replaced = False, [], dict(self.replaced)
        found: Lines = {}
        _Walk(self, found).visit(name, part)
        now = Part(part, found, self.kinds, self.opaque)
        if before is not None and name not in OWN and now.equals(before):
            self.shared[name], self.replaced = before.value, replaced
            return before
        self.parts[name] = now
        if len(self.replaced) > len(replaced):
            self.changed.add(name)
            del self.parts[name]
        return now

    def canonical(self, function: Any, lines: Lines, path: str) -> None:
        """Remember a function by what it is made of; equal ones are to become one object."""
        key = tuple((name.removeprefix(path), line) for name, line in lines.items())
        first = self.functions.setdefault(key, function)
        if first is not function:
            self.replaced[id(function)] = first


class _Walk:
    """One walk through an object."""

    def __init__(self, reader: Reader, lines: Lines, seen: tuple[int, ...] = ()):
        self.reader, self.lines, self.seen = reader, lines, seen

    def visit(self, path: str, value: Any) -> None:
        frozen = self.reader.frozen.get(id(value))
        if frozen is not None:
            self.lines.update({path + rest: line for rest, line in frozen[1].items()})
            return
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
            value = value.item()
        if value is None or isinstance(value, PLAIN):
            line = repr(value)
            self.lines[path] = line if len(line) < 200 else _hash(line)
        elif isinstance(value, np.ndarray) or checks.is_jax(value):
            self.reader.arrays[id(value)] = value
            self.lines[path] = _array(np.asarray(value))
        elif id(value) in self.seen or len(self.seen) > DEPTH:
            self.lines[path] = f"{type(value).__qualname__}, as above"
            self.reader.opaque |= len(self.seen) > DEPTH
        else:
            inner = _Walk(self.reader, self.lines, (*self.seen, id(value)))
            inner.compound(path, value)

    def compound(self, path: str, value: Any) -> None:
        value = _unwrapped(value)
        if isinstance(value, types.FunctionType):
            self.function(path, value)
        elif isinstance(value, type):
            self.kind(path, value)
        elif isinstance(value, types.MethodType):
            self.visit(path, value.__func__)
            self.visit(f"{path}.self", value.__self__)
        elif isinstance(value, functools.partial):
            self.visit(path, value.func)
            self.visit(f"{path}.args", value.args)
            self.visit(f"{path}.keywords", value.keywords)
        else:
            self.whole(path, value)

    def whole(self, path: str, value: Any) -> None:
        """An object by its parts; one of ours that holds plain values alone is read once."""
        self.kind(path, type(value))
        items = _items(value)
        if items is None:
            self.lines[path] += f", {self.sealed(value)}"
        for name, item in items or ():
            self.visit(f"{path}.{name}", item)
        plain = all(item is None or isinstance(item, PLAIN) for _, item in items or ())
        if plain and isinstance(value, eqx.Module) and not _own_bases(type(value)):
            names = ["", *(f".{name}" for name, _ in items or ())]
            lines = {rest: self.lines[path + rest] for rest in names}
            self.reader.frozen[id(value)] = value, lines

    def sealed(self, value: Any) -> str:
        """An object of some other library: known by its pickle."""
        try:
            return f"pickle {_hash(pickle.dumps(value))}"
        except Exception:  # whatever an object that does not want to be pickled says
            self.reader.opaque = True
            return "content unknown"

    def kind(self, path: str, kind: type) -> None:
        """A class: by its name, and if it is the user's own by the code of its methods."""
        self.lines[path] = _name(kind)
        for base in _own_bases(kind):
            self.reader.kinds.append(base)
            for name, value in list(vars(base).items()):
                if not name.startswith("__") and isinstance(value, (*PLAIN, tuple, np.ndarray)):
                    self.visit(f"{path}.{name}", value)
                method = inspect.getattr_static(base, name)
                method = method.fget if isinstance(method, property) else getattr(base, name, None)
                method = _unwrapped(method)
                if isinstance(method, types.FunctionType) and id(method) not in self.seen:
                    self.visit(f"{path}.{name}()", method)

    def function(self, path: str, function: types.FunctionType) -> None:
        if _from_a_library(function):
            self.lines[path] = _name(function)
            return
        found: Lines = {path: f"{function.__qualname__}, code {_code(function.__code__)}"}
        inner, before = _Walk(self.reader, found, self.seen), self.reader.opaque
        self.reader.opaque = False
        for name, item in _captured(function):
            inner.visit(f"{path}.{name}", item)
        if not self.reader.opaque:
            self.reader.canonical(function, found, path)
        self.reader.opaque |= before
        self.lines.update(found)


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
    if dataclasses.is_dataclass(a) and _from_a_library(type(a)):
        return all(_clearly_equal(getattr(a, n), getattr(b, n)) for n in _fields(type(a)))
    return False


def _is_dict_of_arrays(value: Any) -> bool:
    return type(value) is dict and all(isinstance(item, np.ndarray) for item in value.values())


def _items(value: Any) -> list[tuple[str, Any]] | None:
    """The named parts of an object; None if it is not for us to look inside."""
    if isinstance(value, dict):
        return [(str(name), item) for name, item in value.items()]
    if isinstance(value, list | tuple):
        return [(str(i), item) for i, item in enumerate(value)]
    if isinstance(value, set | frozenset):
        return [(str(i), item) for i, item in enumerate(sorted(value, key=repr))]
    if dataclasses.is_dataclass(value):
        return [(name, getattr(value, name, None)) for name in _fields(type(value))]
    own = not _from_a_library(type(value)) or isinstance(value, Setup)
    return list(vars(value).items()) if own and hasattr(value, "__dict__") else None


def _captured(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function refers to beside its arguments: defaults, closure, globals."""
    for i, item in enumerate(function.__defaults__ or ()):
        yield f"default{i}", item
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in sorted(_global_names(function.__code__)):
        item = function.__globals__.get(name)
        if item is not None and not isinstance(item, types.ModuleType):
            yield name, item


def _global_names(code: types.CodeType) -> set[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname in _LOADS}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")


def _code(code: types.CodeType) -> str:
    """What a function does; not where it stands, so that a cell may be run again."""
    consts = [_code(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts]
    return _hash(repr((code.co_code, consts, code.co_names, code.co_varnames, code.co_freevars)))


def _constant(value: Any) -> str:
    if isinstance(value, frozenset):
        return repr(sorted(map(repr, value)))
    return repr(value)


def _array(array: np.ndarray) -> str:
    if array.size <= SHOWN:
        return repr(array.tolist())
    digest = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()[:16]
    return f"{array.dtype} of shape {array.shape}, hash {digest}"


def _hash(content: str | bytes) -> str:
    content = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(content).hexdigest()[:16]


def _unwrapped(value: Any) -> Any:
    """The function inside jit, a cache, or any other wrapper that says so."""
    while not isinstance(value, type) and callable(getattr(value, "__wrapped__", None)):
        value = value.__wrapped__
    return value


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}".removeprefix("builtins.")


@functools.cache
def _library_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [sysconfig.get_paths()[name] for name in names]
    return (*folders, str(Path(__file__).parent), "<frozen")


@functools.lru_cache(maxsize=256)
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.lru_cache(maxsize=256)
def _own_bases(kind: type) -> tuple[type, ...]:
    """The classes that the user wrote, of those that a class is made of."""
    return tuple(base for base in kind.__mro__ if not _from_a_library(base))


def _from_a_library(value: Any) -> bool:
    """Code that changes only with a version: the standard library, installed packages, ours."""
    if isinstance(value, types.FunctionType):
        return value.__code__.co_filename.startswith(_library_folders())
    if value.__module__ in sys.builtin_module_names:
        return True
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    return file is not None and file.startswith(_library_folders())
