"""Balance: equal norms in and out of every unit, without changing what the model computes."""

from collections.abc import Iterable, Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from .._find.examples import captured, example
from .._find.family import Family
from .._find.parameters import Call, call_arguments
from .._find.symmetries import find_symmetries
from .._measure.batches import B, LossFn, as_loss, held
from .._measure.unwrap import OptimizerWrapper, refuse_meta, unwrap_model
from .jump import ModelJump, leap, snapshot
from .solve import BalancePoint, balance_point


def balance(
    model: nn.Module,
    example_input: object = None,
    *,
    optimizer: Optimizer | OptimizerWrapper | None = None,
    families: Sequence[Family] | None = None,
    loss_fn: LossFn[B] | nn.Module | None = None,
    batch: B | Iterable[B] | None = None,
) -> ModelJump:
    """Give every unit equal norms in and out: the smallest weights that compute the same function.

    Needs no data. It is the first thing to try at a mis-scaled start: sharpness that comes from
    imbalance goes away, which leaves room for larger learning rates but does not promise a lower
    loss (docs/torch.md#balance). At a well-scaled start it changes little. Neurons between
    homogeneous activations, gains, gated units and convolutions are rescaled; pairs of linear maps
    that meet (query–key, value–output) are balanced by a matrix, so that WWᵀ = UᵀU between them.
    Only what holds exactly is moved.

    Args:
        model: changed in place; its outputs stay.
        example_input: what it is called with; guessed from its first layer if None.
        optimizer: its momentum and second moments are transformed too, as if the run had always
            been at the new point (of pairs, second moments as if entries were not correlated).
        families: what to move; all that are found if None.
        loss_fn: `loss_fn(model, batch)`, the mean loss, or a criterion; with it noise and
            sharpness are measured before and after.
        batch: of data, for `loss_fn`; or a loader, of which the first is taken.

    Returns:
        What changed, with `.undo()`.
    """
    plain = unwrap_model(model).model
    refuse_meta(plain)
    loss_fn = None if loss_fn is None else as_loss(loss_fn)
    batch = None if batch is None else held(batch, plain)
    if example_input is not None:
        call = call_arguments(example_input)
    elif loss_fn is not None and batch is not None:
        call = captured(plain, loss_fn, batch)
    else:
        call = example(plain)
    chosen, skipped = movable(plain, call, families)
    solved = balance_point(chosen, positions(plain))
    return jumped(plain, call, chosen, skipped, solved, optimizer, loss_fn, batch)


def positions(model: nn.Module) -> dict[str, torch.Tensor]:
    """The parameters, in float64."""
    return {name: p.detach().double() for name, p in model.named_parameters()}


def movable(
    model: nn.Module, call: Call, families: Sequence[Family] | None
) -> tuple[list[Family], dict[str, str]]:
    """The families that can be moved, and why the others cannot."""
    if families is None:  # with running statistics: what holds then holds in training too
        families = find_symmetries(model, call, as_trained=False).families
    chosen = []
    skipped = {}
    for family in families:
        if not isinstance(family, Family):
            raise ValueError(
                "families must hold what gradbias.torch.symmetries or declare gave, got "
                f"{type(family).__name__}"
            )
        if not family.two_sided:
            skipped[family.name] = "a normalisation removes its scale: there is nothing to balance"
        elif family.holds is not None and not family.exact:
            skipped[family.name] = f"it holds only to {family.holds:.0e}"
        else:
            chosen.append(family)
    return chosen, skipped


def jumped(
    model: nn.Module,
    call: Call,
    chosen: Sequence[Family],
    skipped: dict[str, str],
    solved: BalancePoint,
    optimizer: Optimizer | OptimizerWrapper | None,
    loss_fn: LossFn[B] | None,
    batch: B | None,
) -> ModelJump:
    """Do it, and measure before and after."""
    before = snapshot(model, chosen, loss_fn, batch)
    change, rounding, undo = leap(model, call, chosen, solved, optimizer)
    after = snapshot(model, chosen, loss_fn, batch)
    lam = {move.family.name: move.lam.numpy() for move in solved.moves}
    return ModelJump(
        lam, before, after, change, rounding, skipped, solved.sweeps, solved.left, undo
    )
