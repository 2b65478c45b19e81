"""Which rows a step sees, and the moments of that."""

import numpy as np

from ..numerics.counter_rng import integers, subset
from ..numerics.types import Array, Integer
from ..problems import Classification, Problem


def is_flag(name: str, value: object) -> bool:
    """`value` if it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r:.80}")
    return value


def check_batch(problem: Problem, b: int, replace: bool) -> None:
    """Refuse more different rows than there are."""
    n = getattr(problem, "n", None)
    if n is not None and b > n and not replace:
        raise ValueError(
            f"batch_size must be at most the {n} samples to draw without replacement, got {b}: "
            "make it smaller, or set replace=True"
        )


def refuse_classes(problem: Problem, what: str) -> None:
    """Refuse noise on labels that are classes."""
    if isinstance(problem, Classification):
        raise ValueError(
            f"noise: {what} adds numbers to labels, and those of Classification are classes; "
            "gb.Minibatch(batch_size) draws samples, and labels can be flipped in the data"
        )


def rows(key: Integer, n: int, b: int, replace: bool) -> Array:
    """(b,) row numbers."""
    return integers(key, n, b) if replace else subset(key, n, b)


def hits(indices: Array, n: int) -> Array:
    """(n, b): 1.0 where a row was drawn."""
    return (indices[None, :] == np.arange(n)[:, None]).astype(np.float64)


def weight_variance(n: int, b: int, replace: bool) -> float:
    """The number a of Cov(w) = a·(I − 11ᵀ/n); w is n/b times how often a row is drawn.

    Without replacement a is smaller by the finite population factor (n − b)/(n − 1).
    """
    return n / b if replace or n == 1 else n / b * (n - b) / (n - 1)


def centred(n: int, a: float) -> np.ndarray:
    """The matrix a·(I − 11ᵀ/n)."""
    return a * (np.eye(n) - 1 / n)
