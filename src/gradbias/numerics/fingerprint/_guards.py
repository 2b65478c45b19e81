"""A second look at what a walk has read: is all of it still there?

A walk costs tens of microseconds; to see that every name still stands for the very same object,
that containers hold the same objects and that arrays hold the same bytes costs a few. Objects that
cannot change need no look, those of unknown kinds cannot be guarded: they are walked every time.
"""

import builtins
import dataclasses
import enum
import sys
import types
from operator import is_
from typing import Any

import numpy as np

from .. import checks
from ..constants import ReadOnlyDict
from ._functions import Absent
from ._libraries import is_library
from ._objects import ATTRIBUTES, NOWHERE, has_hidden_state, is_exported, is_ours
from ._references import Chain, references

MOST = 2000  # parts that are looked at; guards keep them alive, so larger ones are walked
MOST_BYTES = 2**16  # of arrays
MISSING = object()
CHANGES = (AttributeError, ValueError, RuntimeError)  # deleted, or being changed by a thread

_BUILTINS: dict[str, Any] = builtins.__dict__
_FIXED = {  # cannot change; what they hold is met by itself
    *(types.MethodType, types.UnionType, types.GenericAlias, slice, range),
    *(types.BuiltinFunctionType, types.CodeType, types.MethodDescriptorType, *NOWHERE, Absent),
}


class Guards:
    """The objects that a walk meets, as they were when it met them.

    Attributes:
        complete: can all of them be guarded?
    """

    def __init__(self) -> None:
        self.complete = True
        self._parts = 0
        self._bytes = 0
        self._functions: list[tuple[types.FunctionType, Any, Any, Any, bool]] = []
        self._names: dict[tuple[int, str], tuple[dict[str, Any], str, Any]] = {}
        self._attributes: list[tuple[Any, str, Any]] = []
        self._spaces: list[tuple[Any, type, tuple[Any, ...], tuple[Any, ...]]] = []
        self._dicts: list[tuple[dict[Any, Any], tuple[Any, ...], tuple[Any, ...]]] = []
        self._lists: list[tuple[Any, tuple[Any, ...]]] = []
        self._arrays: list[tuple[np.ndarray, np.dtype, tuple[int, ...], bytes]] = []

    def unchanged(self) -> bool:
        """Is everything as it was? If in doubt it is not."""
        try:
            return not self._some_differ()
        except CHANGES:
            return False

    def _some_differ(self) -> bool:  # one function: between two runs each call starts cold
        for function, code, defaults, keywords, filled in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not keywords
                or bool(function.__dict__) is not filled
            ):
                return True
        for space, name, value in self._names.values():
            if space.get(name, MISSING) is not value:
                return True
        for owner, name, value in self._attributes:
            if getattr(owner, name) is not value:
                return True
        for owner, kind, names, values in self._spaces:
            if type(owner) is not kind or _differ(owner.__dict__, names, values):
                return True
        for space, names, values in self._dicts:
            if _differ(space, names, values):
                return True
        for items, seen in self._lists:
            if len(items) != len(seen) or not all(map(is_, items, seen)):
                return True
        for array, dtype, shape, content in self._arrays:
            if array.shape != shape or array.dtype != dtype or array.tobytes() != content:
                return True
        return False

    def watch(self, value: Any) -> None:
        """Note how an object is, before it is read."""
        if self.complete and type(value) not in _FIXED:
            self._parts += 1
            try:
                known = self._watch(value, type(value))
            except CHANGES:
                known = False
            self.complete &= known and self._parts <= MOST and self._bytes <= MOST_BYTES

    def _watch(self, value: Any, kind: type) -> bool:
        """False if objects of this kind cannot be guarded."""
        if kind is types.FunctionType:
            return is_exported(value) or self._watch_function(value)
        if kind in (dict, ReadOnlyDict, list, set, tuple, frozenset):
            return self._watch_container(value, kind)
        if kind is np.ndarray:
            return self._watch_array(value)
        if isinstance(value, np.generic) or checks.is_jax(value):
            self._bytes += value.nbytes
            return not isinstance(value, np.void)
        if kind in ATTRIBUTES:
            self._attributes += [(value, name, getattr(value, name)) for name in ATTRIBUTES[kind]]
            return True
        if isinstance(value, types.ModuleType):
            return is_library(value) or self._watch_space(value)
        if isinstance(value, type):
            return self._watch_class(value)
        return self._watch_instance(value)

    def _watch_container(self, value: Any, kind: type) -> bool:
        self._parts += len(value)
        if kind in (dict, ReadOnlyDict):
            self._dicts.append((value, tuple(value), tuple(value.values())))
        elif kind in (list, set):
            self._lists.append((value, tuple(value)))
        return True

    def _watch_function(self, function: types.FunctionType) -> bool:
        code = function.__code__
        keywords = function.__kwdefaults__
        filled = bool(function.__dict__)
        self._functions.append((function, code, function.__defaults__, keywords, filled))
        if keywords:
            self._dicts.append((keywords, tuple(keywords), tuple(keywords.values())))
        if filled:
            self._watch_space(function)
        refers = references(code)
        contents = dict[str, Any]()
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            contents[name] = cell.cell_contents
            self._attributes.append((cell, "cell_contents", contents[name]))
        for chain in refers.cells:
            self._watch_chain(contents[chain[0]], chain[1:])
        if is_library(function):
            return True
        space = function.__globals__
        self.complete &= type(space) is dict
        for chain in refers.globals:
            value = self._watch_name(space, chain[0])
            if value is MISSING:
                value = self._watch_name(_BUILTINS, chain[0])
            self._watch_chain(value, chain[1:])
        for module, level, names in refers.imports:
            self.complete &= level == 0  # where a relative import leads depends on more
            for name in names or ("",):
                self._watch_chain(self._watch_name(sys.modules, module), (name,) if name else ())
        return True

    def _watch_name(self, space: dict[str, Any], name: str) -> Any:
        value = space.get(name, MISSING)
        self._names.setdefault((id(space), name), (space, name, value))
        return value

    def _watch_chain(self, value: Any, names: Chain) -> None:
        """Of a module of the user's own only the attribute that is taken."""
        for name in names:
            if not isinstance(value, types.ModuleType) or is_library(value):
                return
            if type(value) is not types.ModuleType or name not in vars(value):
                self.complete = False  # it may come from a __getattr__
                return
            self._attributes.append((value, "__class__", types.ModuleType))
            value = self._watch_name(vars(value), name)

    def _watch_array(self, array: np.ndarray) -> bool:
        self._bytes += array.nbytes
        if array.dtype.hasobject or array.nbytes > MOST_BYTES:
            return False
        self._arrays.append((array, array.dtype, array.shape, array.tobytes()))
        return True

    def _watch_class(self, kind: type) -> bool:
        if is_library(kind):
            return True
        if isinstance(kind, enum.EnumType):
            return False
        self._attributes.append((kind, "__bases__", kind.__bases__))
        return self._watch_space(kind)

    def _watch_instance(self, value: Any) -> bool:
        kind = type(value)
        own = not is_library(type(value))
        if not own and is_exported(value):
            return True
        slots = any(vars(base).get("__slots__") for base in kind.__mro__)
        if slots or not hasattr(value, "__dict__"):
            return False
        if not own and callable(getattr(value, "__wrapped__", None)):
            return self._watch_space(value)
        if any(has_hidden_state(base) for base in kind.__mro__ if base is not object):
            return False
        known = own or dataclasses.is_dataclass(kind) or is_ours(kind)
        return known and self._watch_space(value)

    def _watch_space(self, owner: Any) -> bool:
        space = owner.__dict__
        self._parts += len(space)
        self._spaces.append((owner, type(owner), tuple(space), tuple(space.values())))
        return True


def _differ(space: Any, names: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    alike = len(space) == len(names) and all(map(is_, space, names))
    return not alike or not all(map(is_, space.values(), values))
