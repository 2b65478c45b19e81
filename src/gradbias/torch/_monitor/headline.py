"""The few numbers that are logged, under fixed plain names."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .._find.family import Family
from .._measure.curvature import TopEigenpair
from .._measure.noise import GradientNoise
from .._measure.undisturbed import Named, precise
from .steps import ChargeSplit

# Name -> what it is, in a sentence for somebody who has not read a paper.
HEADLINE = {
    "loss": "mean loss of the probe",
    "imbalance_max": "largest factor between the weights going into a unit and those coming out",
    "imbalance_median": "factor between weights in and out, of the unit in the middle",
    "noise_ratio_max": "largest factor between the gradient noise of the two sides of a unit",
    "noise_ratio_median": "factor between the noise in and out, of the unit in the middle",
    "noise_error": "relative standard error of the noise ratio of the unit in the middle",
    "drift_explained": "share of the movement of the imbalances that gradient noise predicts",
    "sharpness": "largest curvature of the loss",
    "lr_over_limit": "learning rate over 2/sharpness; plain gradient descent is unstable above 1",
    "first_order_share": "share of the last step's imbalance change made by momentum or Adam",
    "step2_share": "share made by the size of the step itself (plain SGD: all but decay)",
    "dead_units": "units that no gradient reaches, or without weights on one side",
    "overhead": "measuring time over training time",
}
PREFIX = "gradbias/"


class Sides:
    """Squared weights on the two sides of every unit, and which units are alive.

    Args:
        params: the families' parameters.
        families: all of them; only two-sided ones have a balance.
    """

    def __init__(self, params: Named, families: Sequence[Family]):
        theta = {name: precise(p.detach()) for name, p in params.items()}
        self.squares: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for family in families:
            into, out = family.halves(theta, theta)
            self.squares[family.name] = (into.cpu().numpy(), out.cpu().numpy())
        self.two_sided = [family.name for family in families if family.two_sided]

    def alive(self, name: str, noises: Mapping[str, GradientNoise]) -> np.ndarray:
        """Units with weights on both sides that some gradient reaches."""
        into, out = self.squares[name]
        alive = (into > 0) & (out > 0)
        return alive & ~noises[name].dead if name in noises else alive

    def factors(self, noises: Mapping[str, GradientNoise]) -> np.ndarray:
        """The factor between the norms of both sides, of all living units."""
        ratios = []
        for name in self.two_sided:
            into, out = (side[self.alive(name, noises)] for side in self.squares[name])
            ratios.append(np.exp(0.5 * np.abs(np.log(into) - np.log(out))))
        return np.concatenate(ratios) if ratios else np.zeros(0)

    def dead(self, noises: Mapping[str, GradientNoise]) -> int:
        """How many units are masked."""
        return int(sum((~self.alive(name, noises)).sum() for name in self.two_sided))


def headline(
    sides: Sides,
    noises: Mapping[str, GradientNoise],
    curvature: TopEigenpair | None,
    splits: Mapping[str, ChargeSplit],
    *,
    lr: float,
    explained: float,
    overhead: float,
    loss: float,
    known: Mapping[str, GradientNoise],
) -> dict[str, float]:
    """All headline numbers; nan for what could not be measured.

    Which units are dead is told by `known`, the noise that was measured last.
    """
    factors = sides.factors(known)
    ratios, errors, worst = _ratios(sides, noises)
    # A unit that few samples reach has a ratio that is theirs: the largest would mean nothing.
    sure = ratios[worst < 0.5]
    first, step2 = _shares(splits)
    value = curvature.value if curvature is not None else math.nan
    return {
        "loss": loss,
        "imbalance_max": _of(np.max, factors),
        "imbalance_median": _of(np.median, factors),
        "noise_ratio_max": _of(np.max, sure),
        "noise_ratio_median": _of(np.median, ratios),
        "noise_error": _of(np.median, errors),
        "drift_explained": explained,
        "sharpness": value,
        "lr_over_limit": lr * value / 2,
        "first_order_share": first,
        "step2_share": step2,
        "dead_units": float(sides.dead(known)),
        "overhead": overhead,
    }


def _of(statistic: Callable[[np.ndarray], float], values: np.ndarray) -> float:
    return float(statistic(values)) if len(values) else math.nan


def _ratios(sides: Sides, noises: Mapping[str, GradientNoise]) -> np.ndarray:
    """Of living units: noise ratios as factors ≥ 1, their relative errors, and the sides' worst."""
    rows = [np.zeros((3, 0))]
    for name in sides.two_sided:
        if name in noises:
            noise = noises[name]
            alive = sides.alive(name, noises) & (noise.into > 0) & (noise.out > 0)
            pairs = ((noise.into_error, noise.into), (noise.out_error, noise.out))
            worst = np.maximum(*(error[alive] / value[alive] for error, value in pairs))
            ratio = noise.ratio[alive]
            error = noise.standard_error[alive] / ratio
            rows.append(np.stack([np.maximum(ratio, 1 / ratio), error, np.maximum(error, worst)]))
    return np.concatenate(rows, axis=1)


def _shares(splits: Mapping[str, ChargeSplit]) -> tuple[float, float]:
    """How much of Σ|parts of ΔC| is first order, and how much is step²."""
    sums = np.zeros(3)
    for split in splits.values():
        sums += [float(part.abs().sum()) for part in split]
    total = sums.sum()
    return (float(sums[1] / total), float(sums[2] / total)) if total > 0 else (math.nan, math.nan)
