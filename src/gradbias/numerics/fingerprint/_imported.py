"""What code takes from modules of the user's own, which another process imports for itself.

A module that was changed after its import, or a file that was edited since, is another one there.
"""

import importlib
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from ._functions import Absent, cell_content
from ._libraries import is_library
from ._references import Chain, references
from ._walk import Walk


def imported_parts(roots: Iterable[Any]) -> dict[str, str]:
    """The digest of every part of the user's own modules that code refers to, as "module:name"."""
    walk = Walk()
    found = dict[str, Any]()
    for root in roots:
        walk.read("", root)
    for part in walk.code:
        if is_importable(part):
            found[f"{part.__module__}:{part.__qualname__}"] = part
        if isinstance(part, types.FunctionType):
            found.update(_taken_from_modules(part))
    return {name: Walk().read("", part) for name, part in found.items()}


def changed_parts(parts: dict[str, str]) -> Iterator[str]:
    """Those parts that are not the same in this process."""
    for name, before in parts.items():
        module, _, path = name.partition(":")
        part: Any = importlib.import_module(module)
        for attribute in path.split("."):
            part = getattr(part, attribute, Absent())
        if Walk().read("", part) != before:
            yield name


def is_importable(part: Any) -> bool:
    """Would an import in another process find this very function or class?"""
    if part.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(part.__module__ or "")
    for name in part.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is part or (isinstance(part, type) and part.__module__ == "builtins")


def _taken_from_modules(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    refers = references(function.__code__)
    cells = function.__closure__ or ()
    named = dict(zip(function.__code__.co_freevars, map(cell_content, cells), strict=True))
    for chain in refers.globals:
        yield from _taken(chain, function.__globals__.get(chain[0]))
    for chain in refers.cells:
        yield from _taken(chain, named[chain[0]])


def _taken(chain: Chain, value: Any) -> Iterator[tuple[str, Any]]:
    for name in chain[1:]:
        if not isinstance(value, types.ModuleType) or is_library(value):
            return
        module = value
        value = getattr(value, name, Absent())
        if sys.modules.get(module.__name__) is module and not isinstance(value, types.ModuleType):
            yield f"{module.__name__}:{name}", value
