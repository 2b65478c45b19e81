"""The variance of every parameter's gradient over samples, batch after batch."""

import itertools
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from .batches import B, LossFn, is_loader, on_device, size
from .per_sample import MEMORY, by_groups, by_vmap
from .undisturbed import Named, smooth, trainable

GROUPS = 16  # of samples, where single ones cannot be had


class _Moments:
    """Mean and summed squared deviations of rows that come in chunks."""

    def __init__(self, params: Named):
        self.count = 0
        self.mean = {n: torch.zeros_like(p, dtype=torch.float64) for n, p in params.items()}
        self.squares = {n: torch.zeros_like(m) for n, m in self.mean.items()}

    def add(self, rows: Named, weight: float = 1.0) -> None:
        """Rows along the first axis, each the mean of `weight` samples."""
        more = len(next(iter(rows.values())))
        total = self.count + more
        for name, value in rows.items():
            value = value.detach().double()
            mean = value.mean(0)
            off = mean - self.mean[name]
            inner = (value - mean).square().sum(0) + off.square() * (self.count * more / total)
            self.squares[name] += weight * inner
            self.mean[name] += off * (more / total)
        self.count = total

    def variance(self) -> Named:
        """Of one sample's gradient."""
        if self.count < 2:
            raise ValueError(f"loader must hold at least 2 samples, got {self.count}")
        return {name: s / (self.count - 1) for name, s in self.squares.items()}


def variances(model: nn.Module, loss_fn: LossFn[B], loader: B | Iterable[B], batches: int) -> Named:
    """The diagonal of Σ, the covariance of one sample's gradient.

    Args:
        model: in a state where its loss is not random.
        loss_fn: the mean loss of a batch.
        loader: a batch, or a loader of them.
        batches: how many of a loader's batches to use.
    """
    params = trainable(model)
    moments = _Moments(params)
    grouped = False
    with smooth():
        for batch in taken(loader, batches):
            batch = on_device(batch, model)
            if not grouped:
                try:
                    for rows in by_vmap(model, loss_fn, batch, params, MEMORY):
                        moments.add(rows)
                    continue
                except (RuntimeError, ValueError, NotImplementedError) as problem:
                    warnings.warn(
                        "per-sample gradients were not possible "
                        f"({str(problem).splitlines()[0]:.120}): noise is estimated from groups "
                        "of samples",
                        stacklevel=3,
                    )
                    grouped = True
                    moments = _Moments(params)
            _add_groups(moments, by_groups(model, loss_fn, batch, params, _groups(batch)), batch)
    return moments.variance()


def _groups(batch: object) -> int:
    return min(GROUPS, size(batch))


def _add_groups(moments: _Moments, means: Iterable[Named], batch: object) -> None:
    rows = list(means)
    stacked = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
    moments.add(stacked, weight=size(batch) // len(rows))


def taken(loader: B | Iterable[B], batches: int) -> Iterator[B]:
    """The first batches of a loader; a batch is itself one."""
    one: Any = loader
    return itertools.islice(loader, batches) if is_loader(loader) else iter([one])
