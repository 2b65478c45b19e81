"""The limiting flow by shrinking and the dual, against its differential equation and SGD."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import diagonal
from theory.diagonal.diagonal_oracle import (
    gradient_flow,
    integrated,
    jacobian,
    projected_field,
    random_problem,
    random_start,
)


@pytest.mark.parametrize("weight", [1 / 6, 0.4])
def test_it_solves_the_projected_equation(weight):
    """From Φ(x₀), with Gauss–Newton steps at the end: the field is tangent, so they are tiny."""
    problem, (u0, v0), c = random_problem(20, 3, 5, weight), random_start(20, 5), 0.7
    u, v, _ = gradient_flow(problem, u0, v0, 40)
    times = np.array([0.0, 0.3, 1.2])
    found = np.hstack(diagonal.limiting_flow(problem, {"u": u0, "v": v0}, times, c))
    for t, answer in zip(times, found, strict=True):
        x = np.concatenate([u, v])
        if t:
            x, _ = integrated(lambda x: projected_field(problem, x, c), x, t)
        for _ in range(2):
            theta = x[:5] ** 2 - x[5:] ** 2
            x = x - np.linalg.pinv(jacobian(problem.X, x)) @ (problem.X @ theta - problem.Y)
        np.testing.assert_allclose(answer, x, rtol=0, atol=1e-10)


def test_the_field_is_the_flows_velocity():
    problem, (u0, v0), c = random_problem(21, 3, 5, 0.3), random_start(21, 5), 1.3
    h = 1e-3
    u, v = diagonal.limiting_flow(problem, {"u": u0, "v": v0}, 0.5 + h * np.arange(-2, 3), c)
    for path, speed in zip(
        (u, v), diagonal.limiting_field(problem, {"u": u[2], "v": v[2]}, c), strict=True
    ):
        measured = (path[0] - 8 * path[1] + 8 * path[3] - path[4]) / (12 * h)
        np.testing.assert_allclose(speed, measured, rtol=0, atol=1e-9)
    both = np.concatenate([u[2], v[2]])
    np.testing.assert_allclose(
        np.concatenate(diagonal.limiting_field(problem, {"u": u[2], "v": v[2]}, c)),
        projected_field(problem, both, c),
        atol=1e-13,
    )


def test_long_times():
    """Until e^{−c·s·t} is far below the smallest float: products, fit and dual stay exact."""
    problem = gb.problems.sparse(14, 30, 3, entries="gaussian", key=3)
    u0, v0 = random_start(22, 30)
    t = np.array([0.0, 1.0, 10.0, 100.0, 1e4])
    u, v = diagonal.limiting_flow(problem, {"u": u0, "v": v0}, t, 1.0)
    theta = u**2 - v**2
    np.testing.assert_allclose(theta @ problem.X.T, np.tile(problem.Y, (5, 1)), atol=1e-12)
    logs = np.log(np.abs(u[:3] * v[:3])) - np.log(np.abs(u0 * v0))
    np.testing.assert_allclose(logs, -t[:3, None] * diagonal.decay_rates(problem), atol=1e-10)
    np.testing.assert_allclose(theta[-1], diagonal.weighted_l1(problem), rtol=0, atol=1e-12)
    trace = [diagonal.regulariser(problem, {"u": a, "v": b}) for a, b in zip(u, v, strict=True)]
    assert np.all(np.diff(trace) <= 1e-12)


def test_times_come_back_in_the_order_asked():
    problem, (u0, v0) = random_problem(23, 3, 5), random_start(23, 5)
    times = np.array([[2.0, 0.0], [0.5, 2.0]])
    u, v = diagonal.limiting_flow(problem, {"u": u0, "v": v0}, times, 1.0)
    assert u.shape == v.shape == (2, 2, 5)
    for i in np.ndindex(2, 2):
        alone = diagonal.limiting_flow(problem, {"u": u0, "v": v0}, times[i], 1.0)
        np.testing.assert_allclose(u[i], alone[0], atol=1e-13)
    still = diagonal.limiting_flow(problem, {"u": u0, "v": v0}, 3.0, 0.0)
    np.testing.assert_allclose(still[1], diagonal.limit(problem, {"u": u0, "v": v0}).v, rtol=1e-14)
    assert diagonal.limiting_flow(problem, {"u": u0, "v": v0}, [], 0.0)[0].shape == (0, 5)
    blind = gb.Regression.mean(np.zeros((2, 5)), np.ones(2))
    np.testing.assert_allclose(
        diagonal.limiting_flow(blind, {"u": u0, "v": v0}, 2.0, 1.0), [u0, v0], rtol=1e-14
    )
    with pytest.raises(ValueError, match="t must be at least 0, got -1"):
        diagonal.limiting_flow(problem, {"u": u0, "v": v0}, [0, -1], 1.0)
    with pytest.raises(ValueError, match="c must be at least 0"):
        diagonal.limiting_flow(problem, {"u": u0, "v": v0}, 1, -1.0)


def test_zeros_flow_too():
    """Only u: θ = u² ≥ 0, and u alone obeys the equation."""
    rng = np.random.default_rng(24)
    X, w = rng.standard_normal((2, 4)), np.abs(rng.standard_normal(4))
    problem, u0, c, t = gb.Regression.half_mean(X, X @ w), np.ones(4), 1.0, 0.6
    start, _, _ = gradient_flow(problem, u0, np.zeros(4), 60)
    x, _ = integrated(lambda x: projected_field(problem, x, c), np.append(start, np.zeros(4)), t)
    u, v = diagonal.limiting_flow(problem, {"u": u0, "v": np.zeros(4)}, t, c)
    np.testing.assert_allclose(np.append(u, v), x, atol=1e-9)


def sgd(problem, x, lr, steps, std, b, rng):
    """Label-noise SGD with ±std and b rows without replacement: (members, d) u and v, Σ of 4g²."""
    u, v = x
    X, y, n = problem.X, problem.Y, len(problem.X)
    seen = np.argsort(rng.random((steps, len(u), n)), axis=-1)[..., :b]
    noise = std * rng.choice([-1.0, 1.0], (steps, len(u), b))
    for rows, eps in zip(seen, noise, strict=True):
        residual = np.einsum("mbd,md->mb", X[rows], u * u - v * v) - y[rows] - eps
        g = 2 * problem.weight * n / b * np.einsum("mbd,mb->md", X[rows], residual)
        u, v = u * (1 - 2 * lr * g), v * (1 + 2 * lr * g)
    return u, v


def test_c_is_that_of_label_noise_sgd():
    """Mean ln|uv| of SGD, extrapolated to lr = 0, against −c·s·T; no other factor will do."""
    problem, std, b, T = random_problem(25, 3, 4, weight=0.4), 0.8, 2, 0.15
    c = diagonal.noise_level(problem, std, b)
    end = diagonal.limit(problem, {"u": np.ones(4), "v": np.ones(4)})
    rng, means, errors = np.random.default_rng(25), [], []
    for lr in (0.01, 0.005):
        x = np.tile(end.u, (60, 1)), np.tile(end.v, (60, 1))
        u, v = sgd(problem, x, lr, round(T / lr**2), std, b, rng)
        decay = np.sum(np.log(np.abs(u * v)), axis=1)  # starts at ln 1 = 0
        means.append(np.mean(decay))
        errors.append(np.std(decay) / np.sqrt(60))
    told = -c * np.sum(diagonal.decay_rates(problem)) * T
    measured, error = 2 * means[1] - means[0], np.hypot(2 * errors[1], errors[0])
    curvature = abs(means[1] - means[0]) * 0.25  # what the next order may be
    assert abs(measured - told) < 4 * error + curvature
    assert abs(measured - told) < 0.05 * abs(told)
    assert error < 0.01 * abs(told)


def test_c_is_that_of_the_librarys_noise():
    """Σ = c·H on the manifold, for a weight that is none of the papers'."""
    problem, (u0, v0) = random_problem(26, 3, 5, weight=0.3), random_start(26, 5)
    end = diagonal.limit(problem, {"u": u0, "v": v0})
    H = diagonal.hessian(problem, {"u": end.u, "v": end.v})
    for noise in (gb.LabelNoise(0.7, 2), gb.LabelNoise(0.7, 2, replace=True), gb.LabelNoise(0.7)):
        told = diagonal.noise_level(problem, 0.7, noise.batch_size) * H
        covariance = noise.covariance(problem, gb.Diagonal(5), {"u": end.u, "v": end.v})
        np.testing.assert_allclose(covariance, told, rtol=0, atol=1e-12 * np.max(np.abs(told)))
    half_mean = random_problem(26, 3, 5, weight=1 / 6)
    assert diagonal.noise_level(half_mean, 0.7, 2) == pytest.approx(0.7**2 / 2)


def test_the_discrete_law_of_the_products():
    """Every step, any weight and batch, also with lr far from small."""
    problem, (u, v) = random_problem(27, 4, 6, weight=0.3), random_start(27, 6)
    rng, lrs, gradients, products = np.random.default_rng(27), [], [], []
    uv = u * v
    for _ in range(40):
        rows, lr = rng.choice(4, 2, replace=False), rng.uniform(0.01, 0.05)
        residual = problem.X[rows] @ (u * u - v * v) - problem.Y[rows] - rng.choice([-1, 1], 2)
        g = 2 * 0.3 * 4 / 2 * problem.X[rows].T @ residual
        u, v = u - lr * 2 * u * g, v + lr * 2 * v * g
        lrs.append(lr), gradients.append(g), products.append(u * v)
    told = diagonal.product_law(uv, gradients, lrs)
    np.testing.assert_allclose(told, products, rtol=1e-12)
    np.testing.assert_allclose(
        diagonal.product_law(uv, gradients[0], lrs[0]), products[0], rtol=1e-12
    )
    with pytest.raises(ValueError, match="gradients must have 6 columns"):
        diagonal.product_law(uv, np.ones(5), 0.1)
    with pytest.raises(ValueError, match="lr must be a number or one for each step"):
        diagonal.product_law(uv, gradients, lrs[:3])


def test_stability_is_that_of_one_sample():
    problem, (u, v) = random_problem(28, 3, 4, weight=0.3), random_start(28, 4)
    curvatures = 2 * 0.3 * 3 * np.sum(jacobian(problem.X, np.append(u, v)) ** 2, axis=1)
    assert diagonal.stability_bound(problem, {"u": u, "v": v}) == pytest.approx(
        2 / np.max(curvatures)
    )


def test_a_decay_beyond_float64_is_refused():
    """Stages of infinite length: once a loop without an end."""
    problem = gb.Regression(np.eye(2, 3), np.ones(2), 0.5)
    with pytest.raises(ValueError, match=r"t and c must have a decay.*t = 1e\+200, c = 1e\+200"):
        diagonal.limiting_flow(problem, {"u": np.ones(3), "v": 2 * np.ones(3)}, [1e200], 1e200)
