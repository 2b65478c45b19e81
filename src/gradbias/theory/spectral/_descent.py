"""Finite steps of gradient descent on a two-layer net: exact identities (§ C.1)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...numerics import checks
from .._problem import LeastSquares, force, layers_of, singular_basis
from .._units import LOSS, PARAMETER, PREDICTOR, TIME, homogeneous


class Step(NamedTuple):
    """One step of gradient descent: W1⁺ = W1 + lr·R W2ᵀ and W2⁺ = W2 + lr·W1ᵀ R."""

    W1: np.ndarray
    W2: np.ndarray


@homogeneous({"W1": PARAMETER, "W2": PARAMETER}, lr=TIME)
def gd_step(problem: LeastSquares, params: Mapping[str, Any], lr: float) -> Step:
    """The parameters after one step, both layers from the old ones.

    Args:
        problem: a Regression or a Population.
        params: {"W1": (d, width), "W2": (width, k)}.
        lr: the step size, above 0.
    """
    W1, W2, R, lr = _start(problem, params, lr)
    return Step(W1 + lr * (R @ W2.T), W2 + lr * (W1.T @ R))


@homogeneous(LOSS - PREDICTOR, lr=TIME)
def gd_force_step(problem: LeastSquares, params: Mapping[str, Any], lr: float) -> np.ndarray:
    r"""R = −∂L/∂β after one step, from the old layers alone.

    $R^+ = R - \eta A(MR + RN) - \eta^2 A\,R\beta^TR$ with A = 2·weight·XᵀX.

    Args:
        problem: a Regression or a Population.
        params: {"W1": (d, width), "W2": (width, k)}.
        lr: the step size η, above 0.
    """
    W1, W2, R, lr = _start(problem, params, lr)
    first = W1 @ (W1.T @ R) + (R @ W2.T) @ W2
    moved = lr * first + lr**2 * ((R @ W2.T) @ (W1.T @ R))
    view = singular_basis(problem)
    values = view.curvature
    basis = view.basis
    return R - (basis * values) @ (basis.T @ moved)


@homogeneous(2 * PARAMETER, lr=TIME)
def gd_imbalance_drift(problem: LeastSquares, params: Mapping[str, Any], lr: float) -> np.ndarray:
    r"""What one step adds to the imbalance $\Lambda = W_1^TW_1 - W_2W_2^T$.

    $\Lambda^+ - \Lambda = \eta^2(W_2R^TRW_2^T - W_1^TRR^TW_1)$, exactly and at any point: the terms
    of first order cancel, which is why gradient flow conserves Λ.

    Args:
        problem: a Regression or a Population.
        params: {"W1": (d, width), "W2": (width, k)}.
        lr: the step size η, above 0.

    Returns:
        (width, width).
    """
    W1, W2, R, lr = _start(problem, params, lr)
    back = R @ W2.T
    forth = W1.T @ R
    return lr**2 * (back.T @ back - forth @ forth.T)


def _start(
    problem: LeastSquares, params: Mapping[str, Any], lr: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    W1, W2 = layers_of(problem, params)
    return W1, W2, force(problem, W1 @ W2), checks.number("lr", lr, above=0)
