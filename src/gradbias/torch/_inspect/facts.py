"""All that `gradbias.torch.advise` measures, once."""

import dataclasses
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from .._find.family import Family
from .._find.symmetries import Symmetries
from .._measure.batches import LossFn
from .._measure.duplicate import duplicate
from .._measure.undisturbed import Named, trainable
from .._measure.update_sharpness import UpdateSharpness
from .._move.jump import Snapshot
from .layer_noise import LayerNoise
from .rule import Rule, family_rule, rule_of
from .trial import ChargeTrial

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
UNLIKE = 1e-5  # a relative difference of losses that is no rounding


@dataclasses.dataclass(frozen=True, eq=False)
class Facts:
    """What the rows are made from.

    Attributes:
        model: unwrapped.
        optimizer: unwrapped.
        loss_fn: the mean loss.
        batch: the probe.
        batch_size: S of a training step.
        families: what holds in the mode that the model is in.
        at: norms, noise and sharpness, in evaluation mode.
        step: how far the optimiser's own step may go; None with the reason in `no_step`.
        no_step: why `step` is None.
        layers: gradient noise by layer.
        moved: what some steps on a copy did, by family.
        unlike_training: what to add to numbers of evaluation mode; empty if the loss in the mode
            that the model is in is the same.
    """

    model: nn.Module
    optimizer: Optimizer
    loss_fn: LossFn[Any]
    batch: object
    batch_size: int
    families: Symmetries
    at: Snapshot
    step: UpdateSharpness | None
    no_step: str
    layers: list[LayerNoise]
    moved: dict[str, ChargeTrial]
    unlike_training: str

    @property
    def params(self) -> Named:
        """All parameters, by name."""
        return dict(self.model.named_parameters())

    @property
    def rule(self) -> Rule:
        """How the optimiser moves all that is trained."""
        return rule_of(self.optimizer, trainable(self.model))

    def rule_for(self, family: Family) -> Rule:
        """How the optimiser moves one family's parameters."""
        return family_rule(self.optimizer, self.params, family)

    @property
    def two_sided(self) -> list[Family]:
        """Families that have a balance and hold up to rounding."""
        return [f for f in self.families.exact if f.two_sided]

    @property
    def one_sided(self) -> list[Family]:
        """Weights whose size a normalisation removes."""
        return [f for f in self.families if not f.two_sided]


def frozen_statistics(model: nn.Module) -> bool:
    """Is there a BatchNorm that uses its running statistics? It then removes no scale."""
    return any(isinstance(m, BATCH_NORMS) and not m.training for m in model.modules())


def unlike_training(model: nn.Module, loss_fn: LossFn[Any], batch: object, loss: float) -> str:
    """Whether the model, in its own mode, has another loss: dropout, statistics of the batch.

    Args:
        model: in the mode that it is trained in.
        loss_fn: the mean loss.
        batch: the probe.
        loss: of the batch in evaluation mode.
    """
    twin = duplicate(model)  # statistics of a batch would be kept
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        own = float(loss_fn(twin, batch))
    if abs(own - loss) <= UNLIKE * max(abs(own), abs(loss)):
        return ""
    return f"; in evaluation mode, loss {loss:.4g}: in training it is {own:.4g}"
