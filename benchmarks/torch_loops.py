"""The loop that gradbias is compared with: PyTorch, autograd, the best ordering of products.

The predictor θ is formed first, from its narrow end, and only then meets the data: several times
faster than data through the layers. Batches are drawn beforehand, which costs torch nothing. The
loop is the one that everybody writes, `loss.backward()` and `optimizer.step()`; the tuned loop
leaves out the optimiser and its bookkeeping.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import gradbias as gb
from gradbias.numerics import counter_rng

torch.set_num_threads(1)

Seen = tuple[torch.Tensor, torch.Tensor]


class TorchLoop:
    """Descent of weight·‖Xθ − Y‖² on what each step sees.

    Args:
        setup: what gradbias runs; params, learning rate and weight are its own.
        seen: X and Y of a step.
        weight: the factor in front of the sum of squares.
        tuned: without an optimiser.
    """

    def __init__(
        self, setup: gb.Setup, seen: Callable[[int], Seen], weight: float, tuned: bool = False
    ):
        self.setup, self.seen, self.weight, self.tuned = setup, seen, weight, tuned
        dynamics: Any = setup.dynamics
        self.lr, self.form = float(dynamics.lr), PREDICTORS[type(setup.net)]
        self.k = 0
        self.params = {name: _leaf(value) for name, value in setup.params.items()}
        self.optimiser = torch.optim.SGD(self.params.values(), lr=self.lr)

    def run(self, steps: int) -> None:
        """Take some steps."""
        for _ in range(steps):
            (self._tuned_step if self.tuned else self._step)()
            self.k += 1

    def path(self, steps: int) -> np.ndarray:
        """The predictor at the start and after each step."""
        thetas = [self.theta()]
        for _ in range(steps):
            self.run(1)
            thetas.append(self.theta())
        return np.stack(thetas)

    def theta(self) -> np.ndarray:
        """The predictor, in the shape that gradbias gives it."""
        with torch.no_grad():
            theta = self.form(self.params).numpy().copy()
        return theta[:, 0] if theta.ndim == 2 and self.setup.problem.vector else theta

    def _loss(self) -> torch.Tensor:
        X, Y = self.seen(self.k)
        return self.weight * (X @ self.form(self.params) - Y).square().sum()

    def _step(self) -> None:
        self.optimiser.zero_grad()
        self._loss().backward()
        self.optimiser.step()

    def _tuned_step(self) -> None:
        params = list(self.params.values())
        grads = torch.autograd.grad(self._loss(), params)
        with torch.no_grad():
            torch._foreach_add_(params, grads, alpha=-self.lr)


def full_batch(setup: gb.Setup, tuned: bool = False) -> TorchLoop:
    """Gradient descent."""
    X, Y = _data(setup)
    return TorchLoop(setup, lambda k: (X, Y), _weight(setup), tuned)


def minibatch(setup: gb.Setup, tuned: bool = False, steps: int = 1000) -> TorchLoop:
    """SGD on the batches, and the label noise, that gradbias draws; from `steps` on they repeat."""
    X, Y = _data(setup)
    noise, key = _noise(setup), counter_rng.seed(setup.key)
    batches = [noise.batch(setup.problem, key, k) for k in range(steps)]
    rows = [torch.tensor(batch.indices) for batch in batches]
    if batches[0].label_noise is None:
        seen = lambda k: (X[rows[k % steps]], Y[rows[k % steps]])  # noqa: E731
    else:
        added = [torch.tensor(np.reshape(b.label_noise, (-1, *Y.shape[1:]))) for b in batches]
        seen = lambda k: (X[rows[k % steps]], Y[rows[k % steps]] + added[k % steps])  # noqa: E731
    weight = _weight(setup) * len(X) / len(rows[0])
    return TorchLoop(setup, seen, weight, tuned)


def fresh(setup: gb.Setup, drawn_by_torch: bool, tuned: bool = False) -> TorchLoop:
    """SGD on samples that are new at every step, torch's own or those that gradbias draws."""
    problem: Any = setup.problem
    noise, key = _noise(setup), counter_rng.seed(setup.key)
    size, (inputs, outputs) = noise.batch_size, problem.latent
    root, root_eps = torch.tensor(problem.root), torch.tensor(problem.root_eps)
    theta_star = torch.tensor(np.ascontiguousarray(problem.theta_star))

    def own(k: int) -> Seen:
        x = torch.randn(size, inputs, dtype=torch.float64) @ root
        return x, x @ theta_star + torch.randn(size, outputs, dtype=torch.float64) @ root_eps

    def theirs(k: int) -> Seen:
        batch = noise.batch(problem, key, k)
        return torch.tensor(batch.x), torch.tensor(batch.y)

    seen = own if drawn_by_torch else theirs
    return TorchLoop(setup, seen, float(problem.weight) / size, tuned)


def _chain(params: dict[str, torch.Tensor]) -> torch.Tensor:
    layers = [params[f"W{i}"] for i in range(1, len(params) + 1)]
    theta = layers.pop()
    while layers:
        theta = layers.pop() @ theta
    return theta


def _rank1(params: dict[str, torch.Tensor]) -> torch.Tensor:
    return (params["u"] * params["v"]).sum(1).prod() * params["v1"]


def _diagonal(params: dict[str, torch.Tensor]) -> torch.Tensor:
    return params["u"].square() - params["v"].square()


PREDICTORS: dict[type, Callable[[dict[str, torch.Tensor]], torch.Tensor]] = {
    gb.Rank1: _rank1,
    gb.Deep: _chain,
    gb.TwoLayer: _chain,
    gb.Diagonal: _diagonal,
}


def _data(setup: gb.Setup) -> Seen:
    """X and Y; one label a row is a vector where the predictor is one."""
    problem: Any = setup.problem
    chain = not isinstance(setup.net, (gb.Rank1, gb.Diagonal))
    labels = problem.labels if chain else problem.labels[:, 0]
    return torch.tensor(problem.X), torch.tensor(np.ascontiguousarray(labels))


def _noise(setup: gb.Setup) -> Any:
    return setup.dynamics.noise  # pyright: ignore[reportAttributeAccessIssue]


def _weight(setup: gb.Setup) -> float:
    return float(setup.problem.weight)  # pyright: ignore[reportAttributeAccessIssue]


def _leaf(value: np.ndarray) -> torch.Tensor:
    return torch.tensor(value).requires_grad_()
