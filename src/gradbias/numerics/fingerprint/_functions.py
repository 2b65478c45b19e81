"""Functions: their code, and all that it refers to."""

import builtins
import dataclasses
import functools
import hashlib
import importlib
import types
from collections.abc import Iterator
from typing import Any

from ._libraries import is_library, module_is_library
from ._references import Chain, Import, references
from ._unseen import Unseen, unseen_name

Items = Iterator[tuple[str, Any]]
METADATA = {"__module__", "__name__", "__qualname__", "__doc__", "__annotations__"}


@dataclasses.dataclass(frozen=True)
class Absent:
    """A name that is not defined (yet)."""


def full_name(value: Any) -> str:
    """Module and name of a class or function, or of another object that has both."""
    name = getattr(value, "__qualname__", None) or value.__name__
    return f"{value.__module__}.{name}".removeprefix("builtins.")


def function_line(function: types.FunctionType) -> str:
    """What a function is by itself."""
    if is_library(function) and not function.__closure__ and "<" not in function.__qualname__:
        return full_name(function)
    return f"{function.__qualname__}, code {code_digest(function.__code__)}"


def function_items(function: types.FunctionType) -> Items:
    """What a function refers to beside its arguments: defaults, closure, globals, attributes."""
    for i, item in enumerate(function.__defaults__ or ()):
        yield f"default{i}", item
    yield from (function.__kwdefaults__ or {}).items()
    code = function.__code__
    library = is_library(function)
    found: dict[str, Any] = {}
    refers = references(code)
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    for chain in sorted(refers.cells):
        found.update(_resolved(chain, cell_content(cells[chain[0]])))
    if not library:  # its globals change only with a version
        space = function.__globals__
        for chain in sorted(refers.globals):
            value = space.get(chain[0], space)
            if value is space:
                value = vars(builtins).get(chain[0], Absent())
            found.update(_resolved(chain, value))
        for imported in sorted(refers.imports):
            found.update(_imported(imported, space))
    yield from found.items()
    if function.__dict__:
        yield from ((n.strip("_"), v) for n, v in vars(function).items() if n not in METADATA)


def cell_content(cell: types.CellType) -> Any:
    """What an enclosing function put there."""
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return Absent()


def _resolved(chain: Chain, value: Any) -> Items:
    """What a name stands for; of a module of the user's own, only the attribute that is taken."""
    taken = [chain[0]]
    left = list(chain[1:])
    while left and isinstance(value, types.ModuleType) and not is_library(value):
        taken.append(left.pop(0))
        value = getattr(value, taken[-1], Absent())
    yield ".".join(taken), value
    if isinstance(value, types.ModuleType):
        base = value.__name__ if is_library(value) else ""
    else:
        base = _library_name(value)
    hidden = unseen_name(base, tuple(left)) if base else None
    if hidden is not None:
        yield hidden


def _library_name(value: Any) -> str:
    """The full name of a library's function or class, as far as it has one."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not module_is_library(module):
        return ""
    return f"{module}.{name}"


def _imported(imported: Import, space: dict[str, Any]) -> Items:
    """What a function imports while it runs; it would be imported anyway."""
    name = "." * imported.level + imported.module
    try:
        package = space.get("__package__") or space.get("__name__", "").rpartition(".")[0]
        module: Any = importlib.import_module(name, package if imported.level else None)
    except ImportError as error:
        yield f"import {name}", Unseen(f"imports {name}, which cannot be found ({error})")
        return
    for attribute in imported.names:
        yield from _resolved((name, attribute), module)
    if not imported.names:
        yield from _resolved((name,), module)


@functools.lru_cache(maxsize=4096)
def code_digest(code: types.CodeType) -> str:
    """What code does; not where it stands, so that a cell may be run again."""
    shape = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    content = code.co_code, code.co_exceptiontable, list(map(_constant, code.co_consts))
    return digest(repr((shape, names, content)))


def _constant(value: Any) -> str:
    if isinstance(value, types.CodeType):
        return code_digest(value)
    if isinstance(value, frozenset):
        return f"frozenset{sorted(map(_constant, value))}"
    if isinstance(value, tuple):
        return f"tuple{list(map(_constant, value))}"
    return repr(value)


def digest(content: str | bytes) -> str:
    """A short word for a long text."""
    content = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(content).hexdigest()[:16]
