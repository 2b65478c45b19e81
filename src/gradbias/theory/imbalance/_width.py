"""Wide Gaussian nets: Lemma 1, Theorem 2 and the tail of singular values they rest on.

Entries of U and V are N(0, h^(−2α)). Everything is for the loss ½‖Y − XΘ‖², whose limit is that
of every weight; λ are squares of singular values of X. `constant="corrected"` is proved;
`"paper"` gives the printed expressions, some of which do not follow from their premises.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from ...numerics import checks

CONSTANTS = ("corrected", "paper")


@dataclass(frozen=True)
class WidthBound:
    """Theorem 2: a bound on ‖Θ(∞) − Θ̂‖_F that holds with probability 1 − δ for wide nets.

    Attributes:
        log_bound: the logarithm of the bound.
        log_C: the logarithm of the constant C.
        log_threshold: the logarithm of the width that must be exceeded.
        condition_met: is the net that wide? If not, the number is no bound.
    """

    log_bound: float
    log_C: float
    log_threshold: float
    condition_met: bool

    @property
    def bound(self) -> float:
        """2 C^(h^(2α − 1)) √(m + r) s/h^(2α − ½); infinite beyond float64."""
        return _exp(self.log_bound)

    @property
    def C(self) -> float:
        """exp(1 + √λ_max/λ_min ‖Y‖_F); infinite beyond float64."""
        return _exp(self.log_C)

    @property
    def threshold(self) -> float:
        """The width that must be exceeded; infinite beyond float64."""
        return _exp(self.log_threshold)


class Lemma1Bounds(NamedTuple):
    """Three bounds that hold together with probability 1 − δ for a net that is wide enough.

    Attributes:
        level: the imbalance level c exceeds this, h^(1 − 2α).
        residual: ‖Zr(0)‖_F is at most this.
        product: ‖U1(0)V(0)ᵀ‖_F is at most this.
        threshold: the width that must be exceeded.
        condition_met: is it exceeded?
    """

    level: float
    residual: float
    product: float
    threshold: float
    condition_met: bool


class SingularValueTail(NamedTuple):
    """All singular values are within [low, high], except with at most this probability."""

    low: float
    high: float
    failure: float


class WideNet(NamedTuple):
    """A two-layer net with Gaussian entries of variance width^(−2α), and the rank of its data.

    Attributes:
        outputs: m.
        inputs: D.
        rank: r, of the data; at most the inputs.
        width: h.
        alpha: α, above ¼ and at most ½.
    """

    outputs: int
    inputs: int
    rank: int
    width: int
    alpha: float


def lemma1_bounds(net: WideNet, delta: float, constant: str = "corrected") -> Lemma1Bounds:
    """Lemma 1: a wide Gaussian net is imbalanced, and nearly on the invariant set.

    Args:
        net: its sizes.
        delta: the probability of failure.
        constant: "corrected" or "paper".
    """
    m, D, r, h, alpha = _checked(net)
    spread = _spread(m, D, delta, constant)
    scale = 2 * spread * h ** (0.5 - 2 * alpha)
    threshold = 16 * spread**2
    return Lemma1Bounds(
        h ** (1 - 2 * alpha),
        math.sqrt(m + r) * scale,
        math.sqrt(m) * scale,
        threshold,
        h > threshold,
    )


def width_bound(
    net: WideNet,
    delta: float,
    largest: float,
    smallest: float,
    labels: float,
    constant: str = "corrected",
) -> WidthBound:
    """Theorem 2: wide Gaussian nets end near the solution of least norm.

    Args:
        net: its sizes.
        delta: the probability of failure, for the whole statement.
        largest: the largest squared singular value of X.
        smallest: the least one that is not zero.
        labels: ‖Y‖_F; that of the part of Y in the column space of X is enough.
        constant: "corrected", or "paper": the printed spread and width condition.
    """
    m, D, r, h, alpha = _checked(net)
    smallest = checks.number("smallest", smallest, above=0)
    largest = checks.number("largest", largest, at_least=smallest)
    spread = _spread(m, D, delta, constant)
    log_C = 1 + math.sqrt(largest) / smallest * checks.number("labels", labels, at_least=0)
    log_bound = (
        h ** (2 * alpha - 1) * log_C
        + math.log(2 * math.sqrt(m + r) * spread)
        - (2 * alpha - 0.5) * math.log(h)
    )
    log_ratio = _log_condition(largest, smallest, constant)
    square = 2 * math.log(spread)
    of_data = math.log(4 * m) + log_ratio + square
    of_start = math.log(16) + square
    # Printed, the power is that of the whole maximum; for α = ½ it is 1.
    power = 1 / (4 * alpha - 1)
    printed = constant == "paper"
    log_threshold = max(of_start * power if printed else of_start, of_data * power)
    return WidthBound(log_bound, log_C, log_threshold, math.log(h) > log_threshold)


def singular_value_tail(
    rows: int, columns: int, t: float, constant: str = "corrected"
) -> SingularValueTail:
    """Lemma E.1: singular values of a standard Gaussian matrix lie within √rows ± (√columns + t).

    The failure probability is 2e^(−t²/2); the printed 2e^(−t²) is exceeded, for instance by a
    single number at t = 6.

    Args:
        rows: of the matrix, the longer side.
        columns: of the matrix.
        t: how far beyond the edge.
        constant: "corrected" or "paper".
    """
    columns = checks.integer("columns", columns, at_least=1)
    rows = checks.integer("rows", rows, at_least=columns)
    t = checks.number("t", t, at_least=0)
    power = t * t / 2 if checks.one_of("constant", constant, CONSTANTS) == "corrected" else t * t
    middle = math.sqrt(rows)
    reach = math.sqrt(columns) + t
    return SingularValueTail(middle - reach, middle + reach, min(1.0, 2 * math.exp(-power)))


def _checked(net: WideNet) -> WideNet:
    if not isinstance(net, WideNet):
        raise ValueError(
            f"net must be a WideNet(outputs, inputs, rank, width, alpha), got {net!r:.80}"
        )
    checks.integer("outputs", net.outputs, at_least=1)
    checks.integer("width", net.width, at_least=1)
    if checks.integer("rank", net.rank, at_least=1) > checks.integer(
        "inputs", net.inputs, at_least=1
    ):
        raise ValueError(f"rank must be at most the {net.inputs} inputs, got {net.rank}")
    if checks.number("alpha", net.alpha, above=0.25) > 0.5:
        raise ValueError(f"alpha must be at most 0.5, got {net.alpha}")
    return net


def _spread(m: int, D: int, delta: float, constant: str) -> float:
    """How far the singular values of the stacked layers are from √h, times h^(−α)."""
    log = math.log(2 / checks.number("delta", delta, above=0, below=1))
    corrected = checks.one_of("constant", constant, CONSTANTS) == "corrected"
    return math.sqrt(m + D) + (math.sqrt(2 * log) if corrected else log / 2)


def _log_condition(lam_max: float, lam_min: float, constant: str) -> float:
    """Of (λ_max/λ_min)²; printed: λ_max/λ_min³, from S^(−½) where S^½ belongs."""
    top = math.log(lam_max)
    low = math.log(lam_min)
    return 2 * (top - low) if constant == "corrected" else top - 3 * low


def _exp(log: float) -> float:
    return math.exp(log) if log < 709 else math.inf
