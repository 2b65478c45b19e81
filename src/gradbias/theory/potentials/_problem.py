"""What the theory of limits asks of a problem: its row space, its curvature, its target."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...problems import Population, Regression

Problem = Regression | Population


class Seen(NamedTuple):
    """A one-output problem in the singular basis of its data: ∇L = Λ(θ − θ*) there.

    Attributes:
        basis: (d, r).
        curvature: (r,), the diagonal of Λ, all positive.
        target: (r,), the minimiser of least norm.
    """

    basis: np.ndarray
    curvature: np.ndarray
    target: np.ndarray


def squared_loss(problem: Any) -> None:
    """Refuse what is not a least-squares problem."""
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem must be a Regression or a Population, got {type(problem).__name__}"
        )


def one_output(problem: Any, what: str) -> None:
    """Refuse what is not a least-squares problem with a single output."""
    squared_loss(problem)
    if problem.k != 1:
        raise ValueError(f"problem must have one output (k = 1) for {what}, got k = {problem.k}")


def seen(problem: Problem) -> Seen:
    """The singular basis, curvatures and target of a one-output problem."""
    s, basis = problem.svd.s, problem.row_space
    squares = s * s if isinstance(problem, Regression) else s
    target = basis.T @ np.reshape(problem.min_norm, problem.d)
    return Seen(basis, 2 * float(problem.weight) * squares, target)


def predictor(name: str, theta: ArrayLike, problem: Problem) -> np.ndarray:
    """A one-output predictor given by the user, as a vector (d,)."""
    vector = checks.array(name, theta, ndim=(1, 2))
    if vector.shape not in ((problem.d,), (problem.d, 1)):
        raise ValueError(
            f"{name} must have shape ({problem.d},) or ({problem.d}, 1), got {vector.shape}"
        )
    return vector.reshape(problem.d)


def split(basis: np.ndarray, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The coordinates of a vector in the row space, and the part outside of it."""
    inside = basis.T @ vector
    outside = vector - basis @ inside
    return inside, outside - basis @ (basis.T @ outside)  # once leaves rounding inside


def layers(depth: Any, finite: bool = False) -> float:
    """The number of factors: a whole number of at least 1 or, unless refused, infinity."""
    if not finite and isinstance(depth, (float, np.floating)) and depth == float("inf"):
        return float("inf")
    return float(checks.integer("depth", depth, at_least=1))
