"""The monitor as a callback of the Hugging Face Trainer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn
from torch.optim import Optimizer

from .._measure.batches import LossFn
from .monitor import Monitor


@runtime_checkable
class _TrainingArguments(Protocol):
    output_dir: str


def model_loss(model: nn.Module, batch: Mapping[str, Any]) -> Tensor:
    """The loss that a transformers model computes itself from a batch with labels."""
    return model(**batch).loss


def trainer_callback(probe: object, loss_fn: LossFn[Any] = model_loss, **options: Any) -> Any:
    """A `transformers.TrainerCallback` that monitors the trainer's optimiser.

    Values go to `gradbias.csv` in the output folder unless `log` is given. `callback.monitor` is
    the `Monitor`.

    Args:
        probe: a fixed batch, or a loader whose first batch is kept: the trainer hands none over.
        loss_fn: `loss_fn(model, batch)`, the mean loss; by default the model's own.
        **options: of `Monitor`.
    """
    from transformers import TrainerCallback  # pyright: ignore[reportMissingImports]

    class GradbiasCallback(TrainerCallback):
        """Begins with training and ends with it."""

        monitor: Monitor | None = None

        def on_train_begin(
            self,
            args: _TrainingArguments,
            state: object,
            control: object,
            model: nn.Module,
            optimizer: Optimizer,
            **_: object,
        ) -> None:
            log = Path(args.output_dir) / "gradbias.csv"
            self.monitor = Monitor(model, optimizer, loss_fn, probe, **{"log": log, **options})

        def on_train_end(
            self, args: _TrainingArguments, state: object, control: object, **_: object
        ) -> None:
            if self.monitor is not None:
                self.monitor.__exit__()

    return GradbiasCallback()
