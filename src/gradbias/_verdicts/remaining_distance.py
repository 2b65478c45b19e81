"""Where a run that was stopped close to a minimum would have ended: what is left to its limit."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._engine.run import Run
from .._engine.setup import Setup
from ..nets import LinearNet
from ..nets.base import as_matrix
from ..numerics.precision import host, to_numpy
from ..numerics.types import PyTree
from ..problems import QuadraticProblem
from ..theorems._shared_hypotheses import noise_vanishes
from .runs import NotRecorded

LARGEST = 1000  # fitted numbers (rank × outputs) up to which the kernel is looked at
ROUNDING = 1e-13  # of the predictor: a misfit below it cannot be made smaller
CLOSE = 0.1  # a Newton step that leaves more of the misfit was not taken close to the limit


class CarriedOn(NamedTuple):
    """A run whose last state is moved to the limit, to first order.

    Attributes:
        run: with the moved `final` and `theta`; its record stays as it is.
        close: was the run close enough for that? If not, nothing is known of its limit.
    """

    run: Run
    close: bool


@host
def carried_on(run: Run) -> CarriedOn | None:
    """The run with its last state moved to its limit; None where there is no such thing.

    Close to a minimiser the misfit e of the predictor decays as exp(−Kt) with the kernel K = JJᵀ,
    so that gradient flow and descent still move the parameters by −Jᵀ∫e dt = −JᵀK⁻¹e: a Newton
    step of least norm.

    Args:
        run: of a linear net with squared loss, without weight decay, whose noise dies out.
    """
    setup = run.setup
    if setup is None or isinstance(run.final, NotRecorded) or not _has_limit(setup):
        return None
    problem = setup.problem
    net = setup.net
    assert isinstance(problem, QuadraticProblem) and isinstance(net, LinearNet)
    if problem.rank * problem.k > LARGEST or not _finite(run.final):
        return None
    target = np.asarray(problem.as_predictor(problem.min_norm))
    final, misfits, size = _newton(net, run.final, np.asarray(problem.row_space), target)
    if not _finite(final):
        return CarriedOn(run, False)
    theta = problem.at_edge(as_matrix(np.asarray(net.predictor(final))))
    close = misfits[1] <= max(CLOSE * misfits[0], ROUNDING * size)
    return CarriedOn(dataclasses.replace(run, final=final, theta=theta), bool(close))


def _has_limit(setup: Setup) -> bool:
    dynamics = setup.dynamics
    if not isinstance(setup.net, LinearNet) or not isinstance(setup.problem, QuadraticProblem):
        return False
    if dynamics.at_minimum or getattr(dynamics, "weight_decay", 0) != 0:
        return False
    return setup.problem.rank > 0 and noise_vanishes(setup)


def _finite(params: PyTree) -> bool:
    return all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


@host
def _newton(
    net: LinearNet, params: PyTree, basis: np.ndarray, target: np.ndarray
) -> tuple[PyTree, list[float], float]:
    """The parameters after the step, the misfits before and after it, and the predictor's size."""
    final, misfits, size = to_numpy(_step(net, params, basis, target))
    return final, misfits.tolist(), float(size)


@eqx.filter_jit
def _step(net, params, basis, target):
    flat, shaped = ravel_pytree(params)
    wanted = (basis.T @ target).ravel()

    def fitted(p):
        return (basis.T @ as_matrix(net.predictor(shaped(p)))).ravel()

    now, pull_back = jax.vjp(fitted, flat)
    misfit = now - wanted

    def kernel_times(u):
        return jax.jvp(fitted, (flat,), pull_back(u))[1]

    kernel = jax.lax.map(kernel_times, jnp.eye(len(now)))
    after = flat - pull_back(jnp.linalg.pinv(kernel, hermitian=True) @ misfit)[0]
    misfits = jnp.stack([jnp.linalg.norm(misfit), jnp.linalg.norm(fitted(after) - wanted)])
    return shaped(after), misfits, jnp.linalg.norm(now) + jnp.linalg.norm(wanted)
