"""What is read from a run: the layers and the predictor at every save, and their velocities."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..._engine.run import Run
from ..prelude import Measured, limit, setup_of


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
    W1, W2 = (_filled(run.data[f"params_{n}"].values, run.final[n]) for n in ("W1", "W2"))
    return Path(W1, W2)


def _filled(values: np.ndarray, last: np.ndarray) -> np.ndarray:
    after = ~np.isfinite(values).all(axis=(1, 2), keepdims=True)
    return np.where(after, np.asarray(last), values)


def betas(run: Run) -> np.ndarray:
    """The recorded predictor (saves, d, k); after a stop, that of the end."""
    problem = setup_of(run).problem
    shape = (-1, problem.d, problem.k)
    return _filled(run.data["theta"].values.reshape(shape), np.reshape(end_of(run), shape)[0])


def end_of(run: Run) -> np.ndarray:
    """The predictor where a run ended."""
    assert run.theta is not None
    return run.theta


def forces(run: Run, beta: np.ndarray) -> np.ndarray:
    """R = −∂L/∂β along a path."""
    problem = setup_of(run).problem
    return -np.stack([np.asarray(problem.gradient(b)) for b in beta])


def motion(run: Run) -> Motion:
    """W1' = R W2ᵀ and W2' = W1ᵀ R at every save."""
    W1, W2 = path(run)
    R = forces(run, W1 @ W2)
    first = R @ transposed(W2)
    second = transposed(W1) @ R
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


def ended(run: Run, value: ArrayLike, slope: float) -> Measured:
    """A function of the end: `slope` times the misfit is its own error."""
    return Measured(np.asarray(value, dtype=np.float64), slope * misfit(run))
