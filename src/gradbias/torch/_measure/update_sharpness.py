"""Sharpness along an optimiser's own step, from forward passes alone."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from ...numerics import checks
from .batches import B, LossFn, as_loss, called, held, is_loader, on_device, part, size
from .least_root import FirstCrossing, least_root
from .own_step import own_step
from .repeatable import scalar_loss
from .undisturbed import Named, autocast_off, gradient, smooth, trainable, undisturbed
from .unwrap import OptimizerWrapper, refuse_meta, unwrap_model, unwrap_optimizer

PASSES = 8  # over the data; two of them are not trials
TOLERANCE = 1e-2
SAME = {torch.float64: 1e-9, torch.float32: 1e-4}  # a mean over parts and the whole; halves 1e-2


@dataclasses.dataclass(frozen=True)
class UpdateSharpness:
    """How far the loss allows to go along an update D.

    Attributes:
        value: 2/`lr`, in units of sharpness: −DᵀHD/gᵀD where the loss is quadratic along D.
        lr: the least positive η with L(θ + ηD) = L(θ), among the places that were tried: beyond it
            the loss is higher than before. inf if it only fell, up to `tried`; 0 if it only rose.
        standard_error: of `value`, over the parts of the data, for this D; nan of one part.
        current: the learning rate of the optimiser, which is η of its step; 1 of a given update.
        tried: the largest η.
        passes: forward passes over the data.
        parts: how many parts the standard error is from.
        converged: is `lr` known to 1 %?
        reason: why there is no number; empty if there is one.
    """

    value: float
    lr: float
    standard_error: float
    current: float
    tried: float
    passes: int
    parts: int
    converged: bool
    reason: str

    @property
    def share(self) -> float:
        """The step over the largest that does not raise the loss; a quadratic's best is 1/2."""
        return self.current / self.lr if self.lr > 0 else math.inf


def update_sharpness(
    model: nn.Module,
    update: Optimizer | OptimizerWrapper | Mapping[str, torch.Tensor],
    loss_fn: LossFn[B] | nn.Module,
    batch: B | Iterable[B],
    *,
    start: float | None = None,
    groups: int = 8,
) -> UpdateSharpness:
    """How far an update may go before the loss is back where it was, without second derivatives.

    2/sharpness is the limit of plain gradient descent alone. This asks the loss itself, along what
    the optimiser really does: its momentum, its preconditioner, its weight decay. L(θ + ηD) is
    computed on the same samples as L(θ), at up to six places. Measured in evaluation mode;
    the parameters are put back bit for bit.

    Args:
        model: any module, also compiled or in DistributedDataParallel.
        update: an optimiser: D is then what its next step would be with the gradient of this data,
            over its learning rate (that of its first group). Or D itself, tensors by parameter
            name, such as minus a gradient.
        loss_fn: `loss_fn(model, batch)`, the mean loss, or a criterion.
        batch: one batch, which is split into parts; or a loader, of which a few batches are taken.
        start: the first η to try; the optimiser's learning rate, or 1, if None.
        groups: how many parts, or batches; 1 for a loss that is not a mean over samples.

    Returns:
        The root `.lr`, and `.value` = 2/`.lr`.
    """
    groups = checks.integer("groups", groups, at_least=1)
    first = None if start is None else checks.number("start", start, above=0)
    plain = unwrap_model(model).model
    refuse_meta(plain)
    data = _data(batch, plain, groups)
    params = trainable(plain)
    with undisturbed(plain), autocast_off(), torch.no_grad():
        line = _Line(plain, as_loss(loss_fn), data.parts)
        losses = line.losses()
        moved, slope, again = _moved(plain, params, update, line.loss_fn, data.whole)
        _same(losses, data, again, next(iter(params.values())).dtype)
        rate = first or moved.rate
        with _put_back(moved.step, params):
            root = line.root(params, moved.step, losses, (rate, slope))
    return _result(line, root, moved.rate, abs(_mean(losses, data) - again))


class _Parts(NamedTuple):
    parts: list[Any]
    whole: list[Any]  # to be asked once more, with the gradient if it is needed
    weights: torch.Tensor


class _Moved(NamedTuple):
    step: Named
    rate: float


def _data(batch: B | Iterable[B], model: nn.Module, groups: int) -> _Parts:
    if is_loader(batch):
        taken = [on_device(b, model) for b in itertools.islice(batch, groups)]
        if not taken:
            raise ValueError("batch must hold at least one batch, got an empty loader")
        return _Parts(taken, taken, _weights(taken))
    whole = held(batch, model)
    n = size(whole)
    count = min(groups, n)
    edges = [n * k // count for k in range(count + 1)]
    parts = [part(whole, a, b) for a, b in itertools.pairwise(edges)]
    return _Parts(parts, [whole], _weights(parts))


def _weights(parts: list[Any]) -> torch.Tensor:
    sizes = torch.tensor([float(size(p)) for p in parts], dtype=torch.float64)
    return sizes / sizes.sum()


def _mean(losses: torch.Tensor, data: _Parts) -> float:
    return float(losses @ data.weights)


def _moved(
    model: nn.Module,
    params: Named,
    update: Optimizer | OptimizerWrapper | Mapping[str, torch.Tensor],
    loss_fn: LossFn[Any],
    whole: list[Any],
) -> tuple[_Moved, float | None, float]:
    """The update, its slope gᵀD where a gradient was needed, and the loss once more."""
    weights = _weights(whole)
    if isinstance(update, Mapping):
        again = float(_losses(model, loss_fn, whole) @ weights)
        return _Moved(_checked(update, params), 1.0), None, again
    inner = unwrap_optimizer(update)
    rate = float(inner.param_groups[0].get("lr") or 0.0)
    if not rate > 0:
        raise ValueError(
            "optimizer must have a positive learning rate in its first group, "
            f"got {rate or 'none'}: an update is measured in units of it"
        )
    again = 0.0
    slopes: Named = {name: torch.zeros_like(p) for name, p in params.items()}
    for weight, one in zip(weights.tolist(), whole, strict=True):
        with smooth():
            loss = scalar_loss(model, loss_fn, one)
            found = gradient(loss, params)
        again += weight * float(loss.detach())
        slopes = {name: g + weight * found[name] for name, g in slopes.items()}
    step = {name: d / rate for name, d in own_step(inner, params, slopes).items()}
    slope = sum(float((slopes[name].double() * d.double()).sum()) for name, d in step.items())
    return _Moved(step, rate), slope, again


def _checked(update: Mapping[str, torch.Tensor], params: Named) -> Named:
    for name, d in update.items():
        if name not in params or d.shape != params[name].shape:
            wanted = tuple(params[name].shape) if name in params else "no such trained parameter"
            raise ValueError(
                f"update must hold tensors shaped like the model's trained parameters by name, "
                f"got {name!r} of shape {tuple(d.shape)}: {wanted}"
            )
    if not any(bool(d.any()) for d in update.values()):
        raise ValueError("update must move something, got zeros")
    return {name: d.detach().to(params[name]) for name, d in update.items()}


def _same(losses: torch.Tensor, data: _Parts, again: float, dtype: torch.dtype) -> None:
    """Both passes saw the same samples at the same parameters."""
    once = _mean(losses, data)
    if not (math.isfinite(once) and math.isfinite(again)):
        raise ValueError(f"the loss must be finite at the model's parameters, got {once}, {again}")
    if abs(once - again) > SAME.get(dtype, 1e-2) * max(abs(once), abs(again)):
        raise ValueError(
            "loss_fn must give the same number twice, and the loss of a batch must be the mean "
            f"over its samples, got {once:.6g} from parts and {again:.6g} from the whole. Fix "
            "seeds inside loss_fn; pass groups=1 for a loss that mixes samples"
        )


@contextlib.contextmanager
def _put_back(step: Named, params: Named) -> Iterator[None]:
    """The parameters that are moved, as they were, whatever happens.

    Written through `.data`: a graph that the training loop holds stays good, since the numbers in
    it are the same again.
    """
    kept = {name: params[name].detach().clone() for name in step}
    try:
        yield
    finally:
        for name, value in kept.items():
            params[name].data.copy_(value)
        torch.clear_autocast_cache()


def _losses(model: nn.Module, loss_fn: LossFn[Any], parts: list[Any]) -> torch.Tensor:
    values = []
    for one in parts:
        loss = called(loss_fn, model, one)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            got = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise ValueError(f"loss_fn(model, batch) must return a scalar tensor, got {got}")
        values.append(loss.detach().reshape(()).double().cpu())
    return torch.stack(values)


class _Line:
    """The loss of every part, along θ + ηD."""

    def __init__(self, model: nn.Module, loss_fn: LossFn[Any], parts: list[Any]):
        self.model = model
        self.loss_fn = loss_fn
        self.parts = parts
        self.weights = _weights(parts)
        self.passes = 1  # the one that is not over the parts
        self.rises: dict[float, torch.Tensor] = {}

    def losses(self) -> torch.Tensor:
        self.passes += 1
        return _losses(self.model, self.loss_fn, self.parts)

    def root(
        self, params: Named, step: Named, before: torch.Tensor, begin: tuple[float, float | None]
    ) -> FirstCrossing:
        kept = {name: params[name].detach().clone() for name in step}

        def mean_rise(eta: float) -> float:
            for name, d in step.items():
                params[name].data.copy_(kept[name] + eta * d)
            torch.clear_autocast_cache()
            self.rises[eta] = self.losses() - before
            return float(self.rises[eta] @ self.weights) / eta

        rate, slope = begin
        return least_root(mean_rise, rate, slope, PASSES - self.passes, TOLERANCE)

    def error(self, root: FirstCrossing) -> float:
        """The standard error of the root over the parts; nan of one part."""
        if len(self.parts) < 2 or not math.isfinite(root.slope):
            return math.nan
        rise = self.rises[root.last] / root.last
        square = (self.weights * (rise - rise @ self.weights)).square().sum()
        return float(square * len(rise) / (len(rise) - 1)) ** 0.5 / abs(root.slope)


def _result(line: _Line, root: FirstCrossing, rate: float, rounding: float) -> UpdateSharpness:
    rises = [abs(float(rise @ line.weights)) for rise in line.rises.values()]
    lr = root.at
    reason = ""
    if rises and max(rises) <= 10 * rounding:
        reason = "the loss changed by no more than its rounding"
        lr = math.nan
    elif root.at == 0:
        reason = "the update does not lower the loss on this data"
    elif math.isinf(root.at):
        reason = f"the loss fell all the way to η = {root.largest:.3g}"
    value = 2 / lr if lr else math.inf
    error = math.nan if reason else 2 / lr**2 * line.error(root)
    return UpdateSharpness(
        *(value, lr, error, rate, root.largest, line.passes, len(line.parts)),
        *(root.converged and not reason, reason),
    )
