"""The monitor as a Lightning callback."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import nn
from torch.optim import Optimizer

from .._measure.batches import LossFn
from .._measure.unwrap import OptimizerWrapper
from .monitor import Monitor


@runtime_checkable
class _Logger(Protocol):
    def log_metrics(self, metrics: dict[str, float], step: int) -> None: ...


@runtime_checkable
class _Trainer(Protocol):
    loggers: Sequence[_Logger]
    optimizers: Sequence[Optimizer | OptimizerWrapper]


def lightning_callback(loss_fn: LossFn[Any], probe: object, **options: Any) -> Any:
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

        def on_train_start(self, trainer: _Trainer, pl_module: nn.Module) -> None:
            def log(values: Mapping[str, float], step: int) -> None:
                for logger in trainer.loggers:
                    logger.log_metrics(dict(values), step)

            self.monitor = Monitor(
                pl_module, trainer.optimizers[0], loss_fn, probe, **{"log": log, **options}
            )

        def on_train_end(self, trainer: _Trainer, pl_module: nn.Module) -> None:
            if self.monitor is not None:
                self.monitor.__exit__()

    return GradbiasCallback()
