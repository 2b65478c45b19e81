"""Gradient noise against the mean gradient, layer by layer."""

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn

from .._measure.batches import LossFn, size
from .._measure.per_sample import by_groups
from .._measure.undisturbed import precise, smooth, trainable

GROUPS = 16
MEMORY = 2**30  # bytes for the groups' gradients


@dataclasses.dataclass(frozen=True)
class LayerNoise:
    """Of the parameters of one module.

    Attributes:
        name: of the module.
        noise: Tr Σ of one sample's gradient.
        signal: ‖ḡ‖², the noise of its own estimate taken off; it can come out negative.
        excess: Tr Σ/S − ‖ḡ‖² for a batch of S.
        error: standard error of the excess.
    """

    name: str
    noise: float
    signal: float
    excess: float
    error: float

    @property
    def dominates(self) -> bool:
        """Is most of a batch's squared gradient noise, by more than two standard errors?"""
        return self.noise > 0 and self.excess > 2 * self.error


def layer_noise(
    model: nn.Module, loss_fn: LossFn[Any], batch: object, batch_size: int
) -> list[LayerNoise]:
    """From mean gradients of groups of samples; nothing where they do not fit into memory.

    Args:
        model: in the mode in which it is measured.
        loss_fn: the mean loss over samples.
        batch: at least 4 samples.
        batch_size: S of a training step.
    """
    params = trainable(model)
    n = size(batch)
    groups = min(GROUPS, n // 2)
    bytes_needed = groups * sum(p.numel() * p.element_size() for p in params.values())
    if groups < 2 or bytes_needed > MEMORY:
        return []
    with smooth():
        rows = list(by_groups(model, loss_fn, batch, params, groups))
    layers: dict[str, list[str]] = {}
    for name in params:
        layers.setdefault(name.rpartition(".")[0] or name, []).append(name)
    each = n // groups
    return [_layer(layer, names, rows, each, batch_size) for layer, names in layers.items()]


def _layer(
    layer: str, names: list[str], rows: list[dict[str, torch.Tensor]], each: int, batch_size: int
) -> LayerNoise:
    flat = torch.stack([torch.cat([precise(row[n]).reshape(-1) for n in names]) for row in rows])
    products = (flat @ flat.T).cpu().numpy()
    noise, signal = _parts(products, each)
    # Without one group at a time: the spread of the excess (jackknife).
    count = len(products)
    excess = []
    for left_out in range(count):
        kept = [k for k in range(count) if k != left_out]
        a, b = _parts(products[np.ix_(kept, kept)], each)
        excess.append(a / batch_size - b)
    error = float(np.std(excess) * (count - 1) ** 0.5) if count > 2 else float("inf")
    return LayerNoise(layer, noise, signal, noise / batch_size - signal, error)


def _parts(products: np.ndarray, each: int) -> tuple[float, float]:
    """Tr Σ of a sample, and ‖ḡ‖² without bias: the products of different groups."""
    count = len(products)
    total = float(products.sum())
    own = float(np.trace(products))
    spread = (own - total / count) / (count - 1)
    return max(0.0, spread) * each, (total - own) / (count * (count - 1))
