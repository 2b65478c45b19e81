"""Li, Wang and Arora (2022): what SGD does after it has reached zero loss."""

from . import (
    _derivatives,
    _diagonal,
    _diffusion,
    _limiting,
    _motor,
    _noise,
    _recovery,
    _second,
    _steps,
)

THEOREMS = (
    *_derivatives.THEOREMS,
    *_second.THEOREMS,
    *_motor.THEOREMS,
    *_diffusion.THEOREMS,
    *_noise.THEOREMS,
    *_diagonal.THEOREMS,
    *_limiting.THEOREMS,
    *_steps.THEOREMS,
    *_recovery.THEOREMS,
)
