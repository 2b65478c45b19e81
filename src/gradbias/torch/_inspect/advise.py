"""What to change about a training run, and which theorems hold for it."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import nn
from torch.optim import Optimizer

from ...numerics import checks
from .._find.examples import captured
from .._find.symmetries import Symmetries, find_symmetries
from .._measure.batches import B, LossFn, as_loss, held, is_loader, size
from .._measure.curvature import sharpness
from .._measure.repeatable import check_repeatable
from .._measure.undisturbed import undisturbed
from .._measure.unwrap import OptimizerWrapper, unwrap_model, unwrap_optimizer
from .._measure.update_sharpness import UpdateSharpness, update_sharpness
from .._move.jump import snapshot
from . import rows_scale, rows_steps
from .facts import Facts, frozen_statistics, unlike_training
from .findings import Finding, Findings
from .inspect import losses_of
from .layer_noise import layer_noise
from .trial import ChargeTrial, tried


def advise(
    model: nn.Module,
    optimizer: Optimizer | OptimizerWrapper,
    loss_fn: LossFn[B] | nn.Module,
    batch: B | Iterable[B],
    *,
    batch_size: int | None = None,
) -> Findings:
    """What is out of balance, too fast, noisy or dead, and which theorems hold for this optimiser.

    Every row is a statement with a verdict, the numbers that were measured for it and the theorem
    behind it. What balance would change was tried on a copy; so were ten steps of the optimiser,
    to see what they do to the charges. A verdict "applies" means that the hypotheses were looked
    at and hold; laws of plain SGD are not told of others. Numbers are measured in evaluation mode,
    symmetries in the mode that the model is in. Model and optimiser are left as they were.

    Args:
        model: any module, also compiled or in DistributedDataParallel.
        optimizer: the one that trains it.
        loss_fn: `loss_fn(model, batch)`, the mean loss, or a criterion.
        batch: samples that are trained on, 64 or more; or a loader, of which the first is taken.
        batch_size: samples of a training step; that of the loader, or of the batch, if None.

    Returns:
        Print it, or look at it in a notebook; `["balance"]` is a row.
    """
    plain = unwrap_model(model).model
    inner = unwrap_optimizer(optimizer)
    mean = as_loss(loss_fn)
    probe = held(batch, plain)
    step_size = _step_size(batch_size, batch, size(probe))
    families = _families(plain, mean, probe)
    with undisturbed(plain):
        loss = check_repeatable(plain, mean, probe).loss
        # A wider tolerance may stop at the second eigenvalue, which was seen to be 5 % lower.
        peak = sharpness(plain, mean, probe, tolerance=1e-3)
        layers = layer_noise(plain, mean, probe, step_size)
    at = snapshot(plain, families, mean, probe, peak)
    step, no_step = _step(plain, inner, mean, probe)
    facts = Facts(
        *(plain, inner, mean, probe, step_size, families, at, step, no_step, layers),
        _tried(plain, inner, mean, probe, families),
        unlike_training(plain, mean, probe, loss),
    )
    quiet = np.errstate(all="ignore")  # of a net that has died there is little to divide
    with quiet:
        return Findings(tuple(_rows(facts)), tuple(families.notes()))


def _rows(facts: Facts) -> list[Finding]:
    rows = [
        rows_scale.balanced(facts),
        rows_steps.learning_rate(facts),
        rows_steps.own_step(facts),
        rows_steps.noisy_layers(facts),
        rows_scale.dead(facts),
        rows_scale.scale_invariant(facts),
        *rows_steps.conservation(facts),
        rows_steps.decay(facts),
        rows_steps.noise_balance(facts),
    ]
    return [row for row in rows if row is not None]


def _step_size(given: int | None, batch: object, n: int) -> int:
    if given is not None:
        return checks.integer("batch_size", given, at_least=1)
    of_loader = getattr(batch, "batch_size", None) if is_loader(batch) else None
    return of_loader if isinstance(of_loader, int) else n


def _families(model: nn.Module, loss_fn: LossFn[B], probe: B) -> Symmetries:
    """What holds in the mode that the model is in: frozen running statistics remove no scale."""
    call = captured(model, loss_fn, probe)
    as_trained = not frozen_statistics(model)
    return find_symmetries(model, call, as_trained=as_trained, losses=losses_of(loss_fn, probe))


def _step(
    model: nn.Module, optimizer: Optimizer, loss_fn: LossFn[Any], probe: object
) -> tuple[UpdateSharpness | None, str]:
    try:
        return update_sharpness(model, optimizer, loss_fn, probe), ""
    except ValueError as problem:
        return None, str(problem)


def _tried(
    model: nn.Module,
    optimizer: Optimizer,
    loss_fn: LossFn[Any],
    probe: object,
    families: Symmetries,
) -> dict[str, ChargeTrial]:
    chosen = [f for f in families.exact if f.two_sided]
    try:
        return tried(model, optimizer, loss_fn, probe, chosen) if chosen else {}
    except (ValueError, TypeError):  # an optimiser that cannot be copied or wants a closure
        return {}
