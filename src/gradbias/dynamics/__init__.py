"""Dynamics: how parameters move.

`gradient` and the steppers are the jax-level API: they can be transformed by jit, grad and vmap,
and need double precision (`with gb.float64():`).
"""

from ._adam import Adam
from ._descent import Descent
from ._diffusion import Diffusion
from ._flow import Flow
from ._gradient import decayed, gradient
from ._lion import Lion
from ._muon import Muon
from ._sam import SAM
from ._schedules import Piecewise, piecewise
from ._steepest import Steepest
from ._steps import Optimiser
from .protocol import Dynamics, Gap, State, Stepper, System

__all__ = [
    "SAM",
    "Adam",
    "Descent",
    "Diffusion",
    "Dynamics",
    "Flow",
    "Gap",
    "Lion",
    "Muon",
    "Optimiser",
    "Piecewise",
    "State",
    "Steepest",
    "Stepper",
    "System",
    "decayed",
    "gradient",
    "piecewise",
]
