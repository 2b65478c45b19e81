"""What a theorem says of a number, what a run says of it, and how far apart the two are."""

import dataclasses
from typing import Any, Literal

import numpy as np

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


def equals(value: Any, scale: Any = None) -> Claim:
    """The measured quantity equals this.

    Args:
        value: a number or an array.
        scale: what errors are divided by; needed where the value is 0.
    """
    return _claim(value, "=", scale)


def at_most(value: Any, scale: Any = None) -> Claim:
    """The measured quantity is nowhere above this."""
    return _claim(value, "<=", scale)


def at_least(value: Any, scale: Any = None) -> Claim:
    """The measured quantity is nowhere below this."""
    return _claim(value, ">=", scale)


def _claim(value: Any, relation: Relation, scale: Any) -> Claim:
    size = None if scale is None else np.asarray(scale, dtype=np.float64)
    return Claim(np.asarray(value, dtype=np.float64), relation, size)


def measured(value: Any, error: Any = 0.0, standard_error: Any = None) -> Measured:
    """A measured value with what is known of its error."""
    if isinstance(value, Measured):
        return value
    spread = None if standard_error is None else np.asarray(standard_error, dtype=np.float64)
    own = float(error) if np.ndim(error) == 0 else np.asarray(error, dtype=np.float64)
    return Measured(np.asarray(value, dtype=np.float64), own, spread)


def as_claim(value: Any) -> Claim:
    """A plain number or array is an equality."""
    return value if isinstance(value, Claim) else equals(value)


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


def difference(claim: Claim, seen: Measured) -> Difference:
    """Compare; shapes must be equal, up to the axis of a single output."""
    seen = _of_shape(seen, claim.value.shape)
    if claim.value.shape != seen.value.shape:
        raise ValueError(
            f"predicted shape {claim.value.shape} and measured shape {seen.value.shape} differ"
        )
    with np.errstate(all="ignore"):
        away = seen.value - claim.value
        sides = {"=": np.abs(away), "<=": np.maximum(away, 0), ">=": np.maximum(-away, 0)}
        gap = np.asarray(sides[claim.relation])
        own = np.broadcast_to(seen.error, gap.shape)
        if seen.standard_error is not None:
            own = np.asarray(own + SIGMAS * seen.standard_error)
        return Difference(*_sizes(claim, gap, own, np.ndim(seen.error) > 0), _ratio(claim, seen))


def _of_shape(seen: Measured, shape: tuple[int, ...]) -> Measured:
    """One output is a vector or a matrix of one column."""
    if (*shape, 1) != seen.value.shape and shape != (*seen.value.shape, 1):
        return seen

    def reshaped(errors: Any) -> Any:
        return errors if errors is None or np.ndim(errors) == 0 else np.reshape(errors, shape)

    value = seen.value.reshape(shape)
    return Measured(value, reshaped(seen.error), reshaped(seen.standard_error))


def _sizes(claim: Claim, gap: np.ndarray, own: np.ndarray, by_entry: bool) -> tuple[float, float]:
    if not gap.any() and not own.any():  # also where what is predicted to be 0 is 0
        return 0.0, 0.0
    if claim.scale is None and claim.relation == "=" and claim.value.ndim:
        size = _length(claim.value)
        _refuse_zero(size)
        # One error for the whole array counts once, however many entries it has.
        return _length(gap) / size, (_length(own) if by_entry else float(np.max(own))) / size
    if claim.scale is None and claim.relation == "=":
        _refuse_zero(float(np.max(np.abs(claim.value))))
    scale = np.abs(claim.value) if claim.scale is None else claim.scale
    relative = np.where(gap == 0, 0.0, gap / scale)
    return float(np.max(relative)), float(np.max(np.where(own == 0, 0.0, own / scale)))


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


def _ratio(claim: Claim, seen: Measured) -> float:
    known = np.isfinite(seen.value) & np.isfinite(claim.value) & (claim.value != 0)
    if not known.any():
        return float("nan")
    ratios = (seen.value / np.where(claim.value == 0, 1, claim.value))[known]
    return float(np.min(ratios) if claim.relation == ">=" else np.max(ratios))
