"""The first call: one table of what is out of balance, how noisy, how sharp, and what helps."""

import dataclasses
import textwrap
from collections.abc import Iterable

import numpy as np
from torch import Tensor, nn

from ...numerics import checks
from .._find.check import Scalar
from .._find.examples import captured
from .._find.family import Family
from .._find.parameters import doubled
from .._find.symmetries import Symmetries, find_symmetries
from .._measure.batches import B, LossFn, as_loss, held
from .._measure.curvature import TopEigenpair, sharpness
from .._measure.noise import GradientNoise
from .._measure.repeatable import check_repeatable
from .._measure.undisturbed import undisturbed
from .._measure.unwrap import unwrap_model
from .._move.jump import Snapshot, snapshot, span
from .advice import Advice, AdviceInputs, advise

WIDTH = 80


@dataclasses.dataclass(frozen=True, eq=False)
class Inspection:
    """What was found; printed, it is a table.

    Convention: charge C = θᵀAθ (in² − out² of a unit), κ = lr/S, objective L + γ‖θ‖² (weight
    decay 2γ of torch's SGD). Noise is that of one sample's gradient.

    Attributes:
        symmetries: the families, how well they hold, and what was left out.
        imbalance: for each two-sided family, (units,) the norm of what goes in over that of what
            comes out: 1 in balance.
        noise: for each family the gradient noise on both sides, with standard errors.
        sharpness: the largest eigenvalue of the Hessian; `.lr` is 2/λ.
        loss: of the batch.
        advice: at most three sentences, each tried on a copy.
    """

    symmetries: Symmetries
    imbalance: dict[str, np.ndarray]
    noise: dict[str, GradientNoise]
    sharpness: TopEigenpair
    loss: float
    advice: tuple[Advice, ...]

    def __repr__(self) -> str:
        lines = [_row("layers", "units", "holds", "in/out norm", "in/out noise")]
        lines += [self._family(family) for family in self.symmetries]
        if not len(self.symmetries):
            lines.append("no symmetries: nothing can be rescaled without changing the function")
        peak = self.sharpness
        sure = "" if peak.converged else ", not converged"
        lines.append(
            f"sharpness {peak.value:.4g} (residual {peak.residual:.1g}{sure}): "
            f"plain gradient descent needs lr < {peak.lr:.3g}"
        )
        lines += self.symmetries.notes()
        for i, advice in enumerate(self.advice, start=1):
            text = f"{i}. {advice.sentence} [{advice.link}]"
            lines += textwrap.wrap(text, WIDTH, subsequent_indent="   ")
        return "\n".join(lines)

    def _family(self, family: Family) -> str:
        holds = "exact" if family.exact else f"{family.holds:.0e}"
        norm = span(self.imbalance[family.name]) if family.two_sided else "one side"
        noise = self.noise[family.name]
        return _row(family.name, str(family.units), holds, norm, _noise(noise, family.two_sided))


def _noise(noise: GradientNoise, two_sided: bool) -> str:
    if not two_sided:
        return "one side"
    usable = noise.ratio[np.isfinite(noise.ratio)]
    error = noise.standard_error / noise.ratio
    error = error[np.isfinite(error)]
    return span(usable) + (f" ±{100 * np.median(error):.0f}%" if len(error) else "")


def _row(name: str, units: str, holds: str, norm: str, noise: str) -> str:
    room = 28
    above = "" if len(name) <= room else "\n".join(textwrap.wrap(name, WIDTH)) + "\n"
    name = "" if above else name
    return above + f"{name:<{room}} {units:>5}  {holds:<6} {norm:<14} {noise}"[:WIDTH].rstrip()


def inspect(
    model: nn.Module,
    loss_fn: LossFn[B] | nn.Module,
    batch: B | Iterable[B],
    *,
    lr: float | None = None,
) -> Inspection:
    """Look at a model on one batch: balance, gradient noise, sharpness, symmetries, advice.

    The model is measured in evaluation mode (symmetries of normalisation layers as in training)
    and left as it was. Each row of the table is a family of symmetries: how well it holds; the norm
    of what goes into its units over that of what comes out, smallest and largest; the same for
    gradient noise, with the typical standard error. What is understood of the model and what is
    not is said by name.

    Args:
        model: any module, also compiled or in DistributedDataParallel.
        loss_fn: `loss_fn(model, batch)`, the mean loss as a scalar tensor; or a criterion such as
            `nn.CrossEntropyLoss()`, for batches (inputs, targets).
        batch: one batch, or a loader of which the first is taken. 64 samples or more.
        lr: the learning rate that you mean to use with SGD, to be compared with the sharpness.

    Returns:
        Print it.
    """
    plain = unwrap_model(model).model
    rate = None if lr is None else checks.number("lr", lr, above=0)
    loss_fn = as_loss(loss_fn)
    probe = held(batch, plain)
    call = captured(plain, loss_fn, probe)
    with undisturbed(plain):
        loss = check_repeatable(plain, loss_fn, probe).loss
        peak = sharpness(plain, loss_fn, probe)
    families = find_symmetries(plain, call, as_trained=True, losses=losses_of(loss_fn, probe))
    at = snapshot(plain, families, loss_fn, probe, peak)
    inputs = AdviceInputs(plain, loss_fn, probe, families, at, loss, rate)
    return Inspection(families, _imbalance(families, at), at.noise, peak, loss, advise(inputs))


def _imbalance(families: Symmetries, at: Snapshot) -> dict[str, np.ndarray]:
    return {f.name: at.ratio[f.name] for f in families if f.two_sided}


def losses_of(loss_fn: LossFn[B], batch: B) -> list[Scalar]:
    """The loss in float64, unless it has numbers of another precision inside."""
    precise = doubled(batch)

    def loss(twin: nn.Module) -> Tensor:
        try:
            return loss_fn(twin, precise)
        except RuntimeError:  # the outputs have been checked without it
            return next(iter(twin.parameters())).sum() * 0.0

    return [loss]
