"""What a simulation asks of a dynamics, and nothing else."""

import abc
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..problems import Problem

# How a state came to rest; RUNNING means that it has not.
RUNNING, CONVERGED, DIVERGED, STATIONARY, FLOOR, FAILED = range(6)


class State(eqx.Module):
    """Where a run is: parameters, clock, the dynamics' own memory, and a code from above."""

    params: Any
    clock: Any
    memory: Any
    code: Any


class Gap(eqx.Module):
    """How far the loss is above its minimum; the loss itself where the minimum is unknown.

    Attributes:
        excess: the map of a quadratic problem on a linear net, else None.
        computable: is the loss known at all? A non-linear net in expectation has none: NaN.
    """

    excess: Any
    computable: bool = eqx.field(static=True)

    def __call__(self, problem, net, params) -> Any:
        if not self.computable:
            return jnp.asarray(jnp.nan)
        if self.excess is None:
            return problem.net_loss(net, params)
        theta = net.predictor(params)
        return self.excess(theta[:, None] if theta.ndim == 1 else theta)


class Stepper(eqx.Module):
    """The compiled half of a dynamics: a PyTree whose arrays may differ without recompiling."""

    weight_decay: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def begin(self, problem, net, params) -> Any:
        """The memory at clock 0 (jax-level)."""

    @abc.abstractmethod
    def advance(self, problem, net, gap: Gap, state: State, target, drive, goal) -> State:
        """Move a state to `target`, or until it stops on its own (jax-level).

        Args:
            problem: what is fitted.
            net: how parameters make a predictor.
            gap: the excess loss, for those that stop on it in between.
            state: where to start; only called while it is RUNNING.
            target: the step or time to reach.
            drive: what `Dynamics.drive` returned for this stretch.
            goal: the excess loss at which the run has converged; negative for never.
        """


class Dynamics(eqx.Module):
    """How parameters move. The clock counts steps (`axis = "step"`) or time (`"time"`)."""

    axis: ClassVar[Literal["step", "time"]]
    weight_decay: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        """Raise a ValueError if a run up to `limit` is not possible."""

    @abc.abstractmethod
    def stepper(self, params) -> Stepper:
        """The compiled half, for a run that starts at these (full) parameters."""

    @abc.abstractmethod
    def in_basis(self, basis: np.ndarray) -> "Dynamics | None":
        """The same dynamics with inputs written in an orthonormal basis; None if not closed."""

    @abc.abstractmethod
    def drive(self, state: State, calls: int) -> tuple[Any, float]:
        """What a stretch that starts at `state` needs, and the clock up to which it serves.

        Args:
            state: where the stretch starts, with NumPy leaves.
            calls: how many steps the stretch may take.
        """

    @abc.abstractmethod
    def time(self, clock: np.ndarray) -> np.ndarray:
        """Gradient-flow time of these clock values."""
