"""What a theorem says of a number, what a run says of it, and how far apart the two are."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

Relation = Literal["=", "<=", ">="]
SIGMAS = 4.0  # one mean in 16 000 is further off than this by chance


@dataclasses.dataclass(frozen=True, eq=False)
class Claim:
    """A predicted quantity.

    Attributes:
        value: a number or an array.
        relation: "=", or "<=" and ">=" for bounds on what is measured.
        scale: what errors are divided by, broadcast against `value`: then the largest entry
            counts. None: the norm of `value` for "=", each entry's own size for a bound.
    """

    value: np.ndarray
    relation: Relation = "="
    scale: np.ndarray | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """A quantity as a run shows it.

    Attributes:
        value: a number or an array.
        error: its own error, in its own units (an unconverged loss, a grid): one for all
            entries together, or one for each.
        standard_error: for means, one for each entry.
    """

    value: np.ndarray
    error: float | np.ndarray = 0.0
    standard_error: np.ndarray | None = None


# By the name of the quantity: what `predict` and `measure` of a theorem return.
Claims: TypeAlias = Mapping[str, ArrayLike | Claim]
Measurements: TypeAlias = Mapping[str, ArrayLike | Measured]


def equals(value: ArrayLike, scale: ArrayLike | None = None) -> Claim:
    """The measured quantity equals this.

    Args:
        value: a number or an array.
        scale: what errors are divided by; needed where the value is 0.
    """
    return _claim(value, "=", scale)


def at_most(value: ArrayLike, scale: ArrayLike | None = None) -> Claim:
    """The measured quantity is nowhere above this."""
    return _claim(value, "<=", scale)


def at_least(value: ArrayLike, scale: ArrayLike | None = None) -> Claim:
    """The measured quantity is nowhere below this."""
    return _claim(value, ">=", scale)


def _claim(value: ArrayLike, relation: Relation, scale: ArrayLike | None) -> Claim:
    size = None if scale is None else np.asarray(scale, dtype=np.float64)
    return Claim(np.asarray(value, dtype=np.float64), relation, size)


def measured(
    value: ArrayLike | Measured, error: ArrayLike = 0.0, standard_error: ArrayLike | None = None
) -> Measured:
    """A measured value with what is known of its error."""
    if isinstance(value, Measured):
        return value
    spread = None if standard_error is None else np.asarray(standard_error, dtype=np.float64)
    errors = np.asarray(error, dtype=np.float64)
    size = errors if errors.ndim else float(errors)
    return Measured(np.asarray(value, dtype=np.float64), size, spread)


def as_claim(value: ArrayLike | Claim) -> Claim:
    """A plain number or array is an equality."""
    return value if isinstance(value, Claim) else equals(value)


@dataclasses.dataclass(frozen=True, eq=False)
class Told:
    """What `predict` returns when it has more to say than the quantities.

    Attributes:
        values: quantity → number, array or Claim.
        residual: how well the root or minimum that they come from was found, relative.
        expected: quantity → a relative error of its own, beside that of the graded hypotheses.
    """

    values: Claims
    residual: float = 0.0
    expected: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def claims(self) -> dict[str, Claim]:
        """The quantities as claims."""
        return {name: as_claim(value) for name, value in self.values.items()}


# (setup), or (setup, run) where the theorem takes something from the run; and (run). With the
# setups and ensembles of `Theorem.runs` a run is a Run, a Dataset or several of them by name.
Predict: TypeAlias = Callable[..., Claims | Told]
Measure: TypeAlias = Callable[[Any], Measurements]


@dataclasses.dataclass(frozen=True)
class Difference:
    """How far a measurement is from a claim, in units of the claim's scale.

    Attributes:
        error: the distance; for a bound, by how much it is violated.
        own: the part of it that the measurement's own error may account for.
        ratio: measured ÷ predicted where it is largest (smallest for ">="): a bound's tightness.
    """

    error: float
    own: float
    ratio: float


def difference(claim: Claim, measurement: Measured) -> Difference:
    """Compare; shapes must be equal, up to the axis of a single output."""
    measurement = _of_shape(measurement, claim.value.shape)
    if claim.value.shape != measurement.value.shape:
        raise ValueError(
            f"predicted shape {claim.value.shape} and measured shape {measurement.value.shape} "
            "differ"
        )
    with np.errstate(all="ignore"):
        away = measurement.value - claim.value
        sides = {"=": np.abs(away), "<=": np.maximum(away, 0), ">=": np.maximum(-away, 0)}
        gap = np.asarray(sides[claim.relation])
        slack = np.broadcast_to(measurement.error, gap.shape)
        if measurement.standard_error is not None:
            slack = np.asarray(slack + SIGMAS * measurement.standard_error)
        return Difference(
            *_sizes(claim, gap, slack, np.ndim(measurement.error) > 0),
            _ratio(claim, measurement),
        )


def _of_shape(measurement: Measured, shape: tuple[int, ...]) -> Measured:
    """One output is a vector or a matrix of one column."""
    if (*shape, 1) != measurement.value.shape and shape != (*measurement.value.shape, 1):
        return measurement
    error = measurement.error
    spread = measurement.standard_error
    if np.ndim(error) > 0:
        error = np.reshape(error, shape)
    if spread is not None and np.ndim(spread) > 0:
        spread = np.reshape(spread, shape)
    return Measured(measurement.value.reshape(shape), error, spread)


def _sizes(claim: Claim, gap: np.ndarray, slack: np.ndarray, by_entry: bool) -> tuple[float, float]:
    if not gap.any() and not slack.any():  # also where what is predicted to be 0 is 0
        return 0.0, 0.0
    if claim.scale is None and claim.relation == "=" and claim.value.ndim:
        size = _length(claim.value)
        _refuse_zero(size)
        # One error for the whole array counts once, however many entries it has.
        return _length(gap) / size, (_length(slack) if by_entry else float(np.max(slack))) / size
    if claim.scale is None and claim.relation == "=":
        _refuse_zero(float(np.max(np.abs(claim.value))))
    scale = np.abs(claim.value) if claim.scale is None else claim.scale
    relative = np.where(gap == 0, 0.0, gap / scale)
    return float(np.max(relative)), float(np.max(np.where(slack == 0, 0.0, slack / scale)))


def _refuse_zero(size: float) -> None:
    if size == 0:
        raise ValueError(
            "a predicted 0 has no relative error; say what errors are divided by: "
            "equals(0, scale=…)"
        )


def _length(array: np.ndarray) -> float:
    """The Frobenius norm, also where squares would overflow."""
    top = float(np.max(np.abs(array)))
    if not np.isfinite(top) or top == 0:
        return top
    return top * float(np.linalg.norm(np.ravel(array / top)))


def _ratio(claim: Claim, measurement: Measured) -> float:
    known = np.isfinite(measurement.value) & np.isfinite(claim.value) & (claim.value != 0)
    if not known.any():
        return float("nan")
    ratios = (measurement.value / np.where(claim.value == 0, 1, claim.value))[known]
    return float(np.min(ratios) if claim.relation == ">=" else np.max(ratios))
