"""The rival in PyTorch that has no loop over members: all of them in one tensor."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import gradbias as gb

from .draws import batches, dynamics_of
from .plain_jax import data_of

Seen = tuple[torch.Tensor, torch.Tensor]


class BatchedTorch:
    """Descent of weight·‖Xθ − Y‖² for several members at once, by autograd.

    The sum of the members' losses has every member's own slope. The predictors are formed first,
    from their narrow ends; the update is one fused call and there is no optimiser to keep.

    Args:
        setups: what gradbias runs, a member each; one data set and learning rate for all.
        seen: X and Y of a step, with an axis of members in front or none.
        weight: the factor in front of the sum of squares.
    """

    def __init__(self, setups: Sequence[gb.Setup], seen: Callable[[int], Seen], weight: float):
        self.form = FORMS[type(setups[0].net)]
        self.seen, self.weight, self.k = seen, weight, 0
        self.lr = float(dynamics_of(setups[0]).lr)
        self.vector = setups[0].problem.vector
        self.recorded: list[np.ndarray] = []
        self.params = {
            name: torch.tensor(np.stack([s.params[name] for s in setups])).requires_grad_()
            for name in setups[0].params
        }

    def run(self, steps: int, saves: int | None = None) -> None:
        """Take some steps with every member; a save every hundred steps."""
        params = list(self.params.values())
        every = 100 if saves is None else max(1, steps // saves)
        self.recorded = []
        for step in range(1, steps + 1):
            X, Y = self.seen(self.k)
            theta = self.form(self.params)
            loss = self.weight * (torch.matmul(X, theta) - Y).square().sum()
            slopes = torch.autograd.grad(loss, params)
            with torch.no_grad():
                torch._foreach_add_(params, slopes, alpha=-self.lr)
            self.k += 1
            if step % every == 0:
                self.recorded.append(self.thetas())

    def path(self, steps: int) -> np.ndarray:
        """The predictors of all members, at the start and after each step."""
        thetas = [self.thetas()]
        for _ in range(steps):
            self.run(1)
            thetas.append(self.thetas())
        return np.stack(thetas, axis=1)

    def thetas(self) -> np.ndarray:
        """The predictors, in the shape that gradbias gives them."""
        with torch.no_grad():
            thetas = self.form(self.params).numpy().copy()
        return thetas[..., 0] if self.vector else thetas


def full_batch(setups: Sequence[gb.Setup]) -> BatchedTorch:
    """Gradient descent."""
    X, Y = data_of(setups[0])
    labels = torch.tensor(Y.reshape(len(Y), -1))
    inputs = torch.tensor(X)
    return BatchedTorch(setups, lambda k: (inputs, labels), _weight(setups[0]))


def minibatch(setups: Sequence[gb.Setup], steps: int = 200) -> BatchedTorch:
    """SGD on the batches, and the label noise, that gradbias draws; from `steps` on they repeat."""
    inputs, outputs = data_of(setups[0])
    X = torch.tensor(inputs)
    Y = torch.tensor(outputs.reshape(len(outputs), -1))
    drawn, noise = batches(setups, steps)
    rows = [torch.tensor(drawn[:, k]) for k in range(steps)]
    added = None if noise is None else torch.tensor(noise.reshape(*drawn.shape, -1))

    def seen(k: int) -> Seen:
        labels = Y[rows[k % steps]]
        return X[rows[k % steps]], labels if added is None else labels + added[:, k % steps]

    return BatchedTorch(setups, seen, _weight(setups[0]) * len(X) / drawn.shape[-1])


def _weight(setup: gb.Setup) -> float:
    return float(setup.problem.weight)  # pyright: ignore[reportAttributeAccessIssue]


def _chain(params: dict[str, torch.Tensor]) -> torch.Tensor:
    layers = [params[f"W{i}"] for i in range(1, len(params) + 1)]
    theta = layers.pop()
    while layers:
        theta = torch.bmm(layers.pop(), theta)
    return theta


def _rank1(params: dict[str, torch.Tensor]) -> torch.Tensor:
    factors = (params["u"] * params["v"]).sum(-1).prod(-1)
    return (factors[:, None] * params["v1"])[..., None]


def _diagonal(params: dict[str, torch.Tensor]) -> torch.Tensor:
    return (params["u"].square() - params["v"].square())[..., None]


FORMS: dict[type, Callable[[dict[str, Any]], torch.Tensor]] = {
    gb.Rank1: _rank1,
    gb.Deep: _chain,
    gb.TwoLayer: _chain,
    gb.Diagonal: _diagonal,
}
