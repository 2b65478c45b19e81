"""The monitor as a Lightning callback."""

from typing import Any

from .._measure.batches import LossFn
from .monitor import Monitor


def lightning_callback(loss_fn: LossFn, probe: Any, **options: Any) -> Any:
    """A `lightning.pytorch.Callback` that monitors the first optimiser.

    ```python
    trainer = Trainer(callbacks=[gbt.lightning_callback(loss_fn, probe=(x, y))])
    ```

    Values go to the trainer's loggers unless `log` is given. `callback.monitor` is the `Monitor`.

    Args:
        loss_fn: `loss_fn(module, batch)`, the mean loss; `module` is the LightningModule.
        probe: a fixed batch, or a loader whose first batch is kept.
        **options: of `Monitor`.
    """
    try:
        from lightning.pytorch import Callback  # pyright: ignore[reportMissingImports]
    except ImportError:
        from pytorch_lightning import Callback  # pyright: ignore[reportMissingImports]

    class GradbiasCallback(Callback):
        """Begins with training and ends with it."""

        monitor: Monitor | None = None

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            def log(values: Any, step: int) -> None:
                for logger in trainer.loggers:
                    logger.log_metrics(dict(values), step)

            self.monitor = Monitor(
                pl_module, trainer.optimizers[0], loss_fn, probe, **{"log": log, **options}
            )

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if self.monitor is not None:
                self.monitor.__exit__()

    return GradbiasCallback()
