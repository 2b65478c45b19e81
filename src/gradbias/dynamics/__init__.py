"""Dynamics: how parameters move.

`gradient` and the steppers are the jax-level API: they can be transformed by jit, grad and vmap,
and need double precision (`with gb.float64():`).
"""

from ._descent import Descent
from ._diffusion import Diffusion
from ._flow import Flow
from ._gradient import decayed, gradient
from ._schedules import Piecewise, piecewise
from .protocol import Dynamics, Gap, State, Stepper, System

__all__ = [
    "Descent",
    "Diffusion",
    "Dynamics",
    "Flow",
    "Gap",
    "Piecewise",
    "State",
    "Stepper",
    "System",
    "decayed",
    "gradient",
    "piecewise",
]
