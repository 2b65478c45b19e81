"""The monitor as a callback of the Hugging Face Trainer."""

from pathlib import Path
from typing import Any

from .._measure.batches import LossFn
from .monitor import Monitor


def model_loss(model: Any, batch: Any) -> Any:
    """The loss that a transformers model computes itself from a batch with labels."""
    return model(**batch).loss


def trainer_callback(probe: Any, loss_fn: LossFn = model_loss, **options: Any) -> Any:
    """A `transformers.TrainerCallback` that monitors the trainer's optimiser.

    ```python
    trainer = Trainer(..., callbacks=[gbt.trainer_callback(probe=batch, batch_size=16)])
    ```

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
            self, args: Any, state: Any, control: Any, model: Any, optimizer: Any, **_: Any
        ) -> None:
            log = Path(args.output_dir) / "gradbias.csv"
            self.monitor = Monitor(model, optimizer, loss_fn, probe, **{"log": log, **options})

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.monitor is not None:
                self.monitor.__exit__()

    return GradbiasCallback()
