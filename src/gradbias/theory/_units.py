r"""Units: every function of the theory is the same in metres and in miles.

A net with N factors whose parameters have the unit p has a predictor of unit b = N·p. Inputs have
a unit x of their own, labels then x + b, and the weight of the loss sets the unit of time, t. All
are exponents of two. `homogeneous` brings a problem that is far from order one to these units,
where no product over- or underflows, calls the function there, and scales its answer back; both
are exact. A problem of ordinary size is left as it is. Where a single number is asked for and
float64 cannot hold it, that is an error; in arrays and fields it is infinite, beside the others.
"""

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..numerics.units import exponent, measured, times_power_of_two

if TYPE_CHECKING:
    from ._problem import LeastSquares

Measure = Callable[[Mapping[str, Any]], int | None]
F = TypeVar("F", bound=Callable[..., Any])

WHOLE = 64  # factors up to which the unit of the parameters is a whole power of two
LEAST = -1022  # exponents above have all their digits, and smaller ones beside them to rounding
ORDINARY = 40  # units between 2^±40 are left alone: no product in the theory overflows from there


class Degree(NamedTuple):
    """Powers of the four units in a quantity."""

    x: float = 0
    p: float = 0
    b: float = 0
    t: float = 0

    def __add__(self, other: Any) -> "Degree":
        return Degree(*(mine + its for mine, its in zip(self, other, strict=True)))

    def __sub__(self, other: Any) -> "Degree":
        return Degree(*(mine - its for mine, its in zip(self, other, strict=True)))

    def __rmul__(self, times: Any) -> "Degree":
        return Degree(*(times * mine for mine in self))


NONE = Degree()
INPUT = Degree(x=1)
PARAMETER = Degree(p=1)
PREDICTOR = Degree(b=1)
TIME = Degree(t=1)
LABEL = INPUT + PREDICTOR
RATE = NONE - TIME  # also of weight decay γ in L + γ‖θ‖²
LOSS = 2 * PARAMETER - TIME  # the flow moves parameters by ∂L/∂p in a unit of time
WEIGHT = LOSS - 2 * LABEL
CURVATURE = LOSS - 2 * PREDICTOR  # of the loss in the predictor: weight·XᵀX


class LogOf(NamedTuple):
    """The degree of what a quantity is the logarithm of."""

    degree: Degree


class Units(NamedTuple):
    """The exponents of two of the units, and how to use them."""

    x: float
    p: float
    b: float
    t: float

    def measured(self, value: ArrayLike, degree: Degree) -> np.ndarray:
        """A value of this degree, in these units."""
        return measured(value, self.of(degree))

    def back(self, value: Any, degree: Degree) -> Any:
        """A value of this degree in these units, in the caller's."""
        return scaled_back(value, degree, self)

    def of(self, degree: Degree) -> float:
        """The exponent of a quantity of this degree."""
        return sum(unit * power for unit, power in zip(self, degree, strict=True) if power)

    def problem(self, problem: "LeastSquares") -> "LeastSquares":
        """The same problem in these units."""
        from ..problems import Population, Regression  # brings jax along

        weight = measured(problem.weight, self.of(WEIGHT))
        if isinstance(problem, Regression):
            X = measured_array(problem.X, self.x)
            Y = measured_array(problem.Y, self.x + self.b)
            return Regression(X, Y, float(weight))
        return Population(
            measured_array(problem.sigma_x, 2 * self.x),
            measured_array(problem.V, self.b),
            measured_array(problem.sigma_eps, 2 * (self.x + self.b)),
            float(weight),
        )


def own_units(problem: "LeastSquares") -> "LeastSquares":
    """The same problem with inputs, labels and weight of order one."""
    plain = _units({"problem": problem}, [], {}, "")
    return problem if plain is None else plain.problem(problem)


def measured_array(value: ArrayLike, power: float) -> np.ndarray:
    """An array in units of 2^power; what is lost beside its largest entry is zero."""
    return np.asarray(times_power_of_two(value, -power))


def homogeneous(returns: Any, *, by: str | Measure = "params", **degrees: Any) -> Callable[[F], F]:
    """Make a function of a problem independent of the units of its arguments.

    Args:
        returns: the degree of what it returns; of a named tuple, a dataclass or a dict with
            fields, a dict of their degrees (those left out have none); or a function of the
            arguments by name that gives one of these. An object with methods has `in_units`
            instead, which gives it these units to answer in.
        by: the argument that holds the parameters or the predictor, whose size is a unit;
            several names are joined by a comma. Or a function of the arguments by name that
            gives the exponent of the parameters, None if they are zero.
        degrees: of the other arguments, or a dict of degrees for the parts of one; those left
            out have none.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        names = by.split(",") if isinstance(by, str) else []

        @functools.wraps(function)
        def in_units(*args: Any, **kwargs: Any) -> Any:
            try:
                call = signature.bind(*args, **kwargs)
                units = _units(call.arguments, names, degrees, by)
            except (TypeError, ValueError, AttributeError, OverflowError, KeyError):
                # Something is wrong with the arguments: the function says what.
                return function(*args, **kwargs)
            if units is None:
                return function(*args, **kwargs)
            for name, value in call.arguments.items():
                call.arguments[name] = _rescaled(name, value, units, names, degrees)
            try:
                answer = function(*call.args, **call.kwargs)
            except ValueError as error:
                raise ValueError(f"{error} ({_words(units)})") from None
            degrees_back: Any = returns(call.arguments) if callable(returns) else returns
            if isinstance(answer, float) and isinstance(degrees_back, Degree):
                power = units.of(degrees_back)
                shown = ["problem", *names]
                return single(answer, power, function.__name__, *shown)
            return scaled_back(answer, degrees_back, units)

        return in_units  # pyright: ignore[reportReturnType]

    return decorate


def single(value: float, power: float, asked: str, *arguments: str) -> float:
    """value·2^power, refused where float64 cannot hold it.

    Args:
        value: a number of moderate size.
        power: its unit.
        asked: the function that was called.
        arguments: which are the cause.
    """
    scaled = float(times_power_of_two(value, power))
    if math.isinf(scaled) and math.isfinite(value):
        size = math.log10(abs(value)) + power * math.log10(2)
        raise ValueError(
            f"{', '.join(arguments)} must be of moderate size: {asked} would leave the range of "
            f"float64, at about 1e{size:.0f}"
        )
    return scaled


def _units(
    arguments: Mapping[str, Any], names: list[str], degrees: Mapping[str, Any], by: str | Measure
) -> Units | None:
    """The units of a call; None where it is of ordinary size."""
    problem = arguments["problem"]
    from ..problems import Population, Regression  # brings jax along

    if not isinstance(problem, (Population, Regression)):
        return None
    if isinstance(problem, Regression):
        x = exponent(problem.X) or 0
        fit = exponent(problem.Y)
        fit = None if fit is None else fit - x
    else:
        x = (exponent(problem.sigma_x) or 0) // 2
        fit = exponent(problem.V)
    factors = _factors(arguments, names)
    held = [value for name in names for value in _arrays(arguments.get(name))]
    size: Any = by(arguments) if callable(by) else exponent(*held)
    if degrees.get(names[0] if names else "", PARAMETER) == PREDICTOR:
        b = max((e for e in (fit, size) if e is not None), default=0)
        if factors <= WHOLE:  # then those of the parameters are whole, too
            b = round(b / factors) * int(factors)
        p = b / factors
    else:
        # In whole units of the parameters, so that theirs and the predictor's are exact.
        p = max((e for e in (size, _over(fit, factors)) if e is not None), default=0)
        b = p * factors
    weight = exponent(problem.weight) or 0
    units = Units(x, p, b, 2 * p - weight - 2 * (x + b))
    return None if max(map(abs, units)) <= ORDINARY else units


def _over(fit: int | None, factors: float) -> int | None:
    return None if fit is None else round(fit / factors)


def _factors(arguments: Mapping[str, Any], names: list[str]) -> float:
    """N: how many parameters are multiplied in the predictor."""
    if "depth" in arguments:
        return float(arguments["depth"])
    held = arguments.get(names[0]) if names else None
    if isinstance(held, Mapping):
        return (
            2 * len(np.asarray(held["u"])) + 1 if "v1" in held else 2 if "u" in held else len(held)
        )
    return len(held) if isinstance(held, (list, tuple)) and np.ndim(held[0]) == 2 else 2


def _arrays(value: object) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [np.asarray(array, np.float64) for array in value.values()]
    if isinstance(value, (list, tuple)) and value and np.ndim(value[0]) == 2:
        return [np.asarray(array, np.float64) for array in value]
    return [np.asarray(value, np.float64)]


def _rescaled(
    name: str, value: Any, units: Units, names: list[str], degrees: Mapping[str, Any]
) -> Any:
    if name == "problem":
        return units.problem(value)
    degree = degrees.get(name, PARAMETER if name in names else NONE)
    if degree == NONE or value is None:
        return value
    if isinstance(degree, Mapping):
        pairs = zip(value, degree.values(), strict=True)
        parts = (measured_array(part, units.of(d)) for part, d in pairs)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    power = units.of(degree)
    if isinstance(value, Mapping):
        _refuse_lost(name, _arrays(value), units, power)
        return {key: measured_array(array, power) for key, array in value.items()}
    if isinstance(value, (list, tuple)) and value and np.ndim(value[0]) == 2:
        _refuse_lost(name, _arrays(value), units, power)
        return [measured_array(array, power) for array in value]
    # A time beyond all numbers is the end, and one below all is the start.
    if name != "t":
        _refuse_lost(name, [np.asarray(value)], units, power)
    scaled = measured(value, power)
    return float(scaled) if np.ndim(value) == 0 else scaled


def _refuse_lost(name: str, arrays: list[Any], units: Units, power: float) -> None:
    """A step, a rate or a start must not be cut, nor lose the digits of its largest number."""
    there = exponent(*arrays) if all(np.isfinite(a).all() for a in arrays) else None
    if there is not None and not LEAST < there - power <= 1024:
        size = "large" if there > power else "small"
        raise ValueError(
            f"{name} is too {size} for this problem, in whose units it would leave the range of "
            f"float64, got {max(np.max(np.abs(a), initial=0.0) for a in arrays):.3g} "
            f"({_words(units)})"
        )


def scaled_back(answer: Any, degrees: Any, units: Units) -> Any:
    """What a function returned in these units, in the caller's."""
    if hasattr(answer, "in_units"):  # it has methods, which scale by themselves
        return answer.in_units(units)
    if isinstance(degrees, LogOf):
        return answer + units.of(degrees.degree) * math.log(2)
    if isinstance(degrees, Degree):
        if isinstance(answer, Mapping):
            return {name: scaled_back(value, degrees, units) for name, value in answer.items()}
        if degrees == NONE or answer is None:
            return answer
        if hasattr(answer, "_make"):
            return answer._make(scaled_back(part, degrees, units) for part in answer)
        if isinstance(answer, (list, tuple)):
            return type(answer)(scaled_back(part, degrees, units) for part in answer)
        scaled = times_power_of_two(answer, units.of(degrees))
        return float(scaled) if isinstance(answer, float) else np.asarray(scaled)
    if isinstance(answer, Mapping):
        return {k: scaled_back(v, degrees.get(k, NONE), units) for k, v in answer.items()}
    moved = {name: scaled_back(getattr(answer, name), d, units) for name, d in degrees.items()}
    if isinstance(answer, tuple):
        return answer._replace(**moved)  # pyright: ignore[reportAttributeAccessIssue]
    return dataclasses.replace(answer, **moved)


def _words(units: Units) -> str:
    shown = {"X": units.x, "parameters": units.p, "the predictor": units.b, "time": units.t}
    return "numbers in units of " + ", ".join(f"2^{e:g} of {n}" for n, e in shown.items() if e)
