"""Pure mathematics: which minimum, how fast and why, computed without running anything.

NumPy in, NumPy out. Nothing here knows the dynamics, so that a comparison of the two means
something. What takes a problem answers for that problem's own weight and time; what takes none
is in the convention that its docstring names. Everything is imported when it is first used.
"""

import importlib
from typing import Any

# Public name -> the module that defines it.
_NAMES: dict[str, str] = {}
_ROOMS = ("potentials",)

__all__ = [*_NAMES, *_ROOMS]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    elif name in _ROOMS:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'gradbias.theory' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
