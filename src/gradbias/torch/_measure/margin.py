"""The margin of a model's last linear layer, and what no other layer there can exceed."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import nn

from ...numerics import checks
from .batches import B, is_loader, leaves, on_device
from .undisturbed import autocast_off, undisturbed
from .unwrap import unwrap_model

NORMS = ("frobenius", "max", "spectral")
# Powers of the weights: all of them prove an upper bound, and a head that is not trained to the
# end proves less with the first power, its gradient's own.
POWERS = (1.0, 0.25, 0.5, 2.0, 4.0, 8.0)


@runtime_checkable
class Norm(Protocol):
    """A norm and its dual, such as one of `gb.geometry`."""

    def norm(self, x: np.ndarray) -> object:
        """‖x‖."""
        ...

    def dual_norm(self, g: np.ndarray) -> object:
        """‖g‖_*."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class HeadMargin:
    """What one pass over the data says of a linear head.

    Attributes:
        head: the name of the layer.
        geometry: the norm of its weights, and its bias, together.
        lower: the margin of this head: its smallest margin over its norm; negative if it gets
            samples wrong.
        upper: what no head on these features can exceed, separable or not.
        weights: (n,) the samples' shares of the gradient of the cross-entropy, of sum one.
        margins: (n,) by how much each sample is on its side, not divided by the norm.
    """

    head: str
    geometry: str
    lower: float
    upper: float
    weights: np.ndarray
    margins: np.ndarray

    @property
    def wrong(self) -> np.ndarray:
        """The samples that the head does not get right, in the order of the loader."""
        return np.flatnonzero(self.margins <= 0)

    @property
    def separates(self) -> bool:
        """Does the head get every sample right?"""
        return not len(self.wrong)

    @property
    def share(self) -> float:
        """At least this part of the best margin has been reached; 0 where samples are wrong."""
        return max(self.lower, 0.0) / self.upper if self.upper > 0 else 0.0

    def heaviest(self, part: float = 0.9) -> np.ndarray:
        """The fewest samples that carry this part of the weight, the heaviest first.

        Args:
            part: of the whole, in (0, 1).
        """
        part = checks.number("part", part, above=0, below=1)
        order = np.argsort(-self.weights, kind="stable")
        total = np.cumsum(self.weights[order])
        return order[: int(np.searchsorted(total, part * total[-1] * (1 - 1e-12))) + 1]

    def __str__(self) -> str:
        few = f"{len(self.heaviest())} of {len(self.weights)} samples carry 90 % of the weight"
        best = f"no head on these features can exceed {self.upper:.3g}"
        if not self.separates:
            return f"{self.head} gets {len(self.wrong)} samples wrong; {best}; {few}"
        return (
            f"{self.head}: margin {self.lower:.3g}; {best}, so it has at least "
            f"{100 * self.share:.0f} % of the best; {few}"
        )

    __repr__ = __str__


def margin(
    model: nn.Module, loader: B | Iterable[B], geometry: str | Norm | type | None = None
) -> HeadMargin:
    """The margin of the last linear layer, certified from both sides in one pass over the data.

    With features h and labels y a head W has the margin min (W_y − W_k)·h/‖W‖ over samples and
    other classes. The shares of the gradient prove a bound that no head on these features can
    exceed: no solver is needed. A bias counts as the weight of one more feature, which is 1.

    Args:
        model: whose output is that of a Linear layer; of one output, labels are 0 and 1.
        loader: batches (inputs, labels), or one of them; samples are numbered in its order.
        geometry: the norm of the head: "frobenius" (SGD; by default), "max" (Adam, sign descent)
            or "spectral" (Muon); or one of `gb.geometry`.
    """
    norm, name = _norm(geometry)
    plain = unwrap_model(model).model
    seen = _Pass()
    head = ""
    with undisturbed(plain), torch.no_grad(), autocast_off():
        for batch in _batches(loader):
            head, features, weight, labels = _at_the_head(plain, on_device(batch, plain))
            seen.add(features, weight, labels)
    if seen.weight is None:
        raise ValueError("loader must hold at least one batch, got an empty one")
    W = seen.weight.T  # as gradbias has predictors: a feature a row
    size = _number(norm.norm(W))
    margins = np.concatenate(seen.margins)
    logs = np.concatenate(seen.logs)
    weights = np.exp(logs - logs.max())
    return HeadMargin(
        head,
        name,
        float(margins.min()) / size if size > 0 else 0.0,
        min(_number(norm.dual_norm(pulled.T)) for pulled in seen.pulled()),
        weights / weights.sum(),
        margins,
    )


class _Pass:
    """What is added up batch by batch: Σp of every power of the weights, in logarithms.

    Attributes:
        weight: of the head, with its bias as a last column; (1, d) for one output.
        margins: of every sample.
        logs: the logarithm of every sample's weight.
    """

    def __init__(self) -> None:
        self.weight: np.ndarray | None = None
        self.margins: list[np.ndarray] = []
        self.logs: list[np.ndarray] = []
        self._sums: list[tuple[float, float, np.ndarray]] = []

    def add(self, features: np.ndarray, weight: np.ndarray, labels: np.ndarray) -> None:
        """The features, (n, d), and labels, (n,), of a batch."""
        outputs = features @ weight.T
        if self.weight is None:
            self.weight = weight
            self._sums = [(-np.inf, 0.0, np.zeros_like(weight)) for _ in POWERS]
        if weight.shape[0] == 1:
            signs = np.where(labels == 1, 1.0, -1.0)
            behind = -(signs[:, None] * outputs)
        else:
            behind = outputs - np.take_along_axis(outputs, labels[:, None], axis=1)
            np.put_along_axis(behind, labels[:, None], -np.inf, axis=1)
        self.margins.append(-behind.max(axis=1))
        others = np.logaddexp.reduce(behind, axis=1)
        logs = behind - np.logaddexp(0.0, others)[:, None]  # of s_ik
        self.logs.append(np.logaddexp.reduce(logs, axis=1))
        for i, power in enumerate(POWERS):
            self._sums[i] = _added(self._sums[i], power * logs, features, labels)

    def pulled(self) -> list[np.ndarray]:
        """Zᵀp as a head, with the p of every power."""
        return [pulled / total for _, total, pulled in self._sums]


def _added(
    so_far: tuple[float, float, np.ndarray],
    logs: np.ndarray,
    features: np.ndarray,
    labels: np.ndarray,
) -> tuple[float, float, np.ndarray]:
    """A batch more; the largest logarithm so far is what numbers are relative to."""
    before, total, pulled = so_far
    scale = max(before, float(logs.max()))
    p = np.exp(logs - scale)
    kept = np.exp(before - scale)
    if p.shape[1] == 1:
        towards = np.where(labels == 1, 1.0, -1.0)[:, None] * p
    else:
        towards = -p
        np.put_along_axis(towards, labels[:, None], p.sum(axis=1, keepdims=True), axis=1)
    return scale, kept * total + float(p.sum()), kept * pulled + towards.T @ features


class _Named:
    """A norm of torch users, by its name."""

    def __init__(self, name: str):
        self.name = name

    def norm(self, x: np.ndarray) -> float:
        if self.name == "max":
            return float(np.abs(x).max())
        return float(np.linalg.norm(x, "fro" if self.name == "frobenius" else 2))

    def dual_norm(self, g: np.ndarray) -> float:
        if self.name == "max":
            return float(np.abs(g).sum())
        return float(np.linalg.norm(g, "fro" if self.name == "frobenius" else "nuc"))


def _norm(geometry: str | Norm | type | None) -> tuple[Norm, str]:
    if geometry is None or isinstance(geometry, str):
        name = checks.one_of("geometry", geometry or "frobenius", NORMS)
        return _Named(name), name
    made = geometry() if isinstance(geometry, type) else geometry
    if not isinstance(made, Norm):
        raise ValueError(
            f"geometry must be one of {', '.join(NORMS)} or of gb.geometry, got {geometry!r:.80}"
        )
    return made, type(made).__name__


def _number(value: object) -> float:
    return float(np.asarray(value))


def _batches(loader: B | Iterable[B]) -> Iterator[B]:
    """Those of a loader, or the one that was given."""
    if is_loader(loader):
        yield from loader
    else:
        yield loader  # pyright: ignore[reportReturnType]


def _at_the_head(model: nn.Module, batch: object) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """The name, features, weights and labels of a batch, in float64."""
    if not (isinstance(batch, tuple | list) and len(batch) == 2 and len(leaves(batch)) == 2):
        raise ValueError(
            f"loader must hand out (inputs, labels), two tensors, got {type(batch).__name__}"
        )
    inputs, targets = batch
    found: list[tuple[str, nn.Linear, torch.Tensor, torch.Tensor]] = []

    def hook(name: str):
        def keep(module: nn.Linear, given: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
            found.append((name, module, given[0], output))

        return keep

    layers = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    handles = [module.register_forward_hook(hook(name)) for name, module in layers]
    try:
        output = model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    heads = [one for one in found if one[3] is output]
    if not heads:
        raise ValueError(
            "model must end in a Linear layer, whose output is the model's, not squeezed or "
            f"passed on: no layer of {type(model).__name__} put out what the model did"
        )
    name, head, features, _ = heads[-1]
    if features.ndim != 2:
        raise ValueError(
            f"the features of the head must be (samples, features), got {tuple(features.shape)}"
        )
    weight = _double(head.weight)
    rows = _double(features)
    if head.bias is not None:
        weight = np.column_stack([weight, _double(head.bias)])
        rows = np.column_stack([rows, np.ones(len(rows))])
    return name or type(head).__name__, rows, weight, _labels(targets, len(rows), len(weight))


def _double(values: torch.Tensor) -> np.ndarray:
    return values.detach().cpu().double().numpy()


def _labels(targets: torch.Tensor, n: int, k: int) -> np.ndarray:
    """Whole numbers, one a sample, below the number of classes."""
    values = targets.detach().cpu().double().numpy()
    known = values.reshape(-1)
    most = max(k, 2)
    if known.shape != (n,) or not np.isin(known, np.arange(most)).all():
        raise ValueError(
            f"labels must be {n} whole numbers from 0 to {most - 1}, got shape "
            f"{tuple(targets.shape)} with values from {known.min():g} to {known.max():g}"
        )
    return known.astype(np.int64)
