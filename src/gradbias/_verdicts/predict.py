"""What the theorems say about a setup, before anything runs."""

from collections import Counter

from .._engine.setup import Setup
from ..numerics.progress import CountProgress
from ..theorems import Checked, Theorem, find
from .narrow_net import narrow
from .predictions import Prediction, Predictions

__all__ = ["Prediction", "Predictions", "predict"]


def predict(
    setup: Setup, only: str | Theorem = "*", *, full: bool = False, progress: bool | None = None
) -> Predictions:
    """What the theorems say about a setup.

    Args:
        setup: what would be run.
        only: a pattern of theorem ids, such as "rank1.*", or a theorem.
        full: show every near miss by itself instead of one line for those with the same reason.
        progress: count the theorems while they are asked; by default where a person may be looking.

    Returns:
        The predictions of the theorems that apply, and for near misses the hypothesis that fails.
    """
    if not isinstance(setup, Setup):
        raise ValueError(f"setup must be a gb.Setup, got {type(setup).__name__}")
    applying: list[Prediction] = []
    missed: list[tuple[Theorem, Checked]] = []
    others: Counter[str] = Counter()
    asked = find(only)
    with CountProgress("asking theorems", len(asked), progress) as count:
        for number, theorem in enumerate(asked):
            count.step(number, theorem.id)
            foreign = theorem.foreign(setup)
            if foreign:
                others[foreign] += 1
                continue
            small = narrow(setup) if theorem.narrow else None
            checked = theorem.check(setup if small is None else small)
            failed = [c for c in checked if not c.met]
            if failed:
                missed.append((theorem, failed[0]))
            else:
                applying.append(Prediction(theorem, setup, checked))
    return Predictions(setup, applying, missed, others, full)
