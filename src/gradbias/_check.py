"""From a setup to the answer in one call."""

import dataclasses
from typing import Any

from ._compare import Verdict, Verdicts, failed, judged
from ._execute import execute
from ._predict import Prediction, Predictions, predict
from ._run import Run
from ._setup import Setup
from ._simulate import simulate


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

    def plot(self, ax: Any = None) -> Any:
        """Error against what is allowed, for every quantity that was compared.

        Args:
            ax: the matplotlib Axes to draw on; new ones if None.
        """
        from ._draw_verdicts import draw

        return draw(self.verdicts, ax)


def check(setup: Setup, only: str = "*", progress: bool | None = None) -> Study:
    """Predict, simulate with what the theorems need, compare.

    Args:
        setup: what to run.
        only: a pattern of theorem ids, such as "rank1.*".
        progress: show a line while it runs; by default where a person may be looking.

    Returns:
        The study; print it.
    """
    told = predict(setup, only)
    run = _recorded(setup, told, progress)
    verdicts: list[Verdict] = []
    for prediction in told:
        verdicts += _verdicts(prediction, run, progress)
    verdicts += [
        Verdict(theorem.id, "", "not applicable", reason=str(failed))
        for theorem, failed in told.near_misses
    ]
    return Study(told, run, Verdicts(verdicts))


def _recorded(setup: Setup, told: Predictions, progress: bool | None) -> Run:
    """One run with all that the theorems need; if that fails, the setup as it was given."""
    try:
        return simulate(setup.replace(record=_record(setup, told)), progress=progress)
    except Exception:
        # Which observable it was shows when each theorem runs by itself; the setup's own error
        # is raised here.
        return simulate(setup, progress=progress)


def _record(setup: Setup, told: Predictions) -> dict[str, Any]:
    """The setup's own observables, and what the theorems need under names that are still free."""
    record = dict(setup.record)
    for prediction in told:
        if prediction.theorem.runs is None:
            for name, observable in prediction.theorem.observables.items():
                record.setdefault(name, observable)
    return record


def _verdicts(prediction: Prediction, run: Run, progress: bool | None) -> list[Verdict]:
    theorem = prediction.theorem
    shared = run.setup is not None and all(
        run.setup.record.get(name) == observable for name, observable in theorem.observables.items()
    )
    if theorem.runs is None and shared:
        return judged(prediction, {"run": run})
    try:
        runs = execute(theorem.runs_of(prediction.setup), progress)
    except Exception as error:  # whatever it is, it is this theorem's alone
        return [failed(theorem.id, error)]
    return judged(prediction, runs)
