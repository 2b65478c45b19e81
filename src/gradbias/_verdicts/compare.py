"""Predictions against a run: the verdicts."""

from collections.abc import Iterable

from .._engine.run import Run
from .._engine.setup import Setup
from .._sweeps.setup_lines import Reader
from .judge import judged
from .predict import Prediction, Predictions
from .verdict import Verdict, Verdicts, undecided

DECIDE = ("problem", "net", "dynamics", "params")  # what a prediction is about


def compare(run: Run, predictions: Predictions | Prediction | Iterable[Prediction]) -> Verdicts:
    """Set what a run shows against what was predicted.

    Args:
        run: the result of `simulate` on the setup of the predictions.
        predictions: what `predict` returned, or some of it.

    Returns:
        A verdict for every quantity.
    """
    if not isinstance(run, Run):
        raise ValueError(f"run must be a gb.Run, got {type(run).__name__}")
    some = [predictions] if isinstance(predictions, Prediction) else list(predictions)
    if run.setup is not None:
        for setup in {prediction.setup for prediction in some}:
            _refuse_another(run.setup, setup)
    verdicts = [verdict for prediction in some for verdict in _of_one_run(run, prediction)]
    if isinstance(predictions, Predictions):
        verdicts += not_applicable(predictions)
    return Verdicts(verdicts)


def not_applicable(predictions: Predictions) -> list[Verdict]:
    """A row for each theorem that is about such setups, with the hypothesis that fails."""
    return [
        Verdict(theorem.id, "", "not applicable", reason=str(failed))
        for theorem, failed in predictions.near_misses
    ]


def _refuse_another(ran: Setup, predicted: Setup) -> None:
    """A run of one setup says nothing about another; saves and records may differ."""
    parts = [n for n in DECIDE if getattr(ran, n) is not getattr(predicted, n)]
    if not parts:
        return
    lines = [Reader().read(setup) for setup in (ran, predicted)]
    for path in dict.fromkeys([*lines[0], *lines[1]]):
        part = path.replace("[", ".").split(".")[0]
        one, other = (some.get(path, "nothing") for some in lines)
        if part in parts and one != other:
            raise ValueError(
                f"run must be of the setup of the predictions, but {path} is {one:.60} in the run "
                f"and {other:.60} in the predictions: predict(run.setup), or simulate that setup"
            )


def _of_one_run(run: Run, prediction: Prediction) -> list[Verdict]:
    theorem = prediction.theorem
    if theorem.runs is not None:
        return [undecided(theorem.id, "it needs runs of its own: gb.check(setup) makes them")]
    missing = [name for name in theorem.observables if name not in _names(run)]
    if missing:
        return [
            undecided(
                theorem.id,
                f"the run lacks {', '.join(missing)}: add it to Setup(record=…), or use "
                "gb.check(setup)",
            )
        ]
    return judged(prediction, {"run": run})


def _names(run: Run) -> set[str]:
    recorded = set() if run.setup is None else set(run.setup.record)
    return recorded | {str(name) for name in run.data}
