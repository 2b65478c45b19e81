"""gradbias on PyTorch models: balance, gradient noise, sharpness, inside your own training loop.

`import gradbias.torch as gbt`. It never imports jax, and torch only when something is used.
Conventions everywhere: `loss_fn(model, batch)` is the mean loss; charge C = θᵀAθ; κ = lr/S for
batches of S; objective L + γ‖θ‖², so that the weight decay of torch's SGD is 2γ.
"""

import importlib
from typing import Any

# Public name -> the module that defines it.
_NAMES = {
    "inspect": "_inspect",
    "Inspection": "_inspect",
    "Advice": "_advice",
    "balance": "_balance",
    "equilibrate": "_equilibrate",
    "Jump": "_jump",
    "symmetries": "_symmetries",
    "Symmetries": "_symmetries",
    "Family": "_family",
    "Part": "_family",
    "declare": "_declare",
    "check": "_declare",
    "Monitor": "_monitor",
    "CsvLog": "_csv_log",
    "ChargeLaw": "_laws",
    "step_law": "_laws",
    "check_repeatable": "_probe",
    "lightning_callback": "_lightning",
    "trainer_callback": "_huggingface",
    "gradient_noise": "_noise",
    "Noise": "_noise",
    "sharpness": "_curvature",
    "Sharpness": "_curvature",
    "hessian_trace": "_curvature",
    "Trace": "_curvature",
}

__all__ = [*_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'gradbias.torch' has no attribute {name!r}")
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            "gradbias.torch needs PyTorch 2.4 or later: install the build for your machine "
            "(https://pytorch.org/get-started), then gradbias[torch]"
        ) from error
    value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
