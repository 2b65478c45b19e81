"""Is an error a theorem's, or does the run make it out of rounding?"""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np

from ._compare import Verdict
from ._predict import Prediction

LAST_DIGITS = 4 * np.finfo(np.float64).eps  # by which the second start differs, relative
SAME = 0.03  # of an error: what it may change by, if it is the theorem's


def reproduced(
    found: list[Verdict], prediction: Prediction, judge: Callable[[Prediction], list[Verdict]]
) -> list[Verdict]:
    """The verdicts, "refuted" only where the error comes again from a start that is as good.

    Steps beyond 2/sharpness, and starts beside a saddle, make rounding grow until two runs that
    are equal on paper differ. Zeros stay zeros and equal numbers equal in the second start.

    Args:
        found: the verdicts of a theorem.
        prediction: of which they are.
        judge: runs and judges a prediction.
    """
    if all(verdict.verdict != "refuted" for verdict in found):
        return found
    setup = prediction.setup
    params = jax.tree.map(lambda p: np.asarray(p) * (1 + LAST_DIGITS), setup.params)
    again = judge(dataclasses.replace(prediction, setup=setup.replace(params=params)))
    others = {verdict.quantity: verdict for verdict in again}
    return [_doubted(verdict, others.get(verdict.quantity)) for verdict in found]


def _doubted(verdict: Verdict, other: Verdict | None) -> Verdict:
    if verdict.verdict != "refuted" or (other is not None and _same(verdict, other)):
        return verdict
    change = "another one" if other is None else f"{other.error:.1e}"
    reason = (
        f"the error is made of rounding: a start that differs in its last digits gives {change} "
        "instead; a smaller step, or a start away from saddles, would decide"
    )
    return dataclasses.replace(verdict, verdict="inconclusive", reason=reason)


def _same(one: Verdict, other: Verdict) -> bool:
    first, second = (np.asarray(v.measured) - np.asarray(v.predicted) for v in (one, other))
    if first.shape != second.shape:
        return False
    return bool(np.max(np.abs(first - second)) <= SAME * np.max(np.abs(first)))
