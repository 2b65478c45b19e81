"""Squared deviations of gradients from their mean on both sides of every unit, three ways."""

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from .._find.family import Family
from .batches import B, LossFn, size
from .per_sample import LinearTrace, by_groups, by_vmap
from .undisturbed import Named, norm2, precise

Sides = dict[str, tuple[np.ndarray, np.ndarray]]  # (groups or samples, units) into and out


def deviations(
    model: nn.Module,
    loss_fn: LossFn[B],
    batch: B,
    families: Sequence[Family],
    mean: Named,
    method: str,
    groups: int,
    memory: float,
) -> tuple[str, Sides]:
    """Squared deviations on both sides of each unit; their mean over rows is the noise."""
    n = size(batch)
    if method in ("auto", "linear"):
        trace = LinearTrace(model, set(mean))
        if trace.run(loss_fn, batch, mean):
            return "linear", _linear(trace, families, mean, n, min(groups, n))
        if method == "linear":
            raise ValueError(
                "method 'linear' needs families of Linear layers that see every sample once "
                "(no weights shared over tokens, positions or layers): use 'vmap'"
            )
    if method in ("auto", "vmap"):
        try:
            return "vmap", _by_sample(model, loss_fn, batch, families, mean, memory)
        except (RuntimeError, ValueError, NotImplementedError) as problem:
            if method == "vmap":
                raise
            warnings.warn(
                f"per-sample gradients were not possible ({str(problem).splitlines()[0]:.120}): "
                f"noise is estimated from {groups} groups of samples, with larger errors",
                stacklevel=4,
            )
    return "groups", _by_group(model, loss_fn, batch, families, mean, min(groups, n // 2))


def _linear(
    trace: LinearTrace, families: Sequence[Family], mean: Named, n: int, groups: int
) -> Sides:
    each = n // groups
    ones = {name: torch.ones_like(precise(g)) for name, g in mean.items()}
    rows = []
    weights = []
    for k in range(groups):
        chosen = slice(k * each, (k + 1) * each if k < groups - 1 else n)
        rows.append(_halves(families, trace.group(chosen, mean), ones))
        weights.append((chosen.stop - chosen.start) * groups / n)
    # Rows of a larger last group count for more, so that the mean over rows is that over samples.
    return _stacked([[w * s for s in row] for row, w in zip(rows, weights, strict=True)], families)


def _by_sample(
    model: nn.Module,
    loss_fn: LossFn[B],
    batch: B,
    families: Sequence[Family],
    mean: Named,
    memory: float,
) -> Sides:
    rows = []
    total = {name: torch.zeros_like(g) for name, g in mean.items()}
    per_sample = torch.func.vmap(lambda d: _halves(families, d, d))
    _halves(families, mean, mean)  # fills the families' own caches outside of vmap
    for gradients in by_vmap(model, loss_fn, batch, _only(model, mean), memory):
        total = {name: t + gradients[name].sum(0) for name, t in total.items()}
        rows.append(per_sample({name: gradients[name] - g for name, g in mean.items()}))
    _same_mean(total, mean, size(batch))
    columns = [torch.cat(parts) for parts in zip(*rows, strict=True)]
    return _paired([precise(c).cpu().numpy() for c in columns], families)


def _same_mean(total: Named, mean: Named, n: int) -> None:
    """The gradient of the mean loss must be the mean of the samples' gradients."""
    off = norm2({name: t / n - mean[name] for name, t in total.items()})
    norm = norm2(mean)
    spread = norm2(total) / n**2
    if off > 1e-6 * max(norm, spread):
        raise ValueError(
            "the gradient of the batch is not the mean of its samples' gradients, relative "
            f"difference {(off / max(norm, spread)) ** 0.5:.1e}"
        )


def _by_group(
    model: nn.Module,
    loss_fn: LossFn[B],
    batch: B,
    families: Sequence[Family],
    mean: Named,
    groups: int,
) -> Sides:
    if groups < 2:
        raise ValueError(f"method 'groups' needs at least 4 samples, got {size(batch)}")
    means = list(by_groups(model, loss_fn, batch, _only(model, mean), groups))
    centre = {name: sum(g[name] for g in means) / groups for name in mean}
    each = size(batch) // groups
    rows = []
    for g in means:
        off = {name: g[name] - centre[name] for name in mean}
        rows.append([each * s for s in _halves(families, off, off)])
    return _stacked(rows, families)


def _only(model: nn.Module, mean: Named) -> Named:
    return {name: p for name, p in model.named_parameters() if name in mean}


def _halves(families: Sequence[Family], a: Named, b: Named) -> list[torch.Tensor]:
    return [side for family in families for side in family.halves(a, b)]


def _stacked(rows: list[list[torch.Tensor]], families: Sequence[Family]) -> Sides:
    columns = [precise(torch.stack(parts)).cpu().numpy() for parts in zip(*rows, strict=True)]
    return _paired(columns, families)


def _paired(columns: list[np.ndarray], families: Sequence[Family]) -> Sides:
    pairs = iter(columns)
    return {family.name: (next(pairs), next(pairs)) for family in families}
