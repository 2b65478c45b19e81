"""The closure alone: the small run and the full one in plain NumPy, thousands in a minute."""

from typing import Any

import numpy as np

from gradbias._engine.error_growth import BY_CHANCE, EXACT
from gradbias.numerics.linalg import spectral_bound as norm
from gradbias.reductions import Reduction, reduce

from .by_hand import HUGE
from .draw import Case
from .rounding import Rounding, allowance

TWINS = 7


def compared(one: Case, saves: list[int]) -> tuple[float, float, str] | str:
    """The largest difference, what rounding explains of it, and a word; or why there is none.

    Both are relative to the largest entry of their factor, along the whole path.
    """
    found = reduce(one.problem, one.net, one.params)
    if isinstance(found, str):
        return "in full"
    X, Y, *factors = (
        np.repeat(np.asarray(array)[None], 1 + TWINS, axis=0)
        for array in (one.X, one.Y, *one.net.factors(one.params))
    )
    with np.errstate(all="ignore"):
        full = _path(one, X, Y, factors, saves, rounding=Rounding(0, 1 + TWINS))
        if full is None:
            return "ran away"
        lifted = _lifted(one, found, saves)
    if lifted is None:
        return "errors may grow"
    worst = slack = 0.0
    for need, got in zip(full, lifted, strict=True):
        scale = np.abs(need).max(initial=0.0) or 1.0
        moved = np.abs(need[:, 1:] - need[:, :1]).max(initial=0.0) / scale
        slack = max(slack, allowance(TWINS) * moved)
        off = np.abs(got - need[:, 0]).max(initial=0.0) / scale
        worst = max(worst, np.inf if np.isnan(off) else off)
    return float(worst), float(slack), "reduced"


def _lifted(one: Case, found: Reduction, saves: list[int]) -> list[np.ndarray] | None:
    """The path of the small net, and every factor made of it: E A Eᵀ and what lies outside.

    None where rounding may have grown beyond what is promised: these are run in full.
    """
    seen = one.X @ found.row_space
    small = [found.params[f"W{k}"] for k in range(1, len(found.lift.rests) + 1)]
    rates: list[Any] | None = [] if found.rounding > 0 else None
    path = _path(one, seen[None], one.Y[None], [factor[None] for factor in small], saves, rates)
    if path is None:
        return [np.full((1, 1, 1), np.nan)] * len(small)
    if rates is not None and not _error(found, path, rates) <= EXACT:
        return None
    outside = _shrinking(one, saves)[:, None, None]
    result = []
    for k, inside in enumerate(path):
        left, right, rest = found.lift.bases[k], found.lift.bases[k + 1], found.lift.rests[k]
        whole = inside[:, 0]
        whole = whole if left is None else left @ whole
        whole = whole if right is None else whole @ right.T
        result.append(whole if rest is None else whole + outside * rest)
    return result


def _error(found: Reduction, path: list[np.ndarray], rates: list[Any]) -> float:
    """The largest that may come of rounding, step by step."""
    grown, noisy = 0.0, None
    for lr, momentum, mean, noisy, factors in rates:
        others = float(found.growth.others([norm(factor) for factor in factors]))
        lr = lr / (1 - momentum)
        grown += lr * norm(mean) * others
        if noisy is not None:
            grown += 0.5 * (lr * norm(noisy - mean) * others) ** 2
    least = min(np.linalg.norm(factor[:, 0], axis=(1, 2)).max() for factor in path)
    chance = 1.0 if noisy is None else BY_CHANCE
    return float(chance * np.exp(grown) * found.rounding / least) if least > 0 else np.inf


def _shrinking(one: Case, saves: list[int]) -> np.ndarray:
    """What weight decay alone makes of one."""
    value, velocity, kept = 1.0, 0.0, []
    for k in range(saves[-1] + 1):
        if k in saves:
            kept.append(value)
        velocity = one.momentum * velocity + 2 * one.decay * value
        value = value - one.lr * velocity
    return np.array(kept)


def _path(
    one: Case,
    X: Any,
    Y: Any,
    factors: Any,
    saves: list[int],
    rates: list[Any] | None = None,
    rounding: Rounding | None = None,
) -> list[np.ndarray] | None:
    """Steps of several copies at once; (saves, copies, rows, columns) for each factor.

    Of the first copy, what the growth of errors depends on is added to `rates`.
    """
    factors, kept = list(factors), []
    velocity = [np.zeros_like(factor) for factor in factors]
    first = max(np.abs(factor).max(initial=0.0) for factor in factors)
    for k in range(saves[-1] + 1):
        if k in saves:
            kept.append(list(factors))
            if not max(np.abs(factor).max(initial=0.0) for factor in factors) < max(
                HUGE, 2 * first
            ):
                return None
        x, y, weight = X, Y, one.weight
        if rounding is not None:
            x, y = rounding("X", X), rounding("Y", Y)
            factors = [rounding(i, factor) for i, factor in enumerate(factors)]
        if one.indices is not None:
            rows = one.indices[k % len(one.indices)]
            x, y, weight = x[:, rows], y[:, rows], weight * X.shape[1] / len(rows)
        if one.noise is not None:
            y = y + one.noise[k % len(one.noise)]
        before = [None]
        for factor in factors:
            before.append(factor if before[-1] is None else before[-1] @ factor)
        slope = 2 * weight * (x.transpose(0, 2, 1) @ (x @ before[-1] - y))
        if rates is not None:
            mean = 2 * one.weight * (X[0].T @ (X[0] @ before[-1][0] - Y[0]))
            noisy = None if one.indices is None and one.noise is None else slope[0]
            rates.append((one.lr, one.momentum, mean, noisy, [factor[0] for factor in factors]))
        for i in reversed(range(len(factors))):
            left = before[i]
            own = slope if left is None else left.transpose(0, 2, 1) @ slope
            if i:
                slope = slope @ factors[i].transpose(0, 2, 1)
            velocity[i] = one.momentum * velocity[i] + own + 2 * one.decay * factors[i]
        factors = [factor - one.lr * v for factor, v in zip(factors, velocity, strict=True)]
    return [np.stack(states) for states in zip(*kept, strict=True)]
