"""gradbias objects as JSON and arrays, and back, without executing anything that a file says."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

Arrays = list[np.ndarray]


class NotPlain(Exception):
    """The object holds code of the user's own, which JSON cannot."""


def encode(value: Any, arrays: Arrays | None) -> Any:
    """A value as JSON; its arrays are appended to `arrays` (None: only their shapes are said)."""
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        if arrays is None:
            return f"array of shape {list(value.shape)}"
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [encode(item, arrays) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[str(key), encode(item, arrays)] for key, item in value.items()]}
    if classes().get(type(value).__name__) is not type(value):
        raise NotPlain(f"{type(value).__name__} is not one of gradbias's own classes")
    given = getattr(value, "given", {})  # what was left to its default stays so
    fields = {
        name: encode(given.get(name, getattr(value, name)), arrays)
        for name in _arguments(type(value))
    }
    return {"class": type(value).__name__, "fields": fields}


def decode(value: Any, arrays: Arrays) -> Any:
    """The value that `encode` wrote; only gradbias's own classes are ever made."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "list" in value or "tuple" in value:
        make: Callable[[Any], Any] = list if "list" in value else tuple
        return make([decode(item, arrays) for item in next(iter(value.values()))])
    if "dict" in value:
        return {key: decode(item, arrays) for key, item in value["dict"]}
    known = classes()
    if value.get("class") not in known:
        raise ValueError(
            f"the file names a class {value.get('class')!r} that gradbias does not have"
        )
    fields = {name: decode(item, arrays) for name, item in value["fields"].items()}
    return known[value["class"]](**fields)


def classes() -> dict[str, type]:
    """Gradbias's own classes that a setup is made of, by name."""
    from ..dynamics import Dynamics, Piecewise
    from ..geometry import Geometry
    from ..nets import Net
    from ..noise import Noise
    from ..observe import Observable
    from ..problems import Problem
    from .setup import Setup, Until

    found: dict[str, type] = {"Setup": Setup, "Until": Until, "Piecewise": Piecewise}
    waiting: list[type] = [Dynamics, Geometry, Net, Noise, Observable, Problem]
    while waiting:
        for child in waiting.pop().__subclasses__():
            waiting.append(child)
            if child.__module__.startswith("gradbias.") and not inspect.isabstract(child):
                found[child.__name__] = child
    return found


def _arguments(kind: type) -> list[str]:
    """The names of the constructor's arguments; each is also an attribute."""
    if dataclasses.is_dataclass(kind) and "__init__" not in vars(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(inspect.signature(kind).parameters)
