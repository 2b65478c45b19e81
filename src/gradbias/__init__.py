"""gradbias: which minimum a gradient method picks, how fast and why."""

import contextlib
import gc
import importlib
from collections.abc import Iterator
from typing import Any

__version__ = "0.1.0"

# Public name -> the module that defines it. Nothing heavy is imported before it is used.
_NAMES = {
    "Regression": "problems",
    "Population": "problems",
    "Samples": "problems",
    "Rank1": "nets",
    "Deep": "nets",
    "TwoLayer": "nets",
    "Diagonal": "nets",
    "MLP": "nets",
    "NormalisedA": "nets",
    "NormalisedB": "nets",
    "Net": "nets",
    "LinearNet": "nets",
    "Descent": "dynamics",
    "Flow": "dynamics",
    "Diffusion": "dynamics",
    "Limit": "limit",
    "Minibatch": "noise",
    "LabelNoise": "noise",
    "Isotropic": "noise",
    "Replay": "noise",
    "Setup": "_setup",
    "Until": "_setup",
    "simulate": "_simulate",
    "sweep": "_foretold",
    "predict": "_predict",
    "compare": "_compare",
    "check": "_check",
    "verify": "_verify",
    "weak_error": "_weak_error",
    "Theorem": "theorems",
    "Hypothesis": "theorems",
    "register": "theorems",
    "cite": "theorems",
    "Run": "_run",
    "load": "_run",
    "float64": "numerics.precision",
}
_ROOMS = (
    *("problems", "nets", "init", "noise", "symmetry", "dynamics", "observe"),
    *("theory", "theorems", "plot", "figures", "report", "testing"),
)

__all__ = ["__version__", *_NAMES, *_ROOMS]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _NAMES and name not in _ROOMS:
        raise AttributeError(f"module 'gradbias' has no attribute {name!r}")
    with _no_search_for_garbage():
        module = importlib.import_module(f".{_NAMES.get(name, name)}", __name__)
    globals()[name] = getattr(module, name) if name in _NAMES else module
    return globals()[name]


@contextlib.contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    """What is imported stays; to look through it again and again takes a sixth of the time."""
    if not gc.isenabled() or gc.get_freeze_count() > 0:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        # Frozen and thawed, all objects count as old: none is looked at before others grow old.
        gc.freeze()
        gc.unfreeze()
        gc.enable()


def __dir__() -> list[str]:
    return sorted(__all__)
