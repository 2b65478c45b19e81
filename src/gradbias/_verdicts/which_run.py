"""On which run each theorem is read, so that a wide net costs what its reduced run does."""

import dataclasses
from collections.abc import Callable, Iterable

import jax
import numpy as np

from .._engine.setup import Setup
from ..numerics.precision import host
from ..numerics.types import PyTree
from ..observe import Observable, Running
from ..theorems import Theorem
from .narrow_net import narrow
from .predict import Prediction, Predictions

LIGHT = 2**25  # bytes over all saves: what takes more is read from a run with fewer saves
HEAVY = 2**27  # bytes that such a run may record in all
FEWEST = 2  # saves: the start and the end


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """Where a prediction is read.

    Attributes:
        prediction: with the setup whose run shows it.
        trouble: why there is none; empty if there is.
    """

    prediction: Prediction
    trouble: str = ""


def readings(setup: Setup, predictions: Predictions) -> list[Reading]:
    """For each prediction the run that shows it: of the setup itself, or one that is lighter.

    A theorem that names no single unit is read from the narrow net; one that records much, from
    a run of fewer saves, the first and the last among them.
    """
    small = narrow(setup)
    placed = [
        dataclasses.replace(p, setup=small) if small is not None and p.theorem.narrow else p
        for p in predictions
    ]
    sizes = [bytes_of_needs(p.theorem, p.setup) for p in placed]
    lighter = {base: _thinned(base, placed, sizes) for base in {p.setup for p in placed}}
    chosen: list[Reading] = []
    for prediction, size in zip(placed, sizes, strict=True):
        if not _much(prediction, size):
            chosen.append(Reading(prediction))
        elif FEWEST * size > HEAVY:
            chosen.append(Reading(prediction, _too_large(prediction, size)))
        else:
            chosen.append(_moved(prediction, lighter[prediction.setup]))
    return chosen


def _much(prediction: Prediction, size: int) -> bool:
    return size * len(prediction.setup.save_at) > LIGHT


def _thinned(base: Setup, placed: Iterable[Prediction], sizes: Iterable[int]) -> Setup:
    """The same run with as many saves as all that is heavy leaves room for."""
    heavy = [s for p, s in zip(placed, sizes, strict=True) if p.setup is base and _much(p, s)]
    heavy = [size for size in heavy if FEWEST * size <= HEAVY]
    count = len(base.save_at)
    if not heavy or count <= FEWEST:
        return base
    # What theorems record has much in common: the largest counts.
    rows = max(FEWEST, min(count, HEAVY // max(heavy)))
    kept = np.unique(np.round(np.linspace(0, count - 1, rows)).astype(int))
    return base.replace(save_at=np.asarray(base.save_at)[kept])


def _moved(prediction: Prediction, setup: Setup) -> Reading:
    """On a run of fewer saves, if the theorem still applies to it."""
    moved = dataclasses.replace(prediction, setup=setup)
    broken = [c for c in prediction.theorem.check(setup) if not c.met]
    if not broken:
        return Reading(moved)
    return Reading(moved, f"its record at all saves is too large, and with fewer: {broken[0]}")


def _too_large(prediction: Prediction, size: int) -> str:
    numbers = sum(np.size(leaf) for leaf in jax.tree.leaves(prediction.setup.params))
    return (
        f"at {numbers} parameters it needs {size / 2**20:.0f} MiB at every save, more than the "
        f"{HEAVY / FEWEST / 2**20:.0f} MiB that a check records: take a smaller net"
    )


@host
def bytes_of_needs(theorem: Theorem, setup: Setup) -> int:
    """What the theorem's own observables take at one save; 0 where nobody can tell."""
    if theorem.runs is not None:
        return 0
    total = 0
    for observable in theorem.observables.values():
        try:
            shapes = jax.eval_shape(_measured(setup, observable), setup.params)
        except Exception:  # one that jax cannot trace, or that the run will refuse in words
            continue
        total += 8 * sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(shapes))
    return total


def _measured(setup: Setup, observable: Observable) -> Callable[[PyTree], PyTree]:
    problem = setup.problem
    net = setup.net
    if isinstance(observable, Running):
        return lambda params: observable.of_step(problem, net, params, params, 1.0)
    bound = observable.bind(problem, net)
    return lambda params: bound(problem, net, params)
