"""Decoupled decay: the constrained minimiser, against runs and against scipy."""

import numpy as np
import pytest
import scipy.optimize

import gradbias as gb
from gradbias.theory import optimisers

N, D = 30, 10


def boxed(seed, active=5):
    """Least squares, and a decay for which so many coordinates are at the box."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(N, D)), rng.normal(size=N) * 3
    problem = gb.Regression.half_mean(X, y)
    size = np.sort(np.abs(np.linalg.lstsq(X, y)[0]))[::-1]
    decay = 1 / np.sqrt(size[active - 1] * size[active])
    return problem, float(decay)


def shrinking(k):
    return 0.05 / (1 + k / 300)


def end_of(problem, dynamics, steps, net=None):
    net = gb.Deep([problem.d, problem.k]) if net is None else net
    params = {"W1": np.zeros((problem.d, problem.k))}
    setup = gb.Setup(problem, net, params, dynamics, gb.Until(steps=steps), save_at=[steps])
    return gb.simulate(setup).theta


@pytest.mark.parametrize("seed", range(5))
def test_the_box_by_another_method(seed):
    """L-BFGS-B on the same problem; the gap certifies both."""
    problem, decay = boxed(seed)
    ball = optimisers.decay_ball(problem, decay, gb.geometry.Linf)
    found = scipy.optimize.minimize(
        lambda x: float(problem.loss(x)),
        np.zeros(D),
        jac=lambda x: np.ravel(problem.theta_gradient(x[:, None])),
        method="L-BFGS-B",
        bounds=[(-1 / decay, 1 / decay)] * D,
        options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 5000},
    )
    np.testing.assert_allclose(ball.theta, found.x, rtol=0, atol=1e-6)
    assert ball.radius == 1 / decay
    assert np.sum(np.abs(ball.theta) > (1 - 1e-9) / decay) >= 3
    slope = np.abs(problem.theta_gradient(0 * ball.theta[:, None])).sum()
    assert abs(ball.gap) < 1e-12 * slope
    assert optimisers.frank_wolfe_gap(problem, found.x, decay, gb.geometry.Linf) < 1e-4 * slope
    off = optimisers.frank_wolfe_gap(problem, 0.9 * ball.theta, decay, gb.geometry.Linf)
    assert off > 1e-3 * slope


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_adamw_lion_and_signs_end_in_the_box_and_adam_does_not(seed):
    problem, decay = boxed(seed)
    steps = 40_000
    close = shrinking(steps) * np.sqrt(D) * decay
    theta = optimisers.decay_ball(problem, decay, gb.geometry.Linf).theta
    for dynamics in (
        gb.Adam(shrinking, (0.9, 0.99), 0.0, decay),
        gb.Lion(shrinking, weight_decay=decay),
        gb.Steepest(shrinking, gb.geometry.Linf, weight_decay=decay),
    ):
        found = end_of(problem, dynamics, steps)
        assert np.abs(found - theta).max() < close
        assert np.abs(found).max() < (1 + 1e-3) / decay
    coupled = end_of(problem, gb.Adam(shrinking, (0.9, 0.99), 0.0, decay, False), steps)
    X, y = problem.X, np.ravel(problem.labels)
    ridge = np.linalg.solve(X.T @ X / N + decay * np.eye(D), X.T @ y / N)
    assert np.abs(coupled - theta).max() > 0.1
    assert np.abs(coupled - ridge).max() < 1e-3


def test_the_frank_wolfe_step_itself():
    """x ← (1 − ηλ)x + ηs with ηλ = 2/(k + 2): the gap of L falls at least as 8H/(λ²(k + 2))."""
    problem, decay = boxed(1)
    ball = optimisers.decay_ball(problem, decay, gb.geometry.Linf)
    dynamics = gb.Steepest(lambda k: 2 / (k + 2) / decay, gb.geometry.Linf, weight_decay=decay)
    smooth = np.abs(problem.X.T @ problem.X / N).sum()  # of L in ℓ∞, from above
    for steps in (1000,):
        found = end_of(problem, dynamics, steps)
        above = float(problem.loss(found) - problem.loss(ball.theta))
        gap = optimisers.frank_wolfe_gap(problem, found, decay, gb.geometry.Linf)
        assert -1e-12 <= above <= 8 * smooth / decay**2 / (steps + 2)
        assert above <= gap / decay


@pytest.mark.slow
def test_coordinates_with_a_constant_sign_relax_exactly():
    problem, decay = boxed(2)
    X, y = problem.X, np.ravel(problem.labels)
    far = gb.Regression.half_mean(X, y + 100 * X @ np.sign(X.T @ y))
    sign = np.sign(X.T @ far.labels)
    steps, lr = 100, 0.01
    found = end_of(far, gb.Steepest(lr, gb.geometry.Linf, weight_decay=decay), steps)
    wanted = sign.ravel() / decay * (1 - (1 - lr * decay) ** steps)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def matrices(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.normal(size=(40, 5)), 3 * rng.normal(size=(40, 4))
    problem = gb.Regression.half_mean(X, Y)
    s = np.linalg.svd(np.linalg.lstsq(X, Y)[0], compute_uv=False)
    return problem, float(1 / np.sqrt(s[1] * s[2]))


def test_the_spectral_ball():
    """Muon with decay comes to it, within 5·lr/λ; a point of the ball near it is not better."""
    problem, decay = matrices(0)
    ball = optimisers.decay_ball(problem, decay, gb.geometry.Spectral)
    s = np.linalg.svd(ball.theta, compute_uv=False)
    np.testing.assert_allclose(s[:2] * decay, 1.0, rtol=1e-9)
    assert 0 <= ball.gap < 1e-11
    found = end_of(problem, gb.Muon(shrinking, 0.0, weight_decay=decay), 10_000)
    assert np.abs(found - ball.theta).max() < 5 * shrinking(10_000) / decay
    coupled = end_of(
        problem,
        gb.Steepest(shrinking, gb.geometry.Product(gb.geometry.Spectral), 0.0, decay, False),
        10_000,
    )
    assert np.abs(coupled - ball.theta).max() > 0.1


def test_the_euclidean_ball_is_ridge():
    """The multiplier of ‖θ‖ ≤ 1/λ is a ridge: found by a root, not by projections."""
    problem, decay = boxed(3)
    X, y = problem.X, np.ravel(problem.labels)

    def ridge(mu):
        return np.linalg.solve(X.T @ X / N + mu * np.eye(D), X.T @ y / N)

    mu = scipy.optimize.brentq(lambda m: np.linalg.norm(ridge(m)) - 1 / decay, 0, 1e3, xtol=1e-15)
    ball = optimisers.decay_ball(problem, decay, gb.geometry.L2)
    np.testing.assert_allclose(ball.theta, ridge(mu), rtol=0, atol=1e-9)


def test_population_and_large_balls():
    problem = gb.Population(np.diag([1.0, 2.0, 3.0]), np.array([[1.0, -2.0, 0.1]]), np.eye(1))
    inside = optimisers.decay_ball(problem, 0.1, gb.geometry.Linf)
    np.testing.assert_allclose(inside.theta, problem.min_norm, rtol=0, atol=1e-12)
    box = optimisers.decay_ball(problem, 1.0, gb.geometry.Linf)
    np.testing.assert_allclose(np.ravel(box.theta), [1, -1, 0.1], rtol=0, atol=1e-12)


def test_outside_the_ball_the_gap_may_be_negative():
    problem = gb.Regression([[1.0]], [[5.0]], 0.5)
    assert optimisers.frank_wolfe_gap(problem, [[2.0]], 1.0, gb.geometry.L2) == pytest.approx(-3)


@pytest.mark.slow
def test_no_norm_is_the_least_in_regression():
    """Steepest descent in ℓ4 ends where its step size says; gradient descent does not."""
    problem = gb.Regression([[1.0, 1, 1], [1, 2, 0]], [1.0, 10], 0.5)
    net = gb.Deep([3, 1])
    params = {"W1": np.zeros((3, 1))}

    def end(p, lr):
        dynamics = gb.Steepest(lr, gb.geometry.Lp(p), normalised=False)
        steps = round(60 / lr)
        setup = gb.Setup(problem, net, params, dynamics, gb.Until(steps=steps), save_at=[steps])
        return np.ravel(gb.simulate(setup).theta)[0]

    ends = [end(4, lr) for lr in (0.05, 0.01)]
    np.testing.assert_allclose(ends, [-0.293, 0.068], rtol=0, atol=2e-3)
    np.testing.assert_allclose([end(2, lr) for lr in (0.05, 0.01)], 1 / 3, rtol=0, atol=1e-9)


def test_refusals():
    problem, _ = boxed(0)
    with pytest.raises(ValueError, match="weight_decay must be greater than 0"):
        optimisers.decay_ball(problem, 0, gb.geometry.Linf)
    with pytest.raises(ValueError, match="geometry must be Linf, L2 or Spectral, got L1"):
        optimisers.decay_ball(problem, 1, gb.geometry.L1)
    with pytest.raises(ValueError, match="geometry must be a geometry such as"):
        optimisers.decay_ball(problem, 1, "box")
