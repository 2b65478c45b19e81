"""Products with the Hessian of the mean loss on one batch."""

import numpy as np
import torch
from torch import nn

from .batches import B, LossFn
from .per_sample import LossModule
from .repeatable import check_repeatable, scalar_loss
from .undisturbed import Named, gradient, smooth, trainable


class Hessian:
    """`hessian @ v` for flat vectors v in the order of `model.named_parameters()`.

    Args:
        model: its trained parameters are the variables.
        loss_fn: the mean loss.
        batch: where.

    Attributes:
        size: how many parameters.
    """

    def __init__(self, model: nn.Module, loss_fn: LossFn[B], batch: B):
        check_repeatable(model, loss_fn, batch)
        self._loss = LossModule(model, loss_fn)
        self._batch = batch
        self.params: Named = trainable(model)
        self.size = sum(p.numel() for p in self.params.values())
        # The graph of the gradient is kept: each product is one more pass through it.
        with smooth():
            loss = scalar_loss(model, loss_fn, batch)
            self._gradient = gradient(loss, self.params, create_graph=True)

    def __matmul__(self, vector: torch.Tensor) -> torch.Tensor:
        return _product(self._gradient, self.params, self.parts(vector))

    def slope(self, vector: torch.Tensor) -> torch.Tensor:
        """The gradient of vᵀHv in θ: for random signs its mean is the gradient of the trace.

        By differences of products: torch's third derivatives of LayerNorm are wrong.
        """
        precision = torch.finfo(vector.dtype).eps ** (1 / 3)
        norm = sum(float(p.detach().square().sum()) for p in self.params.values()) ** 0.5
        h = precision * (norm or 1.0) / float(vector.norm())
        ahead, behind = (self._product_at(s * vector, vector) for s in (h, -h))
        return (ahead - behind) / (2 * h)

    def _product_at(self, shift: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        """H(θ + shift) times a vector; the model's own parameters are not touched."""
        moved: Named = {
            name: (p.detach() + s).requires_grad_()
            for (name, p), s in zip(self.params.items(), self.parts(shift), strict=True)
        }
        named = {f"model.{name}": p for name, p in moved.items()}
        with smooth():
            loss = torch.func.functional_call(self._loss, named, (self._batch,))
            slopes = gradient(loss, moved, create_graph=True)
        return _product(slopes, moved, self.parts(vector))

    def parts(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """A flat vector in the shapes of the parameters."""
        pieces = vector.split([p.numel() for p in self.params.values()])
        return [v.reshape(p.shape).to(p) for v, p in zip(pieces, self.params.values(), strict=True)]

    def like(self, values: np.ndarray) -> torch.Tensor:
        """Values of the host as a vector where the parameters are."""
        return torch.as_tensor(values).to(next(iter(self.params.values())))


def _product(slopes: Named, params: Named, parts: list[torch.Tensor]) -> torch.Tensor:
    """The gradient of gᵀv, flat."""
    # What the loss is linear in has a gradient without a graph and second derivatives 0.
    pairs = [(g, v) for g, v in zip(slopes.values(), parts, strict=True) if g.requires_grad]
    variables = list(params.values())
    if not pairs:
        return torch.cat([torch.zeros_like(p).reshape(-1) for p in variables])
    with smooth():
        try:
            products = torch.autograd.grad(
                *([g for g, _ in pairs], variables, [v for _, v in pairs]),
                retain_graph=True,
                allow_unused=True,
            )
        except RuntimeError as problem:
            raise ValueError(
                "model must be twice differentiable by autograd to measure its curvature, "
                f"got: {str(problem).splitlines()[0]:.160}"
            ) from problem
    blocks = zip(products, variables, strict=True)
    return torch.cat([(torch.zeros_like(p) if h is None else h).reshape(-1) for h, p in blocks])
