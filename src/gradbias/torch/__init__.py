"""gradbias on PyTorch models: balance, gradient noise, sharpness, inside your own training loop.

`import gradbias.torch as gbt`. It never imports jax, and torch only when something is used.
Conventions everywhere: `loss_fn(model, batch)` is the mean loss; charge C = θᵀAθ; κ = lr/S for
batches of S; objective L + γ‖θ‖², so that the weight decay of torch's SGD is 2γ.
"""

import importlib
import warnings

import lazy_loader

OLDEST = "2.13"  # what the tests run on; 2.4 and 2.8 were seen to fail some of them

_attribute, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name in __all__:
        _require_torch()
    return _attribute(name)


def _require_torch() -> None:
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise ImportError(
            f"gradbias.torch needs PyTorch {OLDEST} or later: install the build for your machine "
            "(https://pytorch.org/get-started), then gradbias[torch]"
        ) from error
    if torch.__version__ < OLDEST:
        warnings.warn(
            f"gradbias.torch is tested with PyTorch {OLDEST}, got {torch.__version__}: some models "
            "may not be understood there, and some calls fail",
            stacklevel=3,
        )
