"""Compiled programs are keyed by all that the user's code in them refers to.

jax knows a function by its identity: it would not notice that a global, a closure, a class or a
helper has changed since the function was traced. So every call hands jax the fingerprint of the
user's code as part of the key of each program, also of those that the user's code jits itself.
"""

import dataclasses
import functools
import threading
import types
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import numpy as np

from .constants import ReadOnlyDict
from .fingerprint import Guards, Walk, is_library
from .fingerprint._objects import SIMPLE, describe

_CODE = jax.make_user_context(None)
_CONTAINERS = {dict, ReadOnlyDict, list, tuple}
_CHANGEABLE = {dict, list}
_NUMBERS = {*SIMPLE, np.ndarray, np.float64, np.int64, np.bool_, type}
_LIBRARY_OBJECTS: dict[int, Any] = {}  # functions and the like that never change; kept alive

# Code that was read, by identity; kept alive.
_KNOWN: dict[int, tuple[Any, frozenset[str], Guards]] = {}
MOST_KNOWN = 128

_NOTHING = nullcontext()

_told: set[tuple[str, str]] = set()


class _Covered(threading.local):
    """The code that the calls around this one have keyed, by identity."""

    def __init__(self) -> None:
        self.roots: dict[int, Any] = {}


_covered = _Covered()


def keyed_by(*values: Any) -> AbstractContextManager[None]:
    """In this block, programs are keyed by the user's code in these values.

    Arrays do not count where jax takes them as arguments: as leaves of PyTrees. Code with parts
    that cannot be followed is compiled anew in every block.
    """
    found = code_in(*values)
    covered = _covered.roots
    if covered:
        found = {key: root for key, root in found.items() if key not in covered}
    return _Keyed(found) if found else _NOTHING


class _Keyed(AbstractContextManager[None]):
    """The block of `keyed_by`; a class, because a generator takes as long as all the rest."""

    __slots__ = ("before", "block", "found")

    def __init__(self, found: dict[int, Any]):
        self.found = found

    def __enter__(self) -> None:
        around: frozenset[Any] | None = _CODE.value
        token = _digests(self.found)
        self.block = _CODE(token if around is None else around | token)
        self.block.__enter__()
        self.before = _covered.roots
        _covered.roots = self.before | self.found

    def __exit__(self, *error: Any) -> None:
        _covered.roots = self.before
        self.block.__exit__(*error)


def code_key(*values: Any) -> frozenset[Any]:
    """The fingerprint of the user's code in these values, to key a memory of results by."""
    return _digests(code_in(*values))


def _digests(roots: dict[int, Any]) -> frozenset[Any]:
    digests = frozenset[Any]()
    for key, root in roots.items():
        known = _KNOWN.get(key)
        if known is not None and known[2].unchanged():
            digests |= known[1]
        else:
            digests |= _read(key, root)
    return digests


def _read(key: int, root: Any) -> frozenset[Any]:
    _KNOWN.pop(key, None)
    guards = Guards()
    walk = Walk(guards)
    digest = frozenset({walk.read("", root)})
    if walk.unseen:
        warn_of_unseen(root, walk.unseen)
        return digest | {_Anew()}
    if guards.complete:
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = root, digest, guards
    return digest


def warn_of_unseen(root: Any, unseen: dict[str, str]) -> None:
    """Say once what cannot be followed."""
    name = getattr(root, "__qualname__", type(root).__qualname__)
    for why in dict.fromkeys(unseen.values()):
        if (name, why) not in _told:
            _told.add((name, why))
            warnings.warn(
                f"{name} {why}: gradbias cannot see when that changes, so it compiles {name} anew "
                "at every call, and a store refuses it. Hand the value over as an argument, a "
                "field or a variable of an enclosing function instead",
                stacklevel=6,
            )


class _Anew:
    """Equal to nothing else: what is keyed by it is never found again."""


def code_in(*values: Any) -> dict[int, Any]:
    """The functions, classes and objects of the user's own in these values, by identity."""
    others = [value for value in values if type(value) not in _NUMBERS]
    if len(others) == 1 and isinstance(others[0], Remembers) and others[0].own_code is not None:
        return others[0].own_code
    search = _Search()
    for value in others:
        search.collect(value, False)
    return search.roots


class Remembers:
    """An object that cannot change after it is made: the code in it is looked for once."""

    @functools.cached_property
    def own_code(self) -> dict[int, Any] | None:
        """The user's own code in it, by identity; None if some part of it may change."""
        search = _Search()
        for part in list(vars(self).values()):
            search.collect(part, False)
        return search.roots if search.constant else None


class _Search:
    """Looks for the user's own code.

    Attributes:
        roots: what was found, by identity.
        constant: can nobody put other code into what was looked at?
    """

    def __init__(self) -> None:
        self.roots: dict[int, Any] = {}
        self.constant = True
        self._seen = set[int]()

    def collect(self, value: Any, inside: bool) -> None:
        """Look into a value; `inside` a PyTree, every leaf that is no number counts."""
        kind = type(value)
        if kind in _NUMBERS or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if kind in _CONTAINERS:
            items = value.values() if isinstance(value, dict) else value
            others = [item for item in items if type(item) not in _NUMBERS]
            if kind in _CHANGEABLE and (others or inside):
                self.constant = False
            for item in others:
                self.collect(item, inside)
            return
        own, names = _plan(kind)
        if own:
            self.roots[id(kind)] = kind
        if names is not None:
            if not (_is_ours(kind) or _is_pytree(kind)):
                self.constant = False
            for name in names:
                item = getattr(value, name, None)
                if type(item) not in _NUMBERS:
                    self.collect(item, True)
        elif isinstance(value, tuple):
            for item in value:
                self.collect(item, inside)
        elif isinstance(value, Remembers) and value.own_code is not None:
            self.roots |= value.own_code
        elif _is_ours(kind):
            for item in getattr(value, "__dict__", {}).values():
                if type(item) not in _NUMBERS:
                    self.collect(item, False)
        elif isinstance(value, jax.Array | np.generic | np.ndarray):
            return
        elif (own or inside or callable(value)) and not _never_changes(value):
            self.roots[id(value)] = value


@functools.lru_cache(maxsize=1024)
def _plan(kind: type) -> tuple[bool, tuple[str, ...] | None]:
    """Is a class the user's own, and which fields does jax see in it? None if it is a leaf."""
    own = not is_library(kind)
    if not dataclasses.is_dataclass(kind) or not _is_pytree(kind):
        return own, None if own or not dataclasses.is_dataclass(kind) else _names(kind)
    return own, _names(kind)


def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))  # pyright: ignore[reportArgumentType]


@functools.lru_cache(maxsize=1024)
def _is_pytree(kind: type) -> bool:
    import equinox as eqx

    return issubclass(kind, eqx.Module)


@functools.lru_cache(maxsize=1024)
def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "gradbias"


def _never_changes(value: Any) -> bool:
    """Is this a library's own function?"""
    if id(value) in _LIBRARY_OBJECTS:
        return True
    if isinstance(value, types.FunctionType):
        fixed = is_library(value) and not value.__closure__ and not value.__dict__
    else:
        line, parts = describe(value)
        fixed = parts is None and not line.startswith("not seen") and is_library(type(value))
    if fixed and "<" not in getattr(value, "__qualname__", "<"):
        _LIBRARY_OBJECTS[id(value)] = value
    return fixed
