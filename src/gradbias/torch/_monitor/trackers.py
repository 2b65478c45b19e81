"""Values of a monitor in the experiment trackers that people have: `Monitor(..., log=...)`.

What was not measured (NaN) is left out.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from .headline import PREFIX

TrackerLog = Callable[[Mapping[str, float], int], None]
STEP = PREFIX + "step"


@runtime_checkable
class ScalarWriter(Protocol):
    """What a TensorBoard writer can do."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object: ...


@runtime_checkable
class WandbRun(Protocol):
    """What a run of Weights & Biases can do."""

    def define_metric(self, name: str, *, step_metric: str) -> object: ...
    def log(self, data: dict[str, float]) -> object: ...


@runtime_checkable
class Accelerates(Protocol):
    """What an accelerator can do."""

    def log(self, values: dict[str, float], step: int) -> object: ...


def known(values: Mapping[str, float]) -> dict[str, float]:
    """Without what was not measured."""
    return {name: float(value) for name, value in values.items() if not math.isnan(value)}


class JsonlLog:
    """`log(values, step)`: appends a line of JSON; readable while training goes on.

    Args:
        path: the file; what it holds stays, so that a run can be taken up again.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)

    def __call__(self, values: Mapping[str, float], step: int) -> None:
        """Append one line."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        finite = {name: v for name, v in known(values).items() if math.isfinite(v)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **finite}) + "\n")


def tensorboard_log(writer: ScalarWriter | str | os.PathLike[str]) -> TrackerLog:
    """Scalars for TensorBoard.

    Args:
        writer: a `SummaryWriter`, or the folder for one.
    """
    if isinstance(writer, str | os.PathLike):
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(str(writer))
    target = writer

    def log(values: Mapping[str, float], step: int) -> None:
        for name, value in known(values).items():
            target.add_scalar(name, value, step)

    return log


def wandb_log(run: WandbRun | None = None) -> TrackerLog:
    """Metrics of a run of Weights & Biases, over their own step.

    Args:
        run: what `wandb.init` gave; the current one if None.
    """
    if run is None:
        import wandb  # pyright: ignore[reportMissingImports]

        run = wandb.run
    if not isinstance(run, WandbRun):
        raise ValueError("run must be a run of wandb, got none: call wandb.init first")
    target = run
    # The run's own step may be ahead of ours, and would then drop what comes with a smaller one.
    target.define_metric(STEP, step_metric=STEP)
    target.define_metric(PREFIX + "*", step_metric=STEP)

    def log(values: Mapping[str, float], step: int) -> None:
        target.log({**known(values), STEP: float(step)})

    return log


def mlflow_log(run_id: str | None = None) -> TrackerLog:
    """Metrics of a run of MLflow.

    Args:
        run_id: of the run; the active one if None.
    """
    import mlflow  # pyright: ignore[reportMissingImports]

    def log(values: Mapping[str, float], step: int) -> None:
        mlflow.log_metrics(known(values), step=step, run_id=run_id)

    return log


def accelerate_log(accelerator: Accelerates) -> TrackerLog:
    """Values for the trackers of an accelerator: call `init_trackers` first.

    Args:
        accelerator: of Hugging Face accelerate.
    """

    def log(values: Mapping[str, float], step: int) -> None:
        accelerator.log(known(values), step=step)

    return log
