"""Runs of SGD with the terms of Theorem 3 along them."""

from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ... import init, observe, theory
from ..._engine.setup import Setup, Until
from ...nets import Net
from ...numerics.types import PyTree
from ...problems import Problem
from ...theory.rank1 import Alleviation
from .._figure import Settings
from .._lab import Lab
from . import _common as common
from ._common import FACTORS

Form: TypeAlias = Literal["printed", "corrected"]
SAVES = 400  # integrals along the path are sums over saves
FORMS: tuple[Form, ...] = ("printed", "corrected")
LAMBDA = 1 - 1 / FACTORS
MEMBERS = ("scale", "direction")


def kept(problem: Problem, net: Net, params: PyTree) -> jax.Array:
    """What is left of the start in the mirror's coordinates: ξ/‖θ‖^λ, 1 while δ = 0."""
    return (jnp.linalg.norm(params["u"][0]) / jnp.linalg.norm(params["v1"])) ** LAMBDA


def start(s: Settings, scale: float, direction: int) -> np.ndarray:
    """θ(0) in one of several directions; the data are those of seed 0."""
    return common.start(s, scale, direction=direction)


def runs(s: Settings, lab: Lab) -> xr.Dataset:
    """SGD from balanced starts, on one data set."""
    net = common.rank1(s)
    record = {"loss": observe.loss, "theta": observe.theta, "kept": kept}
    more = {"until": Until(steps=s.steps), "save_at": common.save_steps(s, SAVES)}

    def build(scale: float, direction: int) -> Setup:
        params = init.balanced(net, start(s, scale, direction), key=common.number(s, direction))
        noise = s.directions * s.scales.index(scale) + direction
        return common.setup(s, net, params, "SGD", draw=noise, record=record, **more)

    return lab.sweep(build, {"scale": s.scales, "direction": range(s.directions)})


def terms(s: Settings, done: xr.Dataset, form: Form) -> list[list[Alleviation]]:
    """p, q, g and α along every member, with the weight as printed or corrected."""
    times = done["step"].values * s.lr
    problem = common.data(s)

    def one(path: np.ndarray) -> Alleviation:
        return theory.alleviation_terms(problem, times, path, FACTORS, s.lr, s.batch, form)

    return [[one(path) for path in row] for row in done["theta"].values]


def outside(s: Settings, vectors: np.ndarray) -> np.ndarray:
    """The part that the data do not see."""
    basis = common.data(s).row_space
    return vectors - vectors @ basis @ basis.T
