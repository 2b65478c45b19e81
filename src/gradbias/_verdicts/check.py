"""From a setup to the answer in one call."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .._engine.run import Run
from .._engine.setup import Setup
from .._engine.simulate import simulate
from ..observe import Observable
from ..theorems import Theorem
from .compare import not_applicable
from .judge import judged
from .predict import Prediction, Predictions, predict
from .reproduced import reproduced
from .runs import execute
from .verdict import Verdict, Verdicts, failed, undecided
from .which_run import Reading, readings

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """What was predicted, what happened, and whether the two agree.

    Attributes:
        predictions: what the theorems say.
        run: the simulation, with everything recorded that they need.
        verdicts: one for each quantity.
    """

    predictions: Predictions
    run: Run
    verdicts: Verdicts

    def __str__(self) -> str:
        return f"{self.run}\n\n{self.verdicts}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self.run))}</pre>{self.verdicts._repr_html_()}"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Error against what is allowed, for every quantity that was compared.

        Args:
            ax: the matplotlib Axes to draw on; a new figure if None.
        """
        from ..plot import verdicts as draw_verdicts

        return draw_verdicts(self.verdicts, ax)


def check(setup: Setup, only: str | Theorem = "*", progress: bool | None = None) -> Study:
    """Predict, simulate with what the theorems need, compare.

    Args:
        setup: what to run.
        only: a pattern of theorem ids, such as "rank1.*", or a theorem.
        progress: show a line while it runs; by default where a person may be looking.

    Returns:
        The study; print it.
    """
    predictions = predict(setup, only)
    read = readings(setup, predictions)
    run = _recorded(setup, read, setup.record, progress)
    runs = {setup: run}
    verdicts: list[Verdict] = []
    for reading in read:
        at = reading.prediction.setup
        theorem = reading.prediction.theorem
        if reading.trouble:
            verdicts.append(undecided(theorem.id, reading.trouble))
            continue
        if theorem.runs is None and at not in runs:
            runs[at] = _recorded(at, read, {}, progress)
        verdicts += _verdicts(reading.prediction, runs.get(at, run), progress)
    verdicts += not_applicable(predictions)
    return Study(predictions, run, Verdicts(verdicts))


def _recorded(
    setup: Setup, read: list[Reading], record: Mapping[str, Observable], progress: bool | None
) -> Run:
    """One run with all that the theorems need; if that fails, the setup as it was given."""
    try:
        return simulate(setup.replace(record=_extended(record, setup, read)), progress=progress)
    except Exception:
        # Which observable it was shows when each theorem runs by itself; the setup's own error
        # is raised here.
        return simulate(setup, progress=progress)


def _extended(
    record: Mapping[str, Observable], setup: Setup, read: list[Reading]
) -> dict[str, Observable]:
    """A record, and what the theorems read there need, under names that are still free."""
    extended = dict(record)
    for reading in read:
        theorem = reading.prediction.theorem
        if theorem.runs is None and reading.prediction.setup is setup and not reading.trouble:
            for name, observable in theorem.observables.items():
                extended.setdefault(name, observable)
    return extended or dict(setup.record)


def _verdicts(prediction: Prediction, run: Run, progress: bool | None) -> list[Verdict]:
    theorem = prediction.theorem
    shared = run.setup is not None and all(
        run.setup.record.get(name) == observable for name, observable in theorem.observables.items()
    )

    def by_itself(prediction: Prediction) -> list[Verdict]:
        try:
            runs = execute(theorem.runs_of(prediction.setup), progress)
        except Exception as error:  # whatever it is, it is this theorem's alone
            return [failed(theorem.id, error)]
        return judged(prediction, runs)

    alone = theorem.runs is not None or not shared
    verdicts = by_itself(prediction) if alone else judged(prediction, {"run": run})
    return reproduced(verdicts, prediction, by_itself)
