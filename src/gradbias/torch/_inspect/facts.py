"""All that `gradbias.torch.advise` measures, once."""

import dataclasses
from typing import Any

from torch import nn
from torch.optim import Optimizer

from .._find.family import Family
from .._find.symmetries import Symmetries
from .._measure.batches import LossFn
from .._measure.undisturbed import Named, trainable
from .._measure.update_sharpness import UpdateSharpness
from .._move.jump import Snapshot
from .layer_noise import LayerNoise
from .rule import Rule, family_rule, rule_of
from .trial import ChargeTrial

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout)


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

    @property
    def unlike_training(self) -> str:
        """What evaluation mode leaves out of the measurement; empty if nothing."""
        active = {
            word
            for kinds, word in ((DROPOUTS, "dropout"), (BATCH_NORMS, "batch statistics"))
            for module in self.model.modules()
            if isinstance(module, kinds) and module.training
        }
        return f"; measured without {' and '.join(sorted(active))}" if active else ""


def frozen_statistics(model: nn.Module) -> bool:
    """Is there a BatchNorm that uses its running statistics? It then removes no scale."""
    return any(isinstance(m, BATCH_NORMS) and not m.training for m in model.modules())
