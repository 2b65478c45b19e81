"""Evidence for the errata: printed and corrected forms on random matrices, or a small ODE."""

import math
from typing import NamedTuple

import numpy as np
import scipy.integrate

from ...problems import Regression
from ...theory.potentials import singular_value_potential
from ...theory.spectral import (
    alpha_of,
    beta_of,
    beta_velocity,
    limit_gram,
    product_velocity,
)
from ...theory.spectral.printed import (
    printed_beta_of,
    printed_singular_value_gradient,
)
from ..prelude import Evidence
from . import _instances as cases

TINY = 1e-15


def compared(true: np.ndarray, printed: np.ndarray, corrected: np.ndarray) -> Evidence:
    size = np.linalg.norm(true)
    return Evidence(
        float(np.linalg.norm(printed - true) / size),
        float(np.linalg.norm(corrected - true) / size),
    )


class Drawn(NamedTuple):
    """A predictor, its dual, a force and a γ."""

    beta: np.ndarray
    alpha: np.ndarray
    R: np.ndarray
    gamma: float


def _drawn(key: int, k: int = cases.K) -> Drawn:
    rng = cases.draws(key + 7)
    beta = rng.standard_normal((cases.D, k))
    gamma = float(rng.uniform(0.1, 0.35))
    return Drawn(beta, alpha_of(beta, gamma), rng.standard_normal((cases.D, k)), gamma)


def start_of_z(key: int) -> Evidence:
    """W1 at time 1 by the flow of both layers, against Z1·P from the two starts."""
    problem = cases.regression(key, like=cases.SIZES[0])
    gamma = cases.draw_gamma(key)
    P = cases.frame(cases.draws(key + 2), cases.WIDTH, cases.D).T
    true = _flowed(problem, np.sqrt(2 * gamma) * P)[0]
    starts = np.eye(cases.D), np.sqrt(2 * gamma) * np.eye(cases.D)
    printed, corrected = (_flowed(problem, z)[0] @ P for z in starts)
    return compared(true, printed, corrected)


def _flowed(
    problem: Regression, W1: np.ndarray, time: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Both layers after this time, from a second layer of zeros."""
    shape = W1.shape
    k = problem.k

    def field(_t, y):
        first = y[: W1.size].reshape(shape)
        second = y[W1.size :].reshape(shape[1], k)
        R = -problem.gradient(first @ second)
        return np.concatenate([(R @ second.T).ravel(), (first.T @ R).ravel()])

    start = np.concatenate([W1.ravel(), np.zeros(shape[1] * k)])
    solution = scipy.integrate.solve_ivp(field, (0, time), start, "DOP853", rtol=1e-9, atol=1e-11)
    end = solution.y[:, -1]
    return end[: W1.size].reshape(shape), end[W1.size :].reshape(shape[1], k)


def predictor_of_dual(key: int) -> Evidence:
    """β from α, without and with 2γ."""
    d = _drawn(key)
    return compared(d.beta, printed_beta_of(d.alpha), beta_of(d.alpha, d.gamma))


def woodbury(key: int) -> Evidence:
    """The inverse of I − ααᵀ with either sign."""
    alpha = _drawn(key).alpha
    true = np.linalg.inv(np.eye(cases.D) - alpha @ alpha.T)
    term = alpha @ np.linalg.inv(np.eye(cases.K) - alpha.T @ alpha) @ alpha.T
    return compared(true, np.eye(cases.D) - term, np.eye(cases.D) + term)


def mirror_gradient(key: int) -> Evidence:
    """∇Ψ against the integral of dσ/(2√(σ² + γ²)), which Theorem 3.2a needs it to be."""
    sigma, gamma, true = _dual_of_sigma(key)
    printed = printed_singular_value_gradient(sigma, gamma)
    return compared(true, printed, singular_value_potential(gamma).gradient(sigma))


def mirror_gradient_without_half(key: int) -> Evidence:
    """The same for asinh(σ/γ)."""
    sigma, gamma, true = _dual_of_sigma(key)
    corrected = singular_value_potential(gamma).gradient(sigma)
    return compared(true, np.arcsinh(sigma / gamma), corrected)


def _dual_of_sigma(key: int) -> tuple[np.ndarray, float, np.ndarray]:
    drawn = _drawn(key)
    sigma = np.linalg.svd(drawn.beta, compute_uv=False)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    grid = np.multiply.outer(sigma, (nodes + 1) / 2)
    rate = 1 / (2 * np.hypot(grid, drawn.gamma))
    return sigma, drawn.gamma, sigma / 2 * (rate @ weights)


def velocity_of_z(key: int) -> Evidence:
    """Ż1 = r W2ᵀ with W2 = Z1ᵀα, at time ½ of a flow."""
    Z1, Z2, r = _one_output_flow(key)
    alpha = np.linalg.solve(Z1.T, Z2)
    return compared(r @ Z2.T, Z1 @ alpha @ r.T, r @ alpha.T @ Z1)


def velocity_of_beta(key: int) -> Evidence:
    """β̇ = Ż1 Z2 + Z1 Ż2 for one output, at time ½ of a flow."""
    Z1, Z2, r = _one_output_flow(key)
    alpha = np.linalg.solve(Z1.T, Z2)
    true = r @ (Z2.T @ Z2) + Z1 @ (Z1.T @ r)
    forms = [G @ r + (alpha.T @ G @ alpha) * r for G in (Z1.T @ Z1, Z1 @ Z1.T)]
    return compared(true, *forms)


def _one_output_flow(key: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Z1, Z2 and r at time ½, from Z1 = √(2γ)I."""
    problem = cases.regression(key, k=1, like=cases.SIZES[0])
    gamma = cases.draw_gamma(key)
    Z1, Z2 = _flowed(problem, np.sqrt(2 * gamma) * np.eye(cases.D), time=0.5)
    return Z1, Z2, -np.asarray(problem.gradient(Z1 @ Z2))


def uneven_imbalance(key: int) -> Evidence:
    """∇Ψ1 = Z1⁻ᵀZ2Z2ᵀ where Z1ᵀZ1 − Z2Z2ᵀ is diagonal, by both products."""
    rng = cases.draws(key + 13)
    Z2 = rng.standard_normal((cases.D, cases.K))
    D = np.diag(rng.uniform(0.2, 2.0, size=cases.D))
    Z1 = cases.frame(rng, cases.D, cases.D) @ np.linalg.cholesky(Z2 @ Z2.T + D).T
    inverse = np.linalg.inv(Z1).T
    return compared(inverse @ Z2 @ Z2.T, Z1 - D @ inverse, Z1 - inverse @ D)


def growth_of_psi(key: int) -> Evidence:
    """The growth of Ψ in ln(1/γ), between two tiny γ, against one and one half of ‖β‖_*."""
    sigma = np.linalg.svd(_drawn(key).beta, compute_uv=False)
    small, tiny = (singular_value_potential(gamma).value(sigma) for gamma in (1e-100, 1e-200))
    true = np.array([(tiny - small) / np.log(1e100)])
    return compared(true, np.array([sigma.sum()]), np.array([sigma.sum() / 2]))


def force_rises(key: int) -> Evidence:
    """A = diag(1, 400), β* = (20, 1), γ = 0.01: tr RᵀR rises between two times; L does not."""
    rng = cases.draws(key + 9)
    turn = cases.frame(rng, 2, 2)  # the counter-example in random coordinates
    X = np.diag([1.0, 20.0]) @ turn
    beta = turn.T @ np.array([20.0, 1.0])
    problem = Regression.half_sum(X, X @ beta)
    gamma = 0.01
    rate = 0.01
    times = (0.0139, 0.0401)
    solution = scipy.integrate.solve_ivp(
        lambda _t, y: beta_velocity(problem, y, gamma),
        (0, times[1]),
        np.zeros(2),
        "DOP853",
        times,
        rtol=1e-9,
        atol=1e-11,
    )
    squares = [float(np.sum(problem.gradient(b) ** 2)) for b in solution.y.T]
    losses = [float(problem.loss(b)) for b in solution.y.T]
    spent = times[1] - times[0]
    return Evidence(
        squares[1] / (squares[0] * math.exp(-2 * rate * spent)),
        losses[1] / (losses[0] * math.exp(-4 * rate * spent)),
    )


def product_rate(key: int) -> Evidence:
    """The velocity of C = Rᵀα on whitened data, with +C and with +2γC."""
    d = _drawn(key)
    true = _true_product_rate(key)
    C = d.R.T @ d.alpha
    corrected = product_velocity(d.alpha, d.R, d.gamma)
    return compared(true, corrected - 2 * d.gamma * C + C, corrected)


def _true_product_rate(key: int) -> np.ndarray:
    """R'ᵀα + Rᵀα' with R' = −β' and α' = R − αRᵀα."""
    d = _drawn(key)
    M, N = limit_gram(d.beta, d.gamma)
    turned = d.R - d.alpha @ (d.R.T @ d.alpha)
    return -(M @ d.R + d.R @ N).T @ d.alpha + d.R.T @ turned


def antisymmetric_rate(key: int) -> Evidence:
    """The velocity of C − Cᵀ as a commutator and as an anti-commutator."""
    d = _drawn(key)
    rate = _true_product_rate(key)
    C = d.R.T @ d.alpha
    one = np.eye(cases.K)
    G = np.linalg.inv(one - d.alpha.T @ d.alpha)
    S = C - C.T
    first = (one - C - C.T) / 2 - 2 * d.gamma * G
    second = (2 * d.gamma * one - C - C.T) / 2 - 2 * d.gamma * G
    return compared(rate - rate.T, first @ S - S @ first, second @ S + S @ second)
