"""gradbias: which minimum a gradient method picks, how fast and why."""

import importlib
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
    if name in _NAMES:
        value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    elif name in _ROOMS:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'gradbias' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
