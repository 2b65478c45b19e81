"""What a simulation asks of a dynamics, and nothing else."""

import abc
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..nets.base import as_matrix
from ..numerics.linalg import spectral_bound
from ..numerics.pytrees import Module, Value
from ..numerics.types import Integer, Number, PyTree
from ..problems import Problem

# How a state came to rest; RUNNING means that it has not, and STIFF that `Stepper.when_stiff` is to
# go on from here. AT_REST: the dynamics itself says that no later step moves it. Larger codes are
# failures that `Dynamics.reasons` explains.
RUNNING, CONVERGED, DIVERGED, STATIONARY, FLOOR, FAILED, SPENT, STIFF, AT_REST = range(9)


class State(NamedTuple):
    """Where a run is.

    Attributes:
        params: the parameters.
        sums: of the quantities that are summed over every step, by name.
        clock: the step or time.
        memory: the dynamics' own: a velocity, the state of an integrator.
        code: how it came to rest, from above.
        slopes: their sum over all steps, which bounds how errors of a reduced run grow; None where
            there are no errors.
    """

    params: Any
    sums: dict[str, Any]
    clock: Any
    memory: Any
    code: Any
    slopes: Any = None


class Gap(Module):
    """How far the loss is above its minimum; the loss itself where the minimum is unknown.

    Attributes:
        excess: the map of a quadratic problem on a linear net, else None.
        computable: is the loss known at all? A non-linear net in expectation has none: infinite.
        least: what the loss cannot be below; None if that is not known.
    """

    excess: Any
    computable: bool = eqx.field(static=True)
    least: Any = None

    @property
    def unknown(self) -> bool:
        """Does nobody know how low the loss can get? A small value then says nothing."""
        return self.computable and self.excess is None and self.least is None

    def __call__(self, problem: Any, net: Any, params: PyTree) -> jax.Array:
        if not self.computable:
            return jnp.asarray(jnp.inf)
        if self.excess is None:
            return self._above(problem.net_loss(net, params))
        theta = net.predictor(params)
        return self.excess(theta[:, None] if theta.ndim == 1 else theta)

    def _above(self, loss) -> jax.Array:
        if self.least is None:
            return loss
        above = loss - self.least
        # Below what was said to be the minimum: how far above the true one it is, nobody knows.
        return jnp.where(above < -1e-9 * abs(self.least) - 1e-15, jnp.nan, above)


class System(Module):
    """What moves, in the coordinates it is computed in.

    Attributes:
        problem: what is fitted.
        net: how parameters make a predictor.
        gap: the excess loss.
        tally: what one step adds to the sums, as a function of parameters, (stochastic) gradient
            of the loss and learning rate; None if nothing is summed.
        growth: how fast errors of a reduced run can grow; None where there are none.
    """

    problem: Any
    net: Any
    gap: Gap
    tally: Callable[[Any, Any, Any], dict[str, Any]] | None
    growth: Any = None

    def add(
        self, sums: dict[str, Any], params: PyTree, grads: PyTree, lr: Number
    ) -> dict[str, Any]:
        """The sums after one more step."""
        if self.tally is None:
            return sums
        return jax.tree.map(jnp.add, sums, self.tally(params, grads, lr))

    def add_slope(self, slopes: PyTree, params: PyTree, time: Number) -> Any:
        """The sum of slopes after a step that takes so much time (jax-level).

        Of the loss in the predictor, times what it meets in the other factors if that is not left
        for later: see `reductions._growth_bound`.
        """
        if self.growth is None:
            return slopes
        theta = as_matrix(self.net.predictor(params))
        slope = spectral_bound(self.problem.theta_gradient(theta), jnp)
        if not self.growth.at_looks:
            factors = self.net.factors(params)
            slope = slope * self.growth.others([spectral_bound(f, jnp) for f in factors], jnp)
        return slopes + time * slope


class Stepper(Module):
    """The compiled half of a dynamics: a PyTree whose arrays may differ without recompiling."""

    weight_decay: eqx.AbstractVar[Any]

    @property
    def remembers(self) -> bool:
        """Is there a memory at all?"""
        return True

    @property
    def when_stiff(self) -> "Stepper":
        """What goes on with a state, and its memory, that this one left with the code STIFF."""
        return self

    def batch(self, system: System, step: Integer) -> Any:
        """What one step sees of the data; None for all of it (jax-level)."""
        return None

    @abc.abstractmethod
    def begin(self, system: System, params: PyTree) -> Any:
        """The memory at clock 0 (jax-level)."""

    @abc.abstractmethod
    def advance(
        self, system: System, state: State, start: PyTree, target: Number, drive: Any, goal: Number
    ) -> State:
        """Move a state to `target`, or until it stops on its own (jax-level).

        Args:
            system: what moves.
            state: where to start.
            start: its clock, where the clock counts steps; equal for all members of an ensemble,
                so that they share one loop.
            target: the clock to reach.
            drive: what `Dynamics.drive` returned for this stretch.
            goal: the excess loss at which the run has converged; negative for never.
        """


class Dynamics(Value):
    """How parameters move.

    Results are laid out over steps (`axis = "step"`), time (`"time"`) or its logarithm
    (`"log_time"`). The clock of a run counts
    steps, or is the time itself where steps adapt (`counts_steps = False`). Where the loss is at
    its minimum all along (`at_minimum`), a gap cannot end a run. `not_closed` says why there is no
    exact closure, where that is not the noise's fault. `reasons` are sentences for codes of the
    stepper, added to what the status says. `follows_slope`: a step is a multiple of a
    gradient, or of an average of them; then slopes bound how fast errors of a reduced run grow.
    """

    axis: ClassVar[Literal["step", "time"]]
    counts_steps: ClassVar[bool]
    at_minimum: ClassVar[bool] = False
    not_closed: ClassVar[str | None] = None
    follows_slope: ClassVar[bool] = True
    reasons: ClassVar[Mapping[int, str]] = MappingProxyType({})
    weight_decay: eqx.AbstractVar[Any]

    @abc.abstractmethod
    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        """Raise a ValueError if a run up to the clock `limit` is not possible."""

    @abc.abstractmethod
    def stepper(self, params: PyTree, key: int) -> Stepper:
        """The compiled half, for a run that starts at these (full) parameters."""

    @abc.abstractmethod
    def in_basis(self, basis: np.ndarray) -> "Dynamics | None":
        """The same dynamics with inputs written in an orthonormal basis; None if not closed."""

    def not_closed_on(self, net: Net) -> str | None:
        """Why a run of this net has no exact closure, whatever the noise; None if it may have."""
        return None

    @property
    def draws(self) -> bool:
        """Does a run depend on its key?"""
        return getattr(self, "noise", None) is not None

    @property
    def may_rest(self) -> bool:
        """Is a state that a step does not change one that no later step changes?"""
        return False

    @abc.abstractmethod
    def drive(self, clock: float, memory: PyTree, calls: int, limit: float) -> tuple[Any, float]:
        """What a stretch needs, and the clock up to which it serves.

        Args:
            clock: where the stretch starts.
            memory: the stepper's there, with NumPy leaves.
            calls: how many steps the stretch may take.
            limit: the clock at which the run ends at the latest.
        """

    @abc.abstractmethod
    def time(self, clock: np.ndarray) -> np.ndarray:
        """Gradient-flow time of these clock values."""

    @abc.abstractmethod
    def clock(self, time: float) -> float:
        """The first clock value at which this much gradient-flow time has passed."""

    def clock_at_log_time(self, log_time: float) -> float:
        """The same for the logarithm of a time."""
        with np.errstate(over="ignore"):
            return self.clock(float(np.exp(log_time)))

    def on_axis(self, clock: np.ndarray) -> np.ndarray:
        """These clock values as results are laid out over them."""
        return np.asarray(clock) if self.axis == "step" else self.time(clock)

    def account(self, system: System, state: State) -> dict[str, float]:
        """What is worth knowing of a run that is over, by name: it goes into `run.stats`."""
        return {}
