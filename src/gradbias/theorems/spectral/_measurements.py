"""What is read from a run: the layers and the predictor at every save, and their velocities."""

from typing import Any, NamedTuple

import numpy as np

from ..._engine.run import Run
from .._claims import Measured
from .._shared_measurements import limit


class Path(NamedTuple):
    """The layers at every save, and the predictor (saves, d, k)."""

    W1: np.ndarray
    W2: np.ndarray

    @property
    def beta(self) -> np.ndarray:
        return self.W1 @ self.W2


class Motion(NamedTuple):
    """Velocities of the layers by the chain rule, without any of the theorems."""

    W1: np.ndarray
    W2: np.ndarray
    beta: np.ndarray


def path(run: Run) -> Path:
    """The layers at every save; after a stop, those of the end."""
    final: Any = run.final
    layers = [_filled(run.data[f"params_{name}"].values, final[name]) for name in ("W1", "W2")]
    return Path(*layers)


def _filled(values: np.ndarray, last: np.ndarray) -> np.ndarray:
    after = ~np.isfinite(values).all(axis=(1, 2), keepdims=True)
    return np.where(after, np.asarray(last), values)


def betas(run: Run) -> np.ndarray:
    """The recorded predictor (saves, d, k); after a stop, that of the end."""
    setup: Any = run.setup
    shape = (-1, setup.problem.d, setup.problem.k)
    last: Any = run.theta
    return _filled(run.data["theta"].values.reshape(shape), np.reshape(last, shape)[0])


def forces(run: Run, beta: np.ndarray) -> np.ndarray:
    """R = −∂L/∂β along a path."""
    setup: Any = run.setup
    return -np.stack([np.asarray(setup.problem.gradient(b)) for b in beta])


def motion(run: Run) -> Motion:
    """W1' = R W2ᵀ and W2' = W1ᵀ R at every save."""
    W1, W2 = path(run)
    R = forces(run, W1 @ W2)
    first, second = R @ transposed(W2), transposed(W1) @ R
    return Motion(first, second, first @ W2 + W1 @ second)


def imbalance(W1: np.ndarray, W2: np.ndarray) -> np.ndarray:
    """Λ = W1ᵀW1 − W2W2ᵀ."""
    return transposed(W1) @ W1 - W2 @ transposed(W2)


def transposed(array: np.ndarray) -> np.ndarray:
    """The last two axes swapped."""
    return np.swapaxes(array, -1, -2)


def svdvals(array: np.ndarray) -> np.ndarray:
    """Singular values of a stack of matrices."""
    return np.linalg.svd(array, compute_uv=False)


def duals(layers: Path) -> np.ndarray:
    """α = (W1⁺)ᵀ W2."""
    gram = layers.W1 @ transposed(layers.W1)
    return np.linalg.solve(gram, layers.beta)


def misfit(run: Run) -> float:
    """How far the predictor is from its limit because the run has not finished."""
    return float(limit(run).error)


def ended(run: Run, value: Any, slope: float) -> Measured:
    """A function of the end: `slope` times the misfit is its own error."""
    return Measured(np.asarray(value, dtype=np.float64), slope * misfit(run))
