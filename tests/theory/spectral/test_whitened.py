"""Whitened data: the exact trajectory against 400 digits, activation times, products, descent."""

import mpmath
import numpy as np
import pytest

import gradbias as gb
from gradbias.theory.spectral import (
    activation_time,
    half_time,
    jump_limit,
    product_velocity,
    symmetric_products,
    whitened_trajectory,
)
from gradbias.theory.spectral.printed import printed_half_time, printed_whitened_trajectory
from theory.spectral.spectral_oracle import integrate, relative

GAMMAS = [1e2, 1.0, 1e-2, 1e-5, 1e-10, 1e-15, 1e-30, 1e-100]


def exact(sigma, gamma, t):
    """Theorem C.12 as printed, with so many digits that nothing is lost."""
    with mpmath.workdps(420):
        sigma, gamma, t = mpmath.mpf(sigma), mpmath.mpf(gamma), mpmath.mpf(t)
        s = mpmath.sqrt(sigma**2 + gamma**2)
        E = mpmath.exp(-2 * s * t)
        bracket = (gamma + s - E * (s - gamma)) / (gamma + s + E * (s - gamma))
        a = s / sigma * bracket - gamma / sigma
        return 2 * gamma * a / (1 - a**2)


def times_of(sigma, gamma):
    """Around every phase: start, half, end."""
    half = float(np.log1p(2 * sigma / gamma) / (2 * np.hypot(sigma, gamma)))
    return half * np.array([1e-12, 1e-3, 0.3, 0.7, 0.95, 1.0, 1.05, 1.5, 3.0, 40.0])


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("sigma", [1e-3, 0.7, 2.0, 50.0])
def test_the_trajectory_has_all_its_digits(sigma, gamma):
    t = times_of(sigma, gamma)
    want = [exact(sigma, gamma, time) for time in t]
    got = whitened_trajectory(sigma, gamma, t)
    errors = [abs(float((mpmath.mpf(g) - w) / w)) for g, w in zip(got, want, strict=True)]
    assert max(errors) < 1e-13


def test_the_printed_form_loses_them():
    worst = {}
    for gamma in (1e-10, 1e-15, 1e-30):
        t = times_of(2.0, gamma)[3:]
        want = np.array([float(exact(2.0, gamma, time)) for time in t])
        with np.errstate(all="ignore"):
            got = printed_whitened_trajectory(2.0, gamma, t)
            worst[gamma] = np.max(np.nan_to_num(np.abs(got / want - 1), nan=np.inf))
    assert worst[1e-10] > 1e-7 and worst[1e-15] > 0.01 and worst[1e-30] > 0.9
    t = np.linspace(0.1, 3, 5)
    np.testing.assert_allclose(
        printed_whitened_trajectory(2.0, 0.5, t), whitened_trajectory(2.0, 0.5, t), rtol=1e-12
    )


@pytest.mark.parametrize("wide", [False, True], ids=["XᵀX = c·I", "XXᵀ = c·I"])
def test_the_whole_predictor_follows_it(wide):
    """Both layers by DOP853; k > the rank, a scale, singular vectors that stand still."""
    rng, c, gamma = np.random.default_rng(0), 2.5, 0.03
    Q = np.linalg.qr(rng.standard_normal((6, 4)))[0] * np.sqrt(c)
    X = Q.T if wide else Q
    d = X.shape[1]
    Y = X @ rng.standard_normal((d, 3))
    t = np.linspace(0, 3, 13)
    path = integrate(X, Y, np.sqrt(2 * gamma) * np.eye(d), np.zeros((d, 3)), t)
    U, star, Vt = np.linalg.svd(np.linalg.pinv(X) @ Y, full_matrices=False)
    sigma = whitened_trajectory(star, gamma, t, scale=c)
    assert sigma.shape == (13, 3)
    assert relative(np.einsum("ij,tj,jk->tik", U, sigma, Vt), path.beta) < 1e-9
    assert relative(whitened_trajectory(star, gamma, t), sigma) > 1e-2


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("fraction", [1e-9, 0.01, 0.5, 0.99, 1 - 1e-9])
def test_activation_times_against_the_trajectory(gamma, fraction):
    """In 400 digits, because close to its end a trajectory is too flat to be inverted in 16."""
    sigma = 1.7
    t = activation_time(sigma, gamma, fraction)
    with mpmath.workdps(420):
        reached = exact(sigma, gamma, mpmath.mpf(float(t)))
        root = mpmath.sqrt(reached**2 + mpmath.mpf(gamma) ** 2)
        speed = 2 * root * (sigma - reached)
        late = float((reached - mpmath.mpf(fraction) * sigma) / speed / t)  # Newton's correction
    assert abs(late) < 1e-14


def test_half_times_of_the_incremental_plot():
    sigma = np.array([3.0, 2.0, 1.0])
    np.testing.assert_allclose(half_time(sigma, 1e-6), [2.601, 3.800, 7.254], atol=5e-4)
    np.testing.assert_allclose(printed_half_time(sigma, 1e-6), [2.303, 3.454, 6.908], atol=5e-4)
    np.testing.assert_allclose(activation_time(sigma, 1e-6), half_time(sigma, 1e-6), rtol=1e-6)
    np.testing.assert_allclose(
        activation_time(sigma, 1e-6, scale=4.0), activation_time(sigma, 1e-6) / 4, rtol=1e-15
    )
    np.testing.assert_allclose(half_time(sigma, 1e-6, 4.0), half_time(sigma, 1e-6) / 4, rtol=1e-15)
    at_printed = np.diag(whitened_trajectory(sigma, 1e-6, printed_half_time(sigma, 1e-6)))
    np.testing.assert_allclose(at_printed, sigma / (1 + 2 * sigma), rtol=1e-5)
    assert np.all(np.abs(at_printed / sigma - 0.5) > 0.1)


def test_the_jump_limit():
    sigma = np.array([0.5, 2.0, 4.0])
    time = np.array([0.0, 0.1, 0.125, 0.2, 0.25, 0.9, 1.0, 1.1])
    limit = jump_limit(sigma, time)
    clock = -np.log(1e-300)
    np.testing.assert_allclose(whitened_trajectory(sigma, 1e-300, clock * time), limit, atol=1e-12)
    np.testing.assert_allclose(limit[4, 1], 2 / 5)
    np.testing.assert_array_equal(jump_limit(sigma, time / 2, scale=2.0), limit)


def test_zero_and_extreme_values():
    t = np.array([0.0, 1.0, 1e300])
    got = whitened_trajectory([0.0, 1e-200, 1.0], 0.5, t)
    np.testing.assert_array_equal(got[:, 0], 0)
    np.testing.assert_array_equal(got[0], 0)
    np.testing.assert_allclose(got[1, 1], -1e-200 * np.expm1(-1.0), rtol=1e-14)
    np.testing.assert_allclose(got[2], [0, 1e-200, 1], rtol=1e-15)
    for unit in (1e-150, 1e150):
        np.testing.assert_allclose(
            whitened_trajectory(2.0 * unit, 0.1 * unit, 1.3 / unit),
            unit * whitened_trajectory(2.0, 0.1, 1.3),
            rtol=1e-13,
        )
    assert whitened_trajectory(2.0, 0.1, 1.0).shape == ()
    assert whitened_trajectory(np.ones((2, 3)), 0.1, np.ones(4)).shape == (4, 2, 3)
    np.testing.assert_allclose(activation_time(0.0, 0.5, 0.9), np.log(10), rtol=1e-14)
    for name, value in {"gamma": 0.0, "t": -1.0, "sigma": -1.0, "scale": np.nan}.items():
        arguments = {"sigma": 1.0, "gamma": 1.0, "t": 1.0} | {name: value}
        with pytest.raises(ValueError, match=f"{name} must be"):
            whitened_trajectory(**arguments)
    with pytest.raises(ValueError, match="gamma must be at least 1e-307 of sigma"):
        whitened_trajectory(1e150, 1e-200, 1.0)
    with pytest.raises(ValueError, match="fraction must be less than 1"):
        activation_time(1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="sigma must be greater than 0"):
        half_time([1.0, 0.0], 1.0)


# -- Theorem C.11 ------------------------------------------------------------------------------


def flow_at(X, Y, gamma, t):
    d = X.shape[1]
    path = integrate(X, Y, np.sqrt(2 * gamma) * np.eye(d), np.zeros((d, Y.shape[1])), [0, t])
    return {"W1": path.W1[-1], "W2": path.W2[-1]}


def test_products_are_symmetric_on_whitened_data_only():
    rng = np.random.default_rng(2)
    Q, Y = np.linalg.qr(rng.standard_normal((6, 4)))[0], rng.standard_normal((6, 3))
    params = flow_at(Q, Y, 0.2, 0.4)
    products = symmetric_products(gb.Regression.half_sum(Q, Y), params)
    assert [p.shape for p in products] == [(3, 3), (4, 4), (4, 4)]
    assert max(products.asymmetry) < 1e-10
    X = rng.standard_normal((6, 4))
    tilted = symmetric_products(gb.Regression.half_sum(X, Y), flow_at(X, Y, 0.2, 0.4))
    assert min(tilted.asymmetry) > 1e-3
    start = {"W1": np.eye(4), "W2": np.zeros((4, 3))}
    assert symmetric_products(gb.Regression.half_sum(Q, Y), start).asymmetry == (0, 0, 0)
    with pytest.raises(ValueError, match="W1 must have independent rows, rank d = 4"):
        symmetric_products(
            gb.Regression.half_sum(Q, Y), {"W1": np.ones((4, 2)), "W2": np.ones((2, 3))}
        )


def test_the_velocity_of_the_product_and_of_its_antisymmetric_part():
    """From any point, symmetric or not; the printed '+C' and commutator are wrong."""
    rng, gamma, c, h = np.random.default_rng(3), 0.1, 1.7, 1e-3
    X = np.sqrt(c) * np.linalg.qr(rng.standard_normal((5, 4)))[0]
    Y = X @ rng.standard_normal((4, 2))
    # A start with isotropic imbalance where C is not symmetric: W1ᵀW1 = W2W2ᵀ + 2γI.
    W2 = rng.standard_normal((4, 2)) / 2
    values, vectors = np.linalg.eigh(W2 @ W2.T + 2 * gamma * np.eye(4))
    W1 = np.linalg.qr(rng.standard_normal((4, 4)))[0] @ (vectors * np.sqrt(values)) @ vectors.T

    def product(params):
        alpha = np.linalg.inv(params[0]).T @ params[1]
        R = X.T @ (Y - X @ params[0] @ params[1])
        return R.T @ alpha, alpha, R

    path = integrate(X, Y, W1, W2, h * np.arange(5))
    C = np.array([product(p)[0] for p in zip(path.W1, path.W2, strict=True)])
    slope = (C[0] - 8 * C[1] + 8 * C[3] - C[4]) / (12 * h)
    _, alpha, R = product((path.W1[2], path.W2[2]))
    got = product_velocity(alpha, R, gamma, scale=c)
    assert relative(got, slope) < 1e-8
    C, G = C[2], np.linalg.inv(np.eye(2) - alpha.T @ alpha)
    H = gamma * c * np.eye(2) - (C + C.T) / 2 - 2 * gamma * c * G
    S = C - C.T
    assert np.abs(S).max() > 0.01
    np.testing.assert_allclose(got - got.T, H @ S + S @ H, atol=1e-12)
    printed = got - 2 * gamma * c * C + C
    assert relative(printed, slope) > 0.05
    with pytest.raises(ValueError, match="alpha must have singular values below 1"):
        product_velocity(np.eye(2), np.eye(2), 1.0)
