"""A run before it runs: what is fitted, by which net, from where, how, until when."""

import dataclasses
import functools
import operator
from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat, SupportsIndex

import jax
import numpy as np
from numpy.typing import ArrayLike

from .. import observe
from ..dynamics import Dynamics
from ..nets import Deep, Diagonal, LinearNet, Net, Rank1, TwoLayer
from ..numerics import checks
from ..numerics.constants import ReadOnlyDict, constant, refuse_assignment, sealed
from ..numerics.precision import host, warn_of_float32
from ..numerics.program_keys import Remembers
from ..numerics.show import in_words
from ..numerics.types import PyTree
from ..observe import Running
from ..problems import Problem, Samples
from .setup_text import setup_rows, table_of

SAVES = 200
MOST_STEPS = 10**15  # beyond it, a clock would lose count
DEFAULT_STEPS = 10**6
DEFAULT_TIME = 1e4
DEFAULT_GAP = 1e-12
DEFAULT_LOG_TIME = 100.0
LOG_SAVES = 51  # a save ends a step, and in log t there are few of them
LASTING_STEPS = 10**5  # where no gap ends the run: noise never dies out, or the loss falls on


@dataclasses.dataclass(
    init=False, unsafe_hash=True, repr=False
)  # it cannot change: see __setattr__
class Until:
    """When a run stops: at whichever of the named limits comes first.

    Attributes:
        steps: a number of steps (Descent).
        time: gradient-flow time; for Descent the sum of the learning rates.
        gap: the loss above its minimum on clean labels. Where the minimum is unknown
            (`gb.Samples` without `minimum=`), what as much time again would lower the loss by, at
            the slope where the run is.
        log_time: the logarithm of a time: t = e^log_time.
        loss: the loss itself.
        check_every: Descent looks at the gap on steps divisible by this, so that where it stops
            does not depend on how the run is cut into pieces.
    """

    steps: int | None
    time: float | None
    gap: float | None
    log_time: float | None
    loss: float | None
    check_every: int

    def __init__(
        self,
        steps: SupportsIndex | None = None,
        time: SupportsFloat | None = None,
        gap: SupportsFloat | None = None,
        check_every: SupportsIndex = 100,
        log_time: SupportsFloat | None = None,
        loss: SupportsFloat | None = None,
    ):
        if all(limit is None for limit in (steps, time, gap, log_time, loss)):
            raise ValueError(
                "until must name steps=, time=, gap=, log_time= or loss=, got none of them"
            )
        every = checks.integer("until.check_every", check_every, at_least=1)
        named = {"steps": None, "time": None, "gap": None, "check_every": every}
        if steps is not None:
            named["steps"] = checks.integer("until.steps", steps, at_least=1)
        if time is not None:
            named["time"] = checks.number("until.time", time, above=0)
        if gap is not None:
            named["gap"] = checks.number("until.gap", gap, at_least=0)
        named |= {"log_time": None, "loss": None}
        if log_time is not None:
            named["log_time"] = checks.number("until.log_time", log_time)
        if loss is not None:
            named["loss"] = checks.number("until.loss", loss)
        vars(self).update(named)

    def __repr__(self) -> str:
        named = {name: value for name, value in vars(self).items() if value is not None}
        limits = ", ".join(f"{n}={in_words(v)}" for n, v in named.items() if n != "check_every")
        return f"Until({limits})"

    def __setattr__(self, name: str, value: object) -> None:
        refuse_assignment(self, name, "make a new one, and setup.replace(until=gb.Until(…))")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)


class Setup(Remembers):
    """Everything that decides a run. It cannot change: `replace` makes another one.

    Args:
        problem: what is fitted.
        net: how parameters make a predictor.
        params: where to start; a dict of arrays, such as `gb.init` makes.
        dynamics: how the parameters move.
        until: when to stop; by default at a gap of 1e-12, or after 10⁶ steps (Descent) or time
            10⁴ (Flow). Descent with noise that never dies out, such as `LabelNoise`, reaches no
            gap and takes 10⁵ steps. A `Classification` has no gap to reach either: its loss falls
            for ever, and the predictor goes on turning.
        record: observables to save, a dict {name: observable} or a list; by default the loss and,
            for linear nets, theta.
        save_at: steps (Descent) or times (Flow) to save at; by default 200, log-spaced.
        key: an integer that decides every random draw of the run.
    """

    problem: Problem
    net: Net
    dynamics: Dynamics
    until: Until
    record: dict[str, Any]
    save_at: np.ndarray
    key: int
    limit: float | None
    save_clock: np.ndarray
    given: Mapping[str, Any]

    def __init__(
        self,
        problem: Problem,
        net: Net,
        params: PyTree,
        dynamics: Dynamics,
        until: Until | None = None,
        record: Mapping[str, Any] | Sequence[Any] | None = None,
        save_at: ArrayLike | None = None,
        key: int = 0,
    ):
        _expect("problem", problem, Problem, "gb.Regression(X, Y, weight)")
        _expect("net", net, Net, "gb.TwoLayer(d, k, width)")
        _expect("dynamics", dynamics, Dynamics, "gb.Descent(lr) or gb.Flow()")
        if until is not None:
            _expect("until", until, Until, "gb.Until(steps=1000)")
        until_given = until
        until = _until(until, problem, dynamics)
        params = _parameters(net, params)
        key = checks.integer("key", key)
        limit = _limit(until, dynamics)
        clocks = _saves(save_at, dynamics, limit)
        _check_fit(problem, net, params)
        dynamics.check(problem, net, limit)
        default = [observe.loss, observe.theta] if isinstance(net, LinearNet) else [observe.loss]
        named = ReadOnlyDict(observe.named(default if record is None else record))
        _check_sums(named, dynamics)
        saves = clocks if dynamics.axis == "step" else constant(dynamics.on_axis(clocks))
        if dynamics.axis == "log_time" and save_at is not None:
            saves = checks.constant_array("save_at", save_at)  # to the last digit
        given = {
            "until": until_given,
            "record": None if record is None else named,
            "save_at": None if save_at is None else checks.constant_array("save_at", save_at),
        }
        vars(self).update(
            problem=problem,
            net=net,
            params=params,
            dynamics=dynamics,
            until=until,
            record=named,
            save_at=saves,
            key=key,
            limit=limit,
            save_clock=clocks,
            given=ReadOnlyDict(given),
            start=_leaves(params),
        )

    @property
    def goal(self) -> float | None:
        """The excess loss at which the run ends; None if none is asked for."""
        asked = [] if self.until.gap is None else [self.until.gap]
        if self.until.loss is not None:
            least = getattr(self.problem, "min_loss", self.problem.least)
            asked.append(self.until.loss - (0.0 if least is None else float(least)))
        return max(asked, default=None)

    @property
    def params(self) -> PyTree:
        """Where the run starts."""
        params = vars(self)["params"]
        start = vars(self)["start"]
        now = _leaves(params)
        if len(now) != len(start) or not all(map(operator.is_, now, start)):
            raise dataclasses.FrozenInstanceError(
                "setup.params was changed after the setup was made, which a run would not see "
                "everywhere: setup.replace(params=…) makes a setup with other parameters"
            )
        return params

    def replace(self, **changes: Any) -> "Setup":
        """The same setup with some arguments changed."""
        given = {
            "problem": self.problem,
            "net": self.net,
            "params": self.params,
            "dynamics": self.dynamics,
            "key": self.key,
            **self.given,
        }
        unknown = sorted(set(changes) - set(given))
        if unknown:
            raise ValueError(f"replace: unknown {unknown}; a Setup has {sorted(given)}")
        return Setup(**{**given, **changes})

    def __setattr__(self, name: str, value: object) -> None:
        refuse_assignment(self, name, f"setup.replace({name}=…) makes a setup with another one")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __getstate__(self) -> dict[str, Any]:
        parts = {name: part for name, part in vars(self).items() if name != "own_code"}
        return {**parts, "params": self.params, "start": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        sealed([jax.tree.leaves(state["params"]), state["save_at"], state["save_clock"]])
        vars(self).update(state, start=_leaves(state["params"]))

    def __repr__(self) -> str:
        rows = setup_rows(self)
        wide = max(map(len, rows))
        return "\n".join(["Setup", *(f"  {name:<{wide}}  {words}" for name, words in rows.items())])

    def _repr_html_(self) -> str:
        return table_of(setup_rows(self))


def _expect(name: str, value: object, kind: type, example: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(
            f"{name} must be a {kind.__name__}, for example {example}, "
            f"got {type(value).__name__} {value!r:.80}"
        )


def _parameters(net: Net, params: PyTree) -> PyTree:
    shapes = net.shapes()
    if shapes is None:
        return jax.tree.map(lambda leaf: checks.constant_array("params", leaf), params)
    if not isinstance(params, Mapping):
        raise ValueError(f"params must be a dict of arrays, got {type(params).__name__}")
    unknown = sorted(set(params) - set(shapes))
    missing = sorted(set(shapes) - set(params))
    if unknown or missing:
        wrong = f"unknown {unknown}" if unknown else f"missing {missing}"
        raise ValueError(f"params: {wrong}; {net!r} has {sorted(shapes)}")
    return {
        name: checks.constant_array(f"params[{name!r}]", params[name], shape=shape)
        for name, shape in shapes.items()
    }


def _leaves(params: PyTree) -> list[Any]:
    if type(params) is dict and all(type(leaf) is np.ndarray for leaf in params.values()):
        return list(params.values())
    return jax.tree.leaves(params)


def _until(until: Until | None, problem: Problem, dynamics: Dynamics) -> Until:
    if dynamics.at_minimum and (until is None or until.gap is not None):
        raise ValueError(
            f"until must name a time and no gap, such as gb.Until(time=1), got {until!r}: in "
            f"{type(dynamics).__name__} the loss is at its minimum all along"
        )
    return _default_until(problem, dynamics) if until is None else until


def _default_until(problem: Problem, dynamics: Dynamics) -> Until:
    noise: Any = getattr(dynamics, "noise", None)
    lasts = problem.falls_for_ever or (noise is not None and noise.lasts)
    if dynamics.axis == "step" and lasts:
        return Until(steps=LASTING_STEPS)
    if dynamics.axis == "log_time":
        return Until(log_time=DEFAULT_LOG_TIME)
    if problem.falls_for_ever:
        return Until(time=DEFAULT_TIME)
    if dynamics.axis == "step":
        return Until(gap=DEFAULT_GAP, steps=DEFAULT_STEPS)
    return Until(gap=DEFAULT_GAP, time=DEFAULT_TIME)


def _limit(until: Until, dynamics: Dynamics) -> float | None:
    """The clock at which the run ends at the latest; None if only a gap is named."""
    if until.steps is not None and dynamics.axis != "step":
        raise ValueError(
            f"until.steps={until.steps}: {type(dynamics).__name__} has a time, not steps; "
            "use Until(time=…)"
        )
    ends: list[float] = [] if until.steps is None else [until.steps]
    if until.time is not None:
        ends.append(dynamics.clock(until.time))
    if until.log_time is not None:
        ends.append(dynamics.clock_at_log_time(until.log_time))
    limit = min(ends, default=None)
    if limit is not None and dynamics.counts_steps and limit > MOST_STEPS:
        raise ValueError(f"until must end within {MOST_STEPS:.0e} steps, got {limit:.3g}")
    return limit


def _saves(save_at: ArrayLike | None, dynamics: Dynamics, limit: float | None) -> np.ndarray:
    """The clock values to save at."""
    if dynamics.axis == "log_time":
        return _log_saves(save_at, dynamics, limit)
    by_step = dynamics.axis == "step"
    counts = dynamics.counts_steps
    if save_at is None:
        default = DEFAULT_STEPS if by_step else dynamics.clock(DEFAULT_TIME)
        end = default if limit is None else limit
        if counts:
            return _log_spaced(int(end), SAVES)
        return sealed(np.concatenate([[0.0], np.geomspace(1e-7 * end, end, SAVES - 1)]))
    values = checks.constant_array("save_at", save_at, ndim=(1,))
    if len(values) == 0 or values[0] < 0 or np.any(np.diff(values) <= 0):
        shown = f"{values[:5].tolist()}{' …' if len(values) > 5 else ''}"
        raise ValueError(f"save_at must be increasing, not negative and not empty, got {shown}")
    clocks = values if by_step or not counts else _on_the_grid(values, dynamics)
    if limit is not None and clocks[-1] > limit:
        raise ValueError(
            f"save_at must not go beyond the end of the run, got {values[-1]:g} but it ends at "
            f"{limit if by_step else dynamics.time(np.asarray([limit]))[0]:g}"
        )
    odd = clocks[clocks != np.round(clocks)]
    if counts and len(odd):
        raise ValueError(f"save_at must be whole steps, got {odd[0]}")
    return sealed(clocks.astype(np.int64)) if counts else clocks


def _log_saves(save_at: ArrayLike | None, dynamics: Dynamics, limit: float | None) -> np.ndarray:
    """The clock values of logarithms of times."""
    if save_at is None:
        end = DEFAULT_LOG_TIME
        if limit is not None:
            end = float(dynamics.on_axis(np.asarray(limit)))
        values = np.linspace(min(0.0, end - 5.0), end, LOG_SAVES)
    else:
        values = checks.constant_array("save_at", save_at, ndim=(1,))
    if len(values) == 0 or np.any(np.diff(values) <= 0):
        raise ValueError(
            "save_at must hold increasing values of log t, got "
            f"{values[:5].tolist()}{' …' if len(values) > 5 else ''}"
        )
    clocks = np.asarray([dynamics.clock_at_log_time(value) for value in values])
    if limit is not None and save_at is None:
        clocks[-1] = limit
    if limit is not None and clocks[-1] > limit:
        raise ValueError(
            f"save_at must not go beyond the end of the run, got log t = {values[-1]:g} but it "
            f"ends at {float(dynamics.on_axis(np.asarray(limit))):g}"
        )
    return sealed(clocks)


def _on_the_grid(times: np.ndarray, dynamics: Dynamics) -> np.ndarray:
    """The steps of these times; they must be on the grid of a dynamics with fixed steps."""
    tick = float(dynamics.time(np.asarray([1]))[0])
    steps = np.round(times / tick)
    off = np.abs(times - steps * tick) > 1e-6 * tick
    if off.any():
        raise ValueError(f"save_at must be multiples of dt={tick:g}, got {times[off][0]:g}")
    return steps


def _check_sums(record: dict[str, Any], dynamics: Dynamics) -> None:
    running = [name for name, f in record.items() if isinstance(f, Running)]
    if running and not dynamics.counts_steps:
        raise ValueError(
            f"record[{running[0]!r}] sums over steps, which {type(dynamics).__name__} does not "
            "have; use Descent"
        )


def log_spaced_steps(last: int, count: int = SAVES) -> np.ndarray:
    """0, then about log-spaced whole steps up to `last`: `count` of them, or all there are."""
    return _log_spaced(last, count).copy()


@functools.lru_cache(maxsize=64)
def _log_spaced(last: int, count: int) -> np.ndarray:
    """One array for all members of a sweep: they are compared by identity first."""
    steps = _spread(last, count)
    steps.setflags(write=False)
    return steps


def _spread(last: int, count: int) -> np.ndarray:
    if last < count:
        return np.arange(last + 1)
    ideal = np.round(np.geomspace(1, last, count - 1)).astype(np.int64)
    # Rounding makes the first ones equal: move each at least one beyond its predecessor.
    index = np.arange(len(ideal))
    spread = np.maximum.accumulate(ideal - index) + index
    return np.concatenate([[0], np.minimum(spread, last)])


@functools.lru_cache(maxsize=256)
def _shape(net: LinearNet) -> tuple[int, ...]:
    """Of the predictor of a net of ours: traced once, not for each of a thousand members."""
    shapes = (net.shapes() or {}).items()
    params = {name: jax.ShapeDtypeStruct(shape, np.float64) for name, shape in shapes}
    return jax.eval_shape(net.predictor, params).shape


def _traced_shape(net: LinearNet, params: PyTree) -> tuple[int, ...]:
    return warn_of_float32(f"net {net!r}", net.predictor, params).shape


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _names(params: PyTree) -> str:
    return f"there are {sorted(params)}" if isinstance(params, Mapping) else "it is no dict"


@host
def _check_fit(problem: Problem, net: Net, params: PyTree) -> None:
    """Does the net take the problem's inputs and give its outputs? Traces, compiles nothing."""
    d = problem.d
    k = problem.k
    try:
        if isinstance(net, LinearNet):
            known = type(net) in (Rank1, TwoLayer, Deep, Diagonal)
            got = _shape(net) if known else _traced_shape(net, params)
            need = [(d, k), (d,)] if k == 1 else [(d, k)]
        else:
            X = jax.ShapeDtypeStruct((3, d), np.float64)
            got = warn_of_float32(f"net {net!r}", net, params, X).shape
            need = [(3, k), (3,)] if k == 1 else [(3, k)]
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise ValueError(
            f"net: {net!r} leaves jax: use jax.numpy (import jax.numpy as jnp) in the place of "
            f"numpy and of float(…) or if … on parameters and inputs. {_first_line(error)}"
        ) from error
    except KeyError as error:
        raise ValueError(
            f"net: {net!r} asks for {error}, which params does not have: {_names(params)}"
        ) from error
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(
            f"net: {net!r} does not fit a problem of {d} inputs and {k} outputs: {error}"
        ) from error
    if got not in need:
        what = "a predictor" if isinstance(net, LinearNet) else "outputs on 3 samples"
        raise ValueError(
            f"net: {net!r} gives {what} of shape {got}, but the problem has {d} inputs and {k} "
            f"outputs and needs {need[0]}"
        )
    if isinstance(problem, Samples):
        warn_of_float32("the loss of Samples", lambda p: problem.net_loss(net, p), params)
