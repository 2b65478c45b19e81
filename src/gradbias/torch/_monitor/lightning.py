"""The monitor as a Lightning callback."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torch import nn
from torch.optim import Optimizer

from .._measure.batches import LossFn
from .._measure.unwrap import OptimizerWrapper
from .monitor import Monitor


@runtime_checkable
class _Trainer(Protocol):
    loggers: Sequence[Any]
    optimizers: Sequence[Optimizer | OptimizerWrapper]


def lightning_callback(loss_fn: LossFn[Any], probe: object, **options: Any) -> Any:
    """A `lightning.pytorch.Callback` that monitors the first optimiser.

    Values go to the trainer's loggers unless `log` is given, and the monitor's state into its
    checkpoints. `callback.monitor` is the `Monitor`.

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
        monitor: Monitor | None = None
        saved: Mapping[str, object] = {}

        def on_train_start(self, trainer: _Trainer, pl_module: nn.Module) -> None:
            def log(values: Mapping[str, float], step: int) -> None:
                for logger in trainer.loggers:
                    logger.log_metrics(dict(values), step)

            given = {"log": log, **options}
            self.monitor = Monitor(pl_module, trainer.optimizers[0], loss_fn, probe, **given)
            self.monitor.load_state_dict(self.saved)

        def on_train_end(self, trainer: _Trainer, pl_module: nn.Module) -> None:
            if self.monitor is not None:
                self.monitor.__exit__()

        def state_dict(self) -> dict[str, Any]:
            return self.monitor.state_dict() if self.monitor is not None else {}

        def load_state_dict(self, state_dict: Mapping[str, object]) -> None:
            self.saved = state_dict

    return GradbiasCallback()
