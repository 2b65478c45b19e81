"""How far two ensembles are apart, and with what power of the learning rate that falls."""

import dataclasses
from typing import NamedTuple

import numpy as np


@dataclasses.dataclass(frozen=True)
class WeakError:
    """Differences between SGD and its limit, for every learning rate.

    Attributes:
        lrs: (L,) the learning rates.
        steps: (L,) how many steps were taken.
        error: (L,) ‖E f(Φ(x_k)) − E f(Y(T))‖, without what the scatter of the means adds; along
            a path the largest on the grid. 0 where it is not told from zero.
        standard_error: (L,) of it.
        order: the fitted power of lr.
        order_error: its standard error.
        path_error: (L,) E sup_t ‖f(Φ(x_k)) − f(Y(t))‖ on the grid; None for the end alone.
        path_standard_error: (L,) of it.
        path_order: its fitted power.
        path_order_error: the standard error of that.
        members: the number of runs.
        difference: (L, …) E f(Φ(x_k)) − E f(Y(T)) at the end.
    """

    lrs: np.ndarray
    steps: np.ndarray
    error: np.ndarray
    standard_error: np.ndarray
    order: float
    order_error: float
    path_error: np.ndarray | None
    path_standard_error: np.ndarray | None
    path_order: float | None
    path_order_error: float | None
    members: int
    difference: np.ndarray

    def __str__(self) -> str:
        rows = zip(self.lrs, self.error, self.standard_error, strict=True)
        lines = [f"lr {lr:<9.3g} error {e:.2e} ± {s:.0e}" for lr, e, s in rows]
        return "\n".join([*lines, f"order {self.order:.2f} ± {self.order_error:.2f}"])


class EnsemblePair(NamedTuple):
    """Two ensembles at the same times, each (members, points, …); a limit may have one member."""

    ours: np.ndarray
    limit: np.ndarray


def summary(
    rates: np.ndarray, steps: np.ndarray, samples: list[EnsemblePair], path: bool, members: int
) -> WeakError:
    """All that is known about the difference.

    Args:
        rates: (L,) learning rates.
        steps: (L, points) of the runs.
        samples: for every learning rate.
        path: also the largest difference along each path?
        members: the number of runs.
    """
    each = [errors_of(pair) for pair in samples]
    # The point is chosen by the plain mean: NaN, a lost member, is the largest of all.
    error, spread = np.array([(e[e.argmax()], s[e.argmax()]) for e, s in each]).T
    order, order_error = fitted_order(rates, error, spread)
    sup, sup_spread, sup_order, sup_order_error = _paths(rates, samples) if path else (None,) * 4
    ends = [p.ours[:, -1].mean(axis=0) - p.limit[:, -1].mean(axis=0) for p in samples]
    return WeakError(
        lrs=rates,
        steps=steps[:, -1],
        error=error,
        standard_error=spread,
        order=order,
        order_error=order_error,
        path_error=sup,
        path_standard_error=sup_spread,
        path_order=sup_order,
        path_order_error=sup_order_error,
        members=members,
        difference=np.stack(ends),
    )


def _paths(
    rates: np.ndarray, samples: list[EnsemblePair]
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """The expected largest difference along a path, its standard error, and the order's two."""
    sups = [np.linalg.norm(_rows(pair.ours - pair.limit), axis=2).max(axis=1) for pair in samples]
    mean = np.array([sup.mean() for sup in sups])
    spread = np.array([sup.std(ddof=1) / len(sup) ** 0.5 for sup in sups])
    return mean, spread, *fitted_order(rates, mean, spread)


def _rows(values: np.ndarray) -> np.ndarray:
    return values.reshape(*values.shape[:2], -1)


def errors_of(pair: EnsemblePair) -> tuple[np.ndarray, np.ndarray]:
    """(points,) norms of the difference of the means, and their standard errors.

    The mean of many numbers scatters in every direction, and its norm is too long by that: the
    trace of the covariance of the means is taken off the square.
    """
    ours = _rows(pair.ours)
    limit = _rows(pair.limit)
    errors = [_error_at(ours[:, p], limit[:, p]) for p in range(ours.shape[1])]
    return np.array([e for e, _ in errors]), np.array([s for _, s in errors])


def _error_at(ours: np.ndarray, limit: np.ndarray) -> tuple[float, float]:
    difference = ours.mean(axis=0) - limit.mean(axis=0)
    # Columns of a root of the covariance of the difference.
    root = np.concatenate([_scatter(ours), _scatter(limit)])
    square = float(difference @ difference)
    error = np.sqrt(max(square - float(np.sum(root * root)), 0.0)) if square >= 0 else np.nan
    gram = root @ root.T if len(root) <= root.shape[1] else root.T @ root
    # The variance of ‖difference‖² under normal scatter, then of its root.
    variance = 4 * float(np.sum((root @ difference) ** 2)) + 2 * float(np.sum(gram * gram))
    return float(error), float(np.sqrt(variance) / (2 * (error or np.sqrt(square) or 1.0)))


def _scatter(values: np.ndarray) -> np.ndarray:
    """(members, …) rows R with RᵀR the covariance of the mean; none for a single member."""
    count = len(values)
    if count == 1:
        return np.zeros((0, values.shape[1]))
    return (values - values.mean(axis=0)) / np.sqrt(count * (count - 1))


def fitted_order(rates: np.ndarray, error: np.ndarray, spread: np.ndarray) -> tuple[float, float]:
    """The slope of log error against log lr, weighted, and its standard error."""
    good = np.isfinite(error) & (error > 0)
    if len(np.unique(rates[good])) < 2:
        return float("nan"), float("nan")
    x = np.log(rates[good])
    y = np.log(error[good])
    relative = np.maximum(spread[good] / error[good], 1e-12)
    weights = relative**-2 / np.sum(relative**-2)
    centred = x - weights @ x
    square = np.sum(weights * centred**2)
    slope = np.sum(weights * centred * y) / square
    return float(slope), float(np.sqrt(np.sum((weights * centred * relative) ** 2)) / square)
