"""Every other kind of object: a line that says what it is, and its named parts."""

import dataclasses
import enum
import functools
import hashlib
import sys
import types
import weakref
from typing import Any

import numpy as np

from .. import checks
from ..constants import ReadOnlyDict
from ._functions import (
    METADATA,
    Absent,
    Items,
    code_digest,
    digest,
    full_name,
    function_items,
    function_line,
)
from ._libraries import OURS, file_is_library, is_library, module_is_library
from ._unseen import Unseen, unseen_object

PLAIN = (bool, int, float, complex, str, bytes)
SIMPLE = {*PLAIN, type(None), type(Ellipsis), type(NotImplemented)}
SHOWN = 4  # numbers of an array that are shown; larger ones are known by their hash
LONG = 64  # items of a list of plain values above which it is known by its hash

_CONTAINERS = (dict, list, tuple, set, frozenset)
_BUILT_IN: tuple[Any, ...] = (*_CONTAINERS, *PLAIN)
# of type.__flags__; classes of Python are the first alone
_HEAP = 1 << 9
_IMMUTABLE = 1 << 8
_TWO_POINTERS = 16  # bytes that __dict__ and __weakref__ may add to an instance
_OF_CLASSES = METADATA | {
    *("__dict__", "__weakref__", "__slots__", "__slotnames__", "__abstractmethods__", "_abc_impl"),
    *("__abstractvars__", "__abstractclassvars__", "__dataclass_params__", "__dataclass_fields__"),
    *("__match_args__", "__parameters__", "__orig_bases__", "__type_params__"),
    *("__firstlineno__", "__static_attributes__", "__annotate__", "__annotate_func__"),
    *("__annotations_cache__", "__classdictcell__"),
}
_OF_WRAPPERS = METADATA | {"_jit_info", "_fun", "_cached", "_signature", "cache_parameters"}
NOWHERE = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)
ATTRIBUTES = {
    property: ("fget", "fset", "fdel"),
    classmethod: ("__func__",),
    staticmethod: ("__func__",),
    functools.cached_property: ("func",),
    functools.partial: ("func", "args", "keywords"),
    types.MethodType: ("__func__", "__self__"),
    types.CellType: ("cell_contents",),
    types.UnionType: ("__args__",),
    types.GenericAlias: ("__origin__", "__args__"),
    slice: ("start", "stop", "step"),
    range: ("start", "stop", "step"),
}

Node = tuple[str, Items | None]


def describe(value: Any) -> Node:
    """What a value is in a line, and its parts; None if it has none."""
    kind = type(value)
    if kind in SIMPLE:
        return _shortened(repr(value)), None
    if isinstance(value, np.generic | np.ndarray) or checks.is_jax(value):
        return _array(value)
    if kind is types.FunctionType:
        if is_exported(value):
            return full_name(value), None
        return function_line(value), function_items(value)
    if isinstance(value, Unseen | Absent):
        return "not defined" if isinstance(value, Absent) else f"not seen: {value.why}", None
    if isinstance(value, type):
        return _class(value)
    if isinstance(value, types.ModuleType):
        return _module(value)
    if isinstance(value, enum.Enum):
        return f"{full_name(kind)}.{value.name}", iter((("class", kind), ("value", value.value)))
    if kind in (dict, list, tuple, set, frozenset, ReadOnlyDict):
        return _container(value)
    if kind in ATTRIBUTES:
        parts = ((name, getattr(value, name, Absent())) for name in ATTRIBUTES[kind])
        return full_name(kind), ((name.strip("_"), part) for name, part in parts)
    return _built_in(value) or _instance(value)


def _shortened(line: str) -> str:
    return line if len(line) < 200 else digest(line)


def _array(value: Any) -> Node:
    kind = type(value)
    if checks.is_jax(value):
        if checks.is_traced(value):
            return "not seen: is being traced by jax", None
        try:
            weak = bool(getattr(value, "weak_type", False))
            value = np.asarray(value)
        except TypeError:  # a key of jax.random
            return _by_reduction(value)
    else:
        weak = False
    if value.dtype.hasobject:
        return f"{full_name(kind)} of shape {value.shape}", _numbered(value.ravel().tolist())
    usual = not weak and value.dtype in (np.float64, np.int64, np.bool_)
    said = "" if usual else f"{'weak ' if weak else ''}{value.dtype} "
    if value.ndim == 0:
        line = f"{said}{value.item()!r}"
    elif 0 < value.size <= SHOWN:
        line = f"{said}{value.tolist()!r}"
    else:
        hashed = hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()[:16]
        line = f"{value.dtype} of shape {value.shape}, hash {hashed}"
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        return f"{full_name(kind)} {line}", _state(value)
    return line, None


def _numbered(items: Any) -> Items:
    return ((str(i), item) for i, item in enumerate(items))


def _container(value: Any) -> Node:
    if isinstance(value, dict):
        if all(type(name) is str for name in value):
            return "dict", iter(value.items())
        return "dict", _pairs(value)
    name = type(value).__name__
    if len(value) > LONG and all(type(item) in SIMPLE for item in value):
        listed = sorted(map(repr, value)) if isinstance(value, set | frozenset) else value
        return f"{name} of {len(value)}, hash {digest(repr(listed))}", None
    if isinstance(value, set | frozenset):
        return name, _numbered(sorted(value, key=_sorted_by))
    return name, _numbered(value)


def _sorted_by(item: Any) -> str:
    if type(item) in SIMPLE:
        return repr(item)
    return full_name(item) if hasattr(item, "__qualname__") else full_name(type(item))


def _pairs(value: dict[Any, Any]) -> Items:
    for i, (name, item) in enumerate(value.items()):
        if type(name) in SIMPLE:
            yield repr(name), item
        else:
            yield f"key{i}", name
            yield f"value{i}", item


def _module(module: types.ModuleType) -> Node:
    if is_library(module):
        return f"module {module.__name__}", None
    if module.__name__ == "__main__":
        return "not seen: takes the whole of __main__", None
    mine = ((n, v) for n, v in list(vars(module).items()) if not n.startswith("__"))
    others = ((n, v) for n, v in mine if not (isinstance(v, types.ModuleType) and is_library(v)))
    return f"all of module {module.__name__}", others


def _class(kind: type) -> Node:
    """A class: by its name, and if it is the user's own by all that it holds."""
    if is_library(kind):
        return full_name(kind), None
    bases = ", ".join(full_name(base) for base in kind.__bases__ if base is not object)
    return f"{full_name(kind)}({bases})" if bases else full_name(kind), _class_items(kind)


def _class_items(kind: type) -> Items:
    if not is_library(type(kind)):
        yield "metaclass", type(kind)
    for base in kind.__bases__:
        if not is_library(base):
            yield f"base {base.__qualname__}", base
    members = getattr(kind, "__members__", {}) if isinstance(kind, enum.EnumType) else {}
    for name, member in members.items():
        yield name, member.value
    for name, item in sorted(vars(kind).items()):
        of_enum = isinstance(kind, enum.EnumType) and (name in members or _is_sunder(name))
        if name not in _OF_CLASSES and not of_enum and not isinstance(item, NOWHERE):
            yield name, item


def _is_sunder(name: str) -> bool:
    return name.startswith("_") and name.endswith("_")


def _built_in(value: Any) -> Node | None:
    """Compiled functions, and objects that only point at something."""
    if isinstance(value, types.BuiltinFunctionType):
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            if module_is_library(value.__module__):
                return full_name(value), None
            return f"not seen: {full_name(value)} is compiled", None
        return value.__qualname__, iter((("self", owner),))
    if isinstance(value, (*NOWHERE, types.MethodDescriptorType)):
        return value.__qualname__, None
    if isinstance(value, types.CodeType):
        return f"code {code_digest(value)}", None
    if isinstance(value, types.MappingProxyType):
        return "mappingproxy", iter((("of", dict(value)),))
    if isinstance(value, weakref.ref):
        return "weakref", iter((("of", value()),))
    if isinstance(value, weakref.WeakKeyDictionary | weakref.WeakValueDictionary):
        return "a cache", None
    hidden = unseen_object(value)
    if hidden is not None:
        return f"not seen: {hidden.why}", None
    return None


def _instance(value: Any) -> Node:
    kind = type(value)
    if not is_library(kind):
        return full_name(kind), _own_instance(value)
    if isinstance(value, _CONTAINERS):
        return full_name(kind), iter((("items", _plain(value)), *_state(value)))
    if is_exported(value):
        return full_name(value), None
    if callable(getattr(value, "__wrapped__", None)):
        return full_name(kind), _wrapper_items(value)
    if kind.__name__ == "PyTreeDef":
        return "PyTreeDef", iter((("node", value.node_data()), ("children", value.children())))
    if dataclasses.is_dataclass(kind):
        return full_name(kind), ((name, getattr(value, name, None)) for name in _fields(kind))
    if is_ours(kind):
        return full_name(kind), _state(value)
    return _by_reduction(value)


def _own_instance(value: Any) -> Items:
    kind = type(value)
    yield "class", kind
    for base in kind.__mro__:
        for name, item in vars(base).items():
            if isinstance(item, functools.cached_property) and not is_library(base):
                getattr(value, name, None)  # what it remembers from now on is part of the object
    if isinstance(value, (*_CONTAINERS, *PLAIN)):
        yield "items", _plain(value)
    elif any(has_hidden_state(base) for base in kind.__mro__ if base is not object):
        yield from ((f"pickled {name}", part) for name, part in _reduced_items(value))
    yield from _state(value)


def has_hidden_state(kind: type) -> bool:
    """Is this a compiled class, whose instances hold more than attributes?"""
    if not kind.__flags__ & _HEAP or kind.__flags__ & _IMMUTABLE:
        return True
    below = kind.__base__
    grown = kind.__basicsize__ - (below.__basicsize__ if below is not None else 0)
    return grown > _TWO_POINTERS and "__slots__" not in vars(kind)


def _plain(value: Any) -> Any:
    """The same without what a subclass added."""
    kind = next(kind for kind in _BUILT_IN if isinstance(value, kind))
    if kind is dict:
        return dict(dict.items(value))
    if kind in (int, float, complex):
        return kind.__pos__(value)
    if kind in (str, bytes):
        return kind.__getitem__(value, slice(None))
    return kind(kind.__iter__(value))


def _state(value: Any) -> Items:
    """All attributes of an instance."""
    cached = _cached_names(type(value)) if is_library(type(value)) else ()
    yield from (pair for pair in getattr(value, "__dict__", {}).items() if pair[0] not in cached)
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name, getattr(value, name)


@functools.lru_cache(maxsize=256)
def _cached_names(kind: type) -> frozenset[str]:
    both = (item for base in kind.__mro__ for item in vars(base).items())
    return frozenset(name for name, item in both if isinstance(item, functools.cached_property))


def is_exported(value: Any) -> bool:
    """Is this object a library's own, found there under its name?"""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    name = name or getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not module_is_library(module):
        return False
    return getattr(sys.modules.get(module), name, None) is value


def _wrapper_items(value: Any) -> Items:
    yield "wrapped", value.__wrapped__
    for name, item in getattr(value, "__dict__", {}).items():
        if name not in _OF_WRAPPERS and item is not value.__wrapped__:
            yield name.strip("_"), item


def _by_reduction(value: Any) -> Node:
    """An object of some other library: by what it tells pickle to make it of."""
    return full_name(type(value)), _reduced_items(value)


def _reduced_items(value: Any) -> Items:
    found = _reduced(value)
    if isinstance(found, tuple):
        made, arguments, *rest = found
        if getattr(made, "__name__", "") not in ("__newobj__", "_reconstructor"):
            yield "made by", made
        yield from ((f"argument{i}", a) for i, a in enumerate(arguments) if a is not type(value))
        state, items, pairs = (*rest, None, None, None)[:3]
        if isinstance(state, dict):
            yield from _container(state)[1] or ()
        elif state is not None:
            yield "state", state
        if items is not None:
            yield "items", list(items)
        if pairs is not None:
            yield "pairs", dict(pairs)
    else:
        yield "content", found


def _reduced(value: Any) -> Any:
    try:
        return value.__reduce_ex__(4)
    except Exception:  # whatever an object that does not want to be pickled says
        return Unseen(f"holds a {full_name(type(value))}, whose content is unknown")


@functools.lru_cache(maxsize=256)
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.lru_cache(maxsize=256)
def is_ours(kind: type) -> bool:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    return bool(file_is_library(file)) and file.startswith(OURS)
