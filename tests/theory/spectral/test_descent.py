"""Gradient descent with finite steps: exact identities against a plain step by hand."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theory.spectral import (
    asinh_ratio,
    effective_gamma,
    gd_force_step,
    gd_imbalance_drift,
    gd_step,
    limit_singular_values,
    whitened_descent,
)
from gradbias.theory.spectral.printed import printed_gd_step


def by_hand(X, Y, W1, W2, weight, lr):
    R = 2 * weight * X.T @ (Y - X @ W1 @ W2)
    return W1 + lr * R @ W2.T, W2 + lr * W1.T @ R


def draw(n, d, k, width, seed=0):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    return X, Y, rng.standard_normal((d, width)), rng.standard_normal((width, k))


@pytest.mark.parametrize("sizes", [(3, 5, 2, 7), (4, 3, 5, 2), (1, 1, 1, 1), (2, 6, 1, 6)])
@pytest.mark.parametrize("weight", [0.5, 0.13])
def test_identities_of_one_step(sizes, weight):
    X, Y, W1, W2 = draw(*sizes)
    lr, params, problem = 0.05, {"W1": W1, "W2": W2}, gb.Regression(X, Y, weight)
    new1, new2 = by_hand(X, Y, W1, W2, weight, lr)
    step = gd_step(problem, params, lr)
    np.testing.assert_allclose(step.W1, new1, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(step.W2, new2, rtol=1e-12, atol=1e-13)
    R = 2 * weight * X.T @ (Y - X @ new1 @ new2)
    np.testing.assert_allclose(gd_force_step(problem, params, lr), R, atol=1e-12 * np.abs(R).max())
    drift = (new1.T @ new1 - new2 @ new2.T) - (W1.T @ W1 - W2 @ W2.T)
    got = gd_imbalance_drift(problem, params, lr)
    np.testing.assert_allclose(got, drift, atol=1e-13 * np.abs(new1).max() ** 2)


def test_the_printed_step_of_one_output_is_wrong():
    X, Y, W, a = draw(3, 4, 1, 4)
    printed = printed_gd_step(W, a[:, 0], 0.05)
    true = by_hand(X, Y, W, a, 0.5, 0.05)[1][:, 0]
    assert np.max(np.abs(printed - true)) > 1e-2
    with pytest.raises(ValueError, match="W must have shape"):
        printed_gd_step(W[:3], a[:, 0], 0.05)


@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_whitened_descent_is_the_descent_of_both_layers(scale):
    """Two scalars for every singular value, against 60 full steps."""
    rng, gamma, lr = np.random.default_rng(0), 0.05, 0.04
    X = np.sqrt(scale) * np.linalg.qr(rng.standard_normal((6, 4)))[0].T
    Y = X @ rng.standard_normal((6, 3))
    W1 = np.sqrt(2 * gamma) * np.linalg.qr(rng.standard_normal((7, 6)))[0].T
    W2, (U, star, Vt) = np.zeros((7, 3)), np.linalg.svd(np.linalg.pinv(X) @ Y, full_matrices=False)
    z1, z2 = whitened_descent(star, gamma, lr, 60, scale)
    assert z1.shape == z2.shape == (61, 3)
    for i in range(60):
        np.testing.assert_allclose((U * (z1[i] * z2[i])) @ Vt, W1 @ W2, atol=1e-13)
        W1, W2 = by_hand(X, Y, W1, W2, 0.5, lr)
    rho = scale * (star - z1 * z2)
    gap = z1**2 - z2**2
    np.testing.assert_allclose(gap[1:], gap[:-1] * (1 - lr**2 * rho[:-1] ** 2), atol=1e-13)


def test_effective_gamma_is_right_to_first_order():
    """Numbers of the sheet's instance, and the order of the error: halving lr quarters it."""
    sigma, gamma, errors = np.array([3.0, 0.4]), 0.2, []
    for lr in (0.02, 0.01, 0.005):
        z1, z2 = whitened_descent(sigma, gamma, lr, int(60 / lr))
        np.testing.assert_allclose(z1[-1] * z2[-1], sigma, rtol=1e-12)
        errors.append((z1[-1] ** 2 - z2[-1] ** 2) / 2 - effective_gamma(sigma, gamma, lr))
    order = np.log2(np.array(errors[:-1]) / errors[1:])
    np.testing.assert_allclose(order, 2, atol=0.1)
    assert np.all(np.abs(errors[-1]) < 1e-2 * np.abs(gamma - effective_gamma(sigma, gamma, 0.005)))


def test_effective_gamma_corrects_the_singular_values():
    """Corollary 3.1 with γ_eff is closer to descent than with γ."""
    sigma, gamma, lr = 2.0, 0.1, 0.02
    z1, _ = whitened_descent(sigma, gamma, lr, 3000, scale=1.5)
    corrected = effective_gamma(sigma, gamma, lr, scale=1.5)
    plain, better = (limit_singular_values([sigma], g, 1).W1[0] for g in (gamma, float(corrected)))
    assert abs(better - z1[-1]) < 0.05 * abs(plain - z1[-1])


def test_effective_gamma_has_the_corrected_potential():
    """By quadrature of −lr ∫ (σ* − σ)/(2√(σ² + γ²)) dσ; also far outside of γ's scale."""
    from scipy.integrate import quad

    for sigma, gamma in [(2.0, 0.3), (1e-6, 1.0), (5.0, 1e-3)]:

        def slope(s, a=sigma, g=gamma):
            return (a - s) / (2 * np.hypot(s, g))

        rise = quad(slope, 0, sigma, epsabs=0, epsrel=1e-12, limit=200)[0]
        got = -np.log(effective_gamma(sigma, gamma, 1.0) / gamma)
        np.testing.assert_allclose(got, rise, rtol=1e-9, atol=1e-15)
    assert effective_gamma(0.0, 0.3, 0.1) == 0.3
    np.testing.assert_allclose(asinh_ratio(np.array([1e200, -1e200]), 1e-200)[0], 921.73, rtol=1e-5)
    assert asinh_ratio(np.array(-1e200), 1e-200) == -asinh_ratio(np.array(1e200), 1e-200)


def test_large_steps_diverge_without_a_warning_and_bad_arguments_are_named():
    z1, _ = whitened_descent(1.0, 1.0, 50.0, 100)
    assert not np.isfinite(z1[-1])
    X, Y, W1, W2 = draw(3, 5, 2, 7)
    problem = gb.Regression.half_sum(X, Y)
    with pytest.raises(ValueError, match="lr must be greater than 0"):
        gd_step(problem, {"W1": W1, "W2": W2}, 0.0)
    with pytest.raises(ValueError, match="params must be a dict with W1 and W2"):
        gd_imbalance_drift(problem, [W1, W2], 0.1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="steps must be a whole number"):
        whitened_descent(1.0, 1.0, 0.1, 2.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="gamma must be greater than 0"):
        effective_gamma(1.0, 0.0, 0.1)
