"""Velocities of the predictor against the chain rule, with the printed forms that fail."""

import numpy as np
import pytest

from gradbias.problems import Population, Regression
from gradbias.theory.potentials import rank1_potential
from gradbias.theory.rank1 import (
    balanced_velocity,
    depth_exponents,
    loss_rate,
    rank1_loss_rate,
    rank1_overlaps,
    theta_velocity,
    time_warp,
    warped_time,
)
from theory.rank1.rank1_oracle import (
    balanced_layers,
    balanced_params,
    flat,
    gradients,
    predictor,
    problem_data,
    random_params,
    shaped,
)

X, Y = problem_data(3, 7)
N_SAMPLES = 3
THETA = np.random.default_rng(5).normal(size=7)


def chain_rule(params, weight):
    """dθ/dt by a central difference along −∇L, and dL/dt = −‖∇L‖², by hand."""
    g = 2 * weight * X.T @ (X @ predictor(params) - Y)
    down = -flat(gradients(params, g))
    step = 1e-6 / np.max(np.abs(down))
    ahead, back = (predictor(shaped(params, flat(params) + s * step * down)) for s in (1, -1))
    return (ahead - back) / (2 * step), -down @ down


def close(a, b, tolerance=1e-8):
    return np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b)


@pytest.mark.parametrize("L", [1, 2, 3, 5])
@pytest.mark.parametrize("weight", [1 / 3, 0.5])
def test_any_rank1_start(L, weight):
    params = random_params(L, 7, 4, 1.3, L)
    problem = Regression(X, Y, weight)
    velocity, rate = chain_rule(params, weight)
    assert close(theta_velocity(problem, params), velocity)
    assert rank1_loss_rate(problem, params) == pytest.approx(rate, rel=1e-12)


def test_a_pair_at_right_angles():
    params = {"v1": THETA, "u": np.eye(2, 3), "v": np.eye(2, 3)[[0, 0]]}
    problem = Regression.mean(X, Y)
    velocity, rate = chain_rule(params, 1 / 3)
    assert rank1_overlaps(params).xi == 0
    assert close(theta_velocity(problem, params), velocity)
    assert rank1_loss_rate(problem, params) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("scale", [0.4, 2.5])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
def test_balanced_standard_nets(depth, scale):
    problem, theta = Regression.mean(X, Y), scale * THETA
    velocity, rate = chain_rule(balanced_layers(theta, depth), 1 / 3)
    found = balanced_velocity(problem, theta, depth)
    assert close(found, velocity)
    assert loss_rate(problem, theta, depth) == pytest.approx(rate, rel=1e-12)
    # As printed, (55) has no 2/n: it is n/2 of the truth.
    printed = found / (2 / N_SAMPLES)
    assert close(printed, N_SAMPLES / 2 * velocity) and not close(printed, velocity, 0.4)
    # As printed, dL/dt of C.3 has the exponent 2(1−L)/L, 2/n and no 1/‖θ‖².
    q, size = X.T @ (X @ theta - Y), np.linalg.norm(theta)
    along = (depth - 1) * (theta @ q) ** 2
    wrong = -(2 / N_SAMPLES) * size ** (2 * (1 - depth) / depth) * (q @ q + along)
    assert abs(wrong / rate - 1) > 0.05
    right = -(4 / N_SAMPLES**2) * size ** (2 - 2 / depth) * (q @ q + along / size**2)
    assert right == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize("L", [2, 3, 4, 6])
def test_a_rank1_net_is_a_deep_net_with_2L_minus_1_factors(L):
    problem = Regression.half_sum(X, Y)
    params = balanced_params(THETA, L, signs=[-1.0] * (L - 1))
    velocity, rate = chain_rule(params, 0.5)
    assert close(balanced_velocity(problem, THETA, 2 * L - 1), velocity)
    assert close(theta_velocity(problem, params), velocity)
    assert loss_rate(problem, THETA, 2 * L - 1) == pytest.approx(rate, rel=1e-12)
    assert not close(balanced_velocity(problem, THETA, L), velocity, 0.01)


@pytest.mark.parametrize("depth", [2, 5])
def test_mirror_flow_only_in_warped_time(depth):
    """d∇V/dt = −|ξ|g; as printed for rank-1 nets, without |ξ|, it is wrong."""
    problem = Regression.mean(X, Y)
    V = rank1_potential(THETA, depth)
    velocity, step = balanced_velocity(problem, THETA, depth), 1e-6
    ahead, back = (V.gradient(THETA + s * step * velocity) for s in (1, -1))
    g = np.asarray(problem.gradient(THETA))
    rate = (ahead - back) / (2 * step)
    assert close(rate, -time_warp(THETA, depth) * g)
    assert not close(rate, -g, 0.1)


def test_warped_time_along_a_path():
    t = np.linspace(0, 2, 81)
    path = np.exp(t)[:, None] * np.array([0.6, 0.8])  # ‖θ‖ = eᵗ, so τ' = e^{λt}
    lam = depth_exponents(5).lam
    np.testing.assert_allclose(warped_time(t, path, 5), np.expm1(lam * t) / lam, atol=1e-6)
    np.testing.assert_allclose(warped_time(t, path, 1), t, atol=1e-13)
    assert depth_exponents(float("inf")) == (1, 1)
    L = 3
    np.testing.assert_allclose(
        depth_exponents(2 * L - 1), (2 * (L - 1) / (2 * L - 1), 2 * L / (2 * L - 1))
    )
    with pytest.raises(ValueError, match="t must increase"):
        warped_time([1.0, 0.0], np.ones((2, 2)), 3)


def test_overlaps():
    params = random_params(4, 7, 4, 1.0, 0)
    w = np.sum(params["u"] * params["v"], axis=1)
    found = rank1_overlaps(params)
    np.testing.assert_allclose(found.omega, w)
    np.testing.assert_allclose(found.before, [1, w[0], w[0] * w[1]])
    np.testing.assert_allclose(found.after, [w[1] * w[2], w[2], 1])
    np.testing.assert_allclose(found.before * found.after, found.xi / w)
    empty = rank1_overlaps(random_params(1, 7, 4, 1.0, 0))
    assert (empty.xi, empty.phi, empty.before.shape) == (1, 0, (0,))


def test_shapes_zero_and_refusals():
    column = Regression.mean(X, Y[:, None])
    assert balanced_velocity(column, THETA, 3).shape == (7, 1)
    np.testing.assert_array_equal(balanced_velocity(column, 0 * THETA, 3), 0)
    np.testing.assert_allclose(balanced_velocity(column, 0 * THETA, 1)[:, 0], 2 / 3 * X.T @ Y)
    fresh = Population(X.T @ X, [np.linalg.pinv(X) @ Y], np.eye(1))
    expected = balanced_velocity(Regression(X, Y, 1.0), THETA, 3)
    np.testing.assert_allclose(balanced_velocity(fresh, THETA, 3)[:, 0], expected, rtol=1e-10)
    params = random_params(2, 7, 3, 1.0, 0)
    expected = theta_velocity(Regression(X, Y, 1.0), params)
    np.testing.assert_allclose(theta_velocity(fresh, params)[:, 0], expected, rtol=1e-10)
    with pytest.raises(ValueError, match="one output.*got k = 2"):
        theta_velocity(Regression.mean(X, np.ones((3, 2))), params)
    with pytest.raises(ValueError, match="depth must be a whole number"):
        loss_rate(column, THETA, float("inf"))
