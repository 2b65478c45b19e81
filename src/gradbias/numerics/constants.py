"""What cannot change: read-only arrays and dicts, and the sentence for those who try."""

import dataclasses
from typing import Any, NoReturn, TypeVar

import numpy as np

T = TypeVar("T")


def is_constant(array: np.ndarray) -> bool:
    """Can nobody change these numbers? Neither through the array nor through what it looks at."""
    looked_at: Any = array
    while isinstance(looked_at, np.ndarray):
        if looked_at.flags.writeable:
            return False
        looked_at = looked_at.base
    return looked_at is None


def constant(value: Any) -> Any:
    """An array as a read-only one, copied unless it is constant already.

    Dicts, lists and tuples are made anew, with constant arrays; all else stays what it is.
    """
    if isinstance(value, np.ndarray):
        return value if is_constant(value) else sealed(value.copy(order="K"))
    if type(value) is dict:
        return {name: constant(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(constant, value))
    return value


def sealed(value: T) -> T:
    """The same object; arrays of ours in it, which nobody else holds, become read-only."""
    if isinstance(value, np.ndarray):
        value.setflags(write=False)
    elif isinstance(value, dict):
        for item in value.values():
            sealed(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            sealed(item)
    return value


class ReadOnlyDict(dict[Any, Any]):
    """A dict that refuses changes."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise dataclasses.FrozenInstanceError(
            "this dict cannot be changed, it is part of a Setup: make a new one with "
            "setup.replace(…)"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse  # pyright: ignore[reportAssignmentType]
    clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[type, tuple[dict[Any, Any]]]:
        return type(self), (dict(self),)


def refuse_assignment(owner: object, name: str, instead: str) -> NoReturn:
    """Say that an attribute cannot be assigned, and what to do instead."""
    raise dataclasses.FrozenInstanceError(
        f"{type(owner).__name__}.{name} cannot be changed: {instead}"
    )
