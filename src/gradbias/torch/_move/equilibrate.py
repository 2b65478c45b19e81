"""Equilibrate: equal gradient noise in and out of every unit, where SGD would drift to."""

from collections.abc import Iterable, Sequence

from torch import nn
from torch.optim import Optimizer

from ...numerics import checks
from .._find.examples import captured
from .._find.family import Family
from .._measure.batches import B, LossFn, on_device
from .._measure.repeatable import check_repeatable
from .._measure.undisturbed import undisturbed
from .._measure.unwrap import OptimizerWrapper, unwrap_model
from .._measure.variances import taken, variances
from .balance import jumped, movable, positions
from .jump import ModelJump
from .solve import balance_point


def equilibrate(
    model: nn.Module,
    loss_fn: LossFn[B],
    loader: B | Iterable[B],
    *,
    optimizer: Optimizer | OptimizerWrapper | None = None,
    families: Sequence[Family] | None = None,
    kappa: float = 1.0,
    gamma: float = 0.0,
    batches: int = 8,
) -> ModelJump:
    r"""Jump to the noise equilibrium: equal gradient noise in and out of every unit.

    SGD slowly drifts to the point of a symmetry's orbit with the least
    $\kappa\,\mathrm{Tr}\Sigma + 4\gamma\|\theta\|^2$; this goes there at once, all families
    together. Of pairs the units are balanced, not the matrices.

    Try `balance` first: it needs no data, and in comparisons (docs/torch.md#equilibrate) this was
    not reliably better. At random initialisation the noise is mostly misfit, and the equilibrium
    can overshoot. At a well-scaled start neither replaces warm-up; and for Adam, whose steps do
    not follow the noise, this point has no meaning of its own.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖² (γ is half of the weight decay of
    torch's SGD). Without decay κ does not matter.

    Args:
        model: changed in place; its outputs stay.
        loss_fn: `loss_fn(model, batch)`, the mean loss as a scalar tensor.
        loader: a loader of batches, or one batch.
        optimizer: its momentum and second moments are transformed too.
        families: what to move; all that are found if None.
        kappa: lr/S.
        gamma: γ ≥ 0.
        batches: how many of a loader's batches to measure the noise on.

    Returns:
        What changed, with `.undo()`. Noise and sharpness are those of the first batch.
    """
    plain = unwrap_model(model).model
    kappa = checks.number("kappa", kappa, above=0)
    gamma = checks.number("gamma", gamma, at_least=0)
    checks.integer("batches", batches, at_least=1)
    first = next(taken(loader, 1), None)
    if first is None:
        raise ValueError("loader must hold at least one batch, got an empty one")
    first = on_device(first, plain)
    call = captured(plain, loss_fn, first)
    chosen, skipped = movable(plain, call, families)
    with undisturbed(plain):
        check_repeatable(plain, loss_fn, first)
        noise = variances(plain, loss_fn, loader, batches)
    params = positions(plain)
    solved = balance_point(
        chosen, params, {n: noise[n] for f in chosen for n in f.parameters}, kappa, gamma
    )
    return jumped(plain, call, chosen, skipped, solved, optimizer, loss_fn, first)
