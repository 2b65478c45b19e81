"""The potentials of spectral bias: gradients, inverses, and limits by foreign solvers."""

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import gradbias as gb
from gradbias.theory.potentials import (
    log_det_potential,
    reduced_spectral_potential,
    singular_value_potential,
    spectral_scalar_potential,
)
from gradbias.theory.spectral import alpha_of, limit_gram, spectral_limit
from gradbias.theory.spectral.printed import printed_singular_value_gradient
from theory.spectral.spectral_oracle import integrate, relative

MIRRORS = [
    (spectral_scalar_potential, (5,)),
    (spectral_scalar_potential, (4, 1)),
    (singular_value_potential, (3,)),
    (reduced_spectral_potential, (4, 2)),
    (reduced_spectral_potential, (2, 4)),
    (reduced_spectral_potential, (3,)),
]
EACH = pytest.mark.parametrize(("make", "shape"), MIRRORS)


def differences(f, x, h=1e-3):
    """Sixth order, so that only rounding is left."""
    weights = {1: 45, 2: -9, 3: 1}
    result = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[index] = h
        result[index] = sum(w * (f(x + j * e) - f(x - j * e)) for j, w in weights.items())
    return result / (60 * h)


@EACH
@pytest.mark.parametrize("gamma", [0.05, 1.0, 30.0])
def test_gradients_and_their_inverses(make, shape, gamma):
    rng = np.random.default_rng(0)
    V, theta = make(gamma), rng.standard_normal(shape) + 0.1
    dual = V.gradient(theta)
    step = 1e-3 * min(gamma, 1.0)
    np.testing.assert_allclose(dual, differences(V.value, theta, step), atol=1e-9)
    np.testing.assert_allclose(V.inverse_gradient(dual), theta, rtol=1e-10)
    directions = rng.standard_normal((*shape, 3))
    got = V.inverse_jacobian(dual, directions)
    room = 1 - np.linalg.norm(dual.reshape(len(dual), -1), 2)
    h = 1e-3 * room if make is reduced_spectral_potential else 1e-3
    for j in range(3):
        want = (
            8 * V.inverse_gradient(dual + h * directions[..., j])
            - 8 * V.inverse_gradient(dual - h * directions[..., j])
            - V.inverse_gradient(dual + 2 * h * directions[..., j])
            + V.inverse_gradient(dual - 2 * h * directions[..., j])
        ) / (12 * h)
        np.testing.assert_allclose(got[..., j], want, atol=1e-7 * np.abs(want).max())
    other = rng.standard_normal(shape)
    assert V.bregman(other, theta) > 0 and abs(V.bregman(theta, theta)) < 1e-12


def test_the_printed_gradient_of_the_singular_value_potential_is_not_one_of_it():
    D, gamma = np.array([2.0, 0.3]), 0.1
    V = singular_value_potential(gamma)
    assert np.min(np.abs(printed_singular_value_gradient(D, gamma) - V.gradient(D))) > 0.1
    printed = differences(
        lambda x: np.sum(0.5 * x * np.arcsinh(x / gamma) - np.hypot(x, gamma)), D, 1e-4
    )
    np.testing.assert_allclose(printed_singular_value_gradient(D, gamma), printed, atol=1e-9)


def test_small_gamma_makes_nuclear_norms():
    """½ ln(1/γ)‖β‖_* and ‖β‖_*; the text has ln(1/γ) without the half."""
    beta = np.diag([1.0, 0.5])
    nuclear, gamma = 1.5, 1e-12
    ratio = singular_value_potential(gamma).value([1.0, 0.5]) / (np.log(1 / gamma) * nuclear)
    assert abs(ratio - 0.5) < 0.01
    far = singular_value_potential(1e-300).value([1.0, 0.5]) / (np.log(1e300) * nuclear)
    assert abs(far - 0.5) < 1e-3
    assert abs(reduced_spectral_potential(1e-100).value(beta) - nuclear) < 1e-13


@pytest.mark.parametrize("norm", [1e-12, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("gamma", [1e-100, 1e-3, 1.0, 1e3])
def test_the_divergence_from_zero_keeps_its_digits(norm, gamma):
    with mpmath.workdps(300):
        g = mpmath.mpf(gamma)

        def psi(b):
            w = g + mpmath.sqrt(b**2 + g**2)
            return 2 * w ** mpmath.mpf(1.5) / 3 - 2 * g * mpmath.sqrt(w)

        want = float(psi(mpmath.mpf(norm)) - psi(mpmath.mpf(0)))
    V = spectral_scalar_potential(gamma)
    np.testing.assert_allclose(V.bregman([norm, 0.0], [0.0, 0.0]), want, rtol=2e-15)
    np.testing.assert_allclose(V.value([0.0, 0.0]), -((2 * gamma) ** 1.5) / 3, rtol=1e-14)


@pytest.mark.parametrize("make", [spectral_scalar_potential, reduced_spectral_potential])
@pytest.mark.parametrize("gamma", [0.01, 2.0])
def test_from_zero_every_gamma_selects_the_least_norm(make, gamma):
    rng = np.random.default_rng(1)
    problem = gb.Regression.mean(rng.standard_normal((3, 6)), rng.standard_normal(3))
    found = make(gamma).limit(problem)
    assert found.residual < 1e-12
    np.testing.assert_allclose(found.theta, problem.min_norm, atol=1e-12)
    many = gb.Regression.mean(rng.standard_normal((3, 5)), rng.standard_normal((3, 2)))
    if make is reduced_spectral_potential:
        np.testing.assert_allclose(make(gamma).limit(many).theta, many.min_norm, atol=1e-11)


def test_the_scalar_potential_selects_from_any_isotropic_start():
    """A start with β(0) outside of the row space, both layers by DOP853; a control with no bias."""
    rng, gamma, d = np.random.default_rng(2), 0.15, 5
    X, Y = rng.standard_normal((2, d)), rng.standard_normal((2, 1))
    a = rng.standard_normal((d, 1))
    values, vectors = np.linalg.eigh(a @ a.T + 2 * gamma * np.eye(d))
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    W1 = rotation @ (vectors * np.sqrt(values)) @ vectors.T
    path = integrate(X, Y, W1, a, [0.0, 80.0])
    start, end = path.beta[0][:, 0], path.beta[-1][:, 0]
    problem = gb.Regression.half_sum(X, Y[:, 0])
    found = spectral_scalar_potential(gamma).limit(problem, start)
    assert found.residual < 1e-12
    assert relative(found.theta, end) < 1e-9
    assert relative(problem.min_norm, end) > 1e-2
    euclid = problem.min_norm + start - np.linalg.pinv(X) @ (X @ start)
    assert relative(euclid, end) > 1e-2


def test_the_log_det_potential_and_its_reduction():
    rng, gamma = np.random.default_rng(3), 0.4
    Phi, F = log_det_potential(gamma), reduced_spectral_potential(gamma)
    W1, W2 = rng.standard_normal((3, 5)), rng.standard_normal((5, 2))
    got = Phi.gradient(W1, W2)
    np.testing.assert_allclose(got.W1, differences(lambda W: Phi.value(W, W2), W1), atol=1e-9)
    np.testing.assert_allclose(got.W2, differences(lambda W: Phi.value(W1, W), W2), atol=1e-9)
    best = np.linalg.pinv(W1) @ (W1 @ W2)
    np.testing.assert_allclose(Phi.of_gram(W1 @ W1.T, W1 @ W2), Phi.value(W1, best), rtol=1e-13)
    assert Phi.value(W1, W2) > Phi.value(W1, best)
    # F is the least Φ over all layers of a predictor: by a foreign optimiser over M = TTᵀ.
    beta = rng.standard_normal((3, 2))
    found = scipy.optimize.minimize(
        lambda z: Phi.of_gram(z.reshape(3, 3) @ z.reshape(3, 3).T, beta),
        np.eye(3).ravel(),
        method="BFGS",
        options={"gtol": 1e-8},
    )
    np.testing.assert_allclose(found.fun, F.value(beta), rtol=1e-11)
    T = found.x.reshape(3, 3)
    np.testing.assert_allclose(T @ T.T, limit_gram(beta, gamma).M, atol=1e-6)
    np.testing.assert_allclose(F.gradient(beta), alpha_of(beta, gamma), rtol=1e-14)


def test_the_limit_of_the_log_det_potential_is_least():
    rng = np.random.default_rng(4)
    problem = gb.Regression.half_sum(rng.standard_normal((2, 4)), rng.standard_normal((2, 2)))
    Phi = log_det_potential(0.3)
    limit = Phi.limit(problem)
    assert limit.residual < 1e-13
    np.testing.assert_allclose(Phi.value(*limit.params().values()), limit.potential, rtol=1e-13)
    free = np.eye(4) - problem.row_space @ problem.row_space.T
    for _ in range(200):
        W1 = limit.params()["W1"] + 0.3 * rng.standard_normal((4, 4))
        beta = limit.theta + 0.3 * free @ rng.standard_normal((4, 2))
        assert Phi.value(W1, np.linalg.solve(W1, beta)) > limit.potential


def test_wrong_arguments_are_named():
    problem = gb.Regression.half_sum(np.eye(2), np.ones(2))
    with pytest.raises(ValueError, match="gamma must be greater than 0"):
        spectral_scalar_potential(0.0)
    with pytest.raises(ValueError, match="theta must have one output"):
        spectral_scalar_potential(1.0).value(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"Use spectral_limit\(problem, gamma\)"):
        singular_value_potential(1.0).limit(problem)
    with pytest.raises(ValueError, match="W1 must have independent rows"):
        log_det_potential(1.0).gradient(np.ones((2, 3)), np.ones((3, 1)))
    assert log_det_potential(1.0).value(np.ones((2, 1)), np.ones((1, 1))) == np.inf
    assert log_det_potential(1.0).of_gram(np.diag([1.0, -1.0]), np.ones(2)) == np.inf
    assert np.all(reduced_spectral_potential(1.0).inverse_gradient(np.eye(2)) == np.inf)
    for make, _ in MIRRORS:
        assert "gamma=0.5" in repr(make(0.5))
    assert repr(log_det_potential(0.5)) == "LogDetPotential(gamma=0.5)"
    assert spectral_limit(problem, 1.0).residual < 1e-14
