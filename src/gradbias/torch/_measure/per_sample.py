"""Gradients of single samples, a few at a time: the deviations that gradient noise is made of."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .batches import B, LossFn, mapped, part, size
from .repeatable import scalar_loss
from .undisturbed import Named, gradient, precise

MEMORY = 256 * 2**20  # bytes for gradients of single samples at a time


class LossModule(nn.Module):
    """`loss_fn(model, batch)` as a module, so that functional_call can replace parameters."""

    def __init__(self, model: nn.Module, loss_fn: LossFn[Any]):
        super().__init__()
        self.model = model
        self.loss_fn: LossFn[Any] = loss_fn
        self.training = model.training  # never changes the model's own mode

    def forward(self, batch: object) -> torch.Tensor:
        """The loss of a batch."""
        return self.loss_fn(self.model, batch).reshape(())


def chunk_size(params: Named, n: int, memory: float) -> int:
    """How many samples' gradients fit into `memory` bytes, at least one.

    vmap keeps the gradient and about two temporaries of its size for every sample.
    """
    one = 3 * sum(p.numel() * p.element_size() for p in params.values())
    return int(max(1, min(n, memory // max(one, 1))))


def by_vmap(
    model: nn.Module, loss_fn: LossFn[B], batch: B, params: Named, memory: float = MEMORY
) -> Iterator[Named]:
    """Per-sample gradients in chunks, every tensor with the samples along its first axis."""
    fixed = {f"model.{name}": p.detach() for name, p in params.items()}
    wrapped = LossModule(model, loss_fn)
    # The others too, or every gradient would carry their graph.
    rest = {f"model.{name}": p.detach() for name, p in model.named_parameters()}

    def loss_of_one(chosen: Named, sample: B) -> torch.Tensor:
        one = mapped(lambda t: t.unsqueeze(0), sample)
        return torch.func.functional_call(wrapped, {**rest, **chosen}, (one,))

    per_sample = torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0))
    n = size(batch)
    step = chunk_size(params, n, memory)
    for start in range(0, n, step):
        gradients = per_sample(fixed, part(batch, start, min(start + step, n)))
        yield {name: gradients[f"model.{name}"] for name in params}


def by_groups(
    model: nn.Module, loss_fn: LossFn[B], batch: B, params: Named, groups: int
) -> Iterator[Named]:
    """Mean gradients of equal groups of samples, one after the other.

    Works for any loss: it needs no vmap, only the loss of a smaller batch.
    """
    n = size(batch)
    each = n // groups
    for k in range(groups):
        loss = scalar_loss(model, loss_fn, part(batch, k * each, (k + 1) * each))
        yield {name: g.detach() for name, g in gradient(loss, params).items()}


class LinearTrace:
    """Inputs and output gradients of Linear layers: all that their per-sample gradients need.

    For a layer that sees every sample once, sample i's gradient of the weight is δᵢaᵢᵀ. With
    weights shared over positions or tokens it is a sum of such terms, and this does not apply.

    Args:
        model: where the layers are.
        names: the parameters that are asked for.

    Attributes:
        activations: (n, inputs) by layer name.
        deltas: (n, outputs) by layer name, n times the gradient of the mean loss.
    """

    def __init__(self, model: nn.Module, names: set[str]):
        layers = {name for name, module in model.named_modules() if type(module) is nn.Linear}
        owners = {name.rpartition(".")[0] for name in names}
        self.applies = owners <= layers and not _shared(model, names)
        self.layers = sorted(owners) if self.applies else []
        self.activations: dict[str, torch.Tensor] = {}
        self.deltas: dict[str, torch.Tensor] = {}
        self._model = model

    def run(self, loss_fn: LossFn[B], batch: B, mean: Named) -> bool:
        """One forward and backward pass; False where the shortcut turns out not to apply.

        Args:
            loss_fn: the mean loss.
            batch: n samples.
            mean: the gradient of the mean loss, which the layers' own must reproduce.
        """
        if not self.applies:
            return False
        n = size(batch)
        outputs = {}
        modules = dict(self._model.named_modules())

        def hook(name: str):
            def keep(_module: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> None:
                if name in outputs or args[0].ndim != 2 or args[0].shape[0] != n:
                    self.applies = False  # used twice, or shared over positions
                self.activations[name] = args[0].detach()
                outputs[name] = output

            return keep

        handles = [modules[name].register_forward_hook(hook(name)) for name in self.layers]
        try:
            loss = scalar_loss(self._model, loss_fn, batch)
        finally:
            for handle in handles:
                handle.remove()
        if not self.applies or set(outputs) != set(self.layers):
            return False
        deltas = torch.autograd.grad(loss, list(outputs.values()), allow_unused=True)
        for (name, output), delta in zip(outputs.items(), deltas, strict=True):
            self.deltas[name] = n * (torch.zeros_like(output) if delta is None else delta)
        return self._reproduces(mean, n)

    def _reproduces(self, mean: Named, n: int) -> bool:
        """A weight that is also used elsewhere has a gradient that the layer does not see."""
        for name in self.layers:
            delta = self.deltas[name]
            inputs = self.activations[name]
            weight = precise(delta).T @ precise(inputs) / n
            wanted = precise(mean.get(f"{name}.weight", weight))
            scale = float(wanted.abs().max()) or 1.0
            rounding = max(
                1e-4, 4 * torch.finfo(delta.dtype).eps
            )  # under autocast it is that of halves
            if float((weight - wanted).abs().max()) > rounding * scale:
                return False
        return True

    def group(self, chosen: slice, mean: Named) -> Named:
        """The mean over some samples of the squared deviation from `mean`, by parameter."""
        squares: Named = {}
        for name in self.layers:
            delta = precise(self.deltas[name][chosen])  # squares minus squares: needs the digits
            a = precise(self.activations[name][chosen])
            for end, inputs in (("weight", a), ("bias", torch.ones_like(a[:, :1]))):
                full = f"{name}.{end}"
                if full in mean:
                    centre = precise(mean[full]).reshape(delta.shape[1], -1)
                    second = delta.square().T @ inputs.square() - 2 * centre * (delta.T @ inputs)
                    squares[full] = (second / len(delta) + centre.square()).reshape_as(mean[full])
        return squares


def _shared(model: nn.Module, names: set[str]) -> bool:
    """Does one of the parameters have a second name?"""
    uses: dict[int, int] = {}
    for _, p in model.named_parameters(remove_duplicate=False):
        uses[id(p)] = uses.get(id(p), 0) + 1
    return any(uses[id(p)] > 1 for name, p in model.named_parameters() if name in names)
