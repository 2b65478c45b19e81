"""The manifold of minimisers of a diagonal net, and the slow motion on it."""

import numpy as np

from ...numerics import checks
from ...numerics.linalg import thin_svd
from ...problems import Regression
from .._problem import LeastSquares, Params
from .._units import INPUT, PARAMETER, RATE, TIME, homogeneous
from ._fits import decay_rates, fits, halves, samples


@homogeneous(2 * (INPUT + PARAMETER))
def tangent_kernel(problem: Regression, params: Params) -> np.ndarray:
    """K_ij = ⟨∇f_i, ∇f_j⟩ = 4·X diag(u² + v²) Xᵀ, (n, n).

    Of full rank if and only if the ∇f_i are linearly independent (Lemma D.1).
    """
    X, _, _ = samples(problem)
    u, v = halves(problem.d, params)
    return 4 * (X * (np.square(u) + np.square(v))) @ X.T


def manifold_dimension(problem: LeastSquares, params: Params) -> int:
    """2d − rank of the outputs' Jacobian at (u, v): 2d − rank X where no entry is zero (Lemma 6.2).

    Measured on the row space and by directions, so that neither the conditioning of X nor the
    sizes of u and v count: a coordinate is there, or both its halves are zero.
    """
    V = fits(problem).V
    u, v = halves(problem.d, params)
    return 2 * problem.d - thin_svd(V[(u != 0) | (v != 0)]).rank


@homogeneous(RATE)
def hessian(problem: Regression, params: Params) -> np.ndarray:
    """The Hessian of the loss in (u, v), (2d, 2d).

    On the manifold it is 8·weight·Σ_i (x_i∘u, −x_i∘v)(·)ᵀ, Eq (35); off it, and off the
    least-squares fits, the term 2·diag(g, −g) with g the gradient in θ comes on top.
    """
    X, y, weight = samples(problem)
    u, v = halves(problem.d, params)
    J = np.hstack([X * u, -X * v])
    g = 2 * weight * (X.T @ (X @ ((u - v) * (u + v)) - y))
    return 8 * weight * (J.T @ J) + np.diag(2 * np.concatenate([g, -g]))


@homogeneous(RATE)
def regulariser(problem: Regression, params: Params) -> float:
    """R = tr H = Σ s_j(u_j² + v_j²), Eq (16): what label noise makes smaller on the manifold."""
    rates = decay_rates(problem)
    u, v = halves(problem.d, params)
    return float(rates @ (np.square(u) + np.square(v)))


@homogeneous(RATE - PARAMETER)
def projected_gradient(problem: Regression, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """F = the shortest of ∇R + Σλ_i∇f_i, over λ: Lemma D.10, (d,) in u and (d,) in v.

    On the manifold it is P∇R; it is orthogonal to every ∇f_i everywhere, also at the boundary
    where entries are zero. F = 0 only where every u_j v_j = 0, for columns of X that are not zero
    (Lemma D.11).
    """
    rates = decay_rates(problem)
    V = fits(problem).V
    u, v = halves(problem.d, params)
    root = np.hypot(u, v)
    at_rest = root == 0
    # F = 2(u∘(s + a), v∘(s − a)) with a = Vλ: least squares with the weights u² + v².
    pull = rates * (u - v) * (u + v) / np.where(at_rest, 1.0, root)
    multipliers = np.linalg.lstsq(root[:, None] * V, -pull)[0] if V.size else np.zeros(0)
    a = V @ multipliers
    return 2 * u * (rates + a), 2 * v * (rates - a)


@homogeneous(PARAMETER - 2 * TIME, c=2 * PARAMETER - TIME)
def limiting_field(problem: Regression, params: Params, c: float) -> tuple[np.ndarray, np.ndarray]:
    """The right-hand side of the limiting flow, Eq (17): −(c/4)·F; see `limiting_flow` for c."""
    c = checks.number("c", c, at_least=0)
    du, dv = projected_gradient(problem, params)
    return -c / 4 * du, -c / 4 * dv
