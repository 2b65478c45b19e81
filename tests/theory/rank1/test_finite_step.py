"""Gaps, limits of SGD and the modified flow against plain loops."""

import numpy as np
import pytest

from gradbias.problems import Population, Regression
from gradbias.theory._problem import singular_basis
from gradbias.theory.rank1 import (
    balanced_limit,
    gd_gap,
    modified_loss,
    modified_velocity,
    sgd_limit,
)
from gradbias.theory.rank1._gap import STIFF
from gradbias.theory.rank1._sgd_limit import minibatch_moments
from theory.rank1.rank1_oracle import (
    balanced_params,
    flat,
    flow,
    gradients,
    predictor,
    problem_data,
    random_params,
    rank1_sgd,
    shaped,
)

X, Y = problem_data(6, 14)
THETA0 = np.random.default_rng(5).normal(size=14)
THETA0 /= np.linalg.norm(THETA0)


@pytest.mark.parametrize(
    ("depth", "scale", "weight"), [(2, 0.1, 1 / 6), (5, 1.0, 1 / 6), (4, 1.0, 0.5)]
)
def test_gap_of_gradient_descent(depth, scale, weight):
    """First order: the error is a few lr, and falls with it; weight·lr alone matters."""
    problem, theta0 = Regression(X, Y, weight), scale * THETA0
    errors = []
    for lr in (2e-3 / (6 * weight), 1e-3 / (6 * weight)):
        gap, theta, residual = rank1_sgd(X, Y, weight, theta0, depth, lr, int(9 / lr / 6 / weight))
        predicted = gd_gap(problem, theta0, depth, lr)
        errors.append(abs(predicted / gap[0] - 1))
        exact = balanced_limit(problem, theta0, depth, float(gap[0]))
        if residual < 1e-9:  # the gap at the end decides the end, to rounding
            np.testing.assert_allclose(exact.theta, theta[0], atol=1e-8)
    assert errors[0] < 0.02 and 0.4 < errors[1] / errors[0] < 0.6
    assert balanced_limit(problem, theta0, depth).distance > exact.distance


def test_the_gap_of_stiff_data_is_the_same():
    U, _, Vt = np.linalg.svd(X, full_matrices=False)
    A = U * np.geomspace(1, 0.05, 6) @ Vt
    s = np.linalg.svd(A, compute_uv=False)
    b = A @ THETA0[::-1]
    stiff = 5 * (s[0] / s[-1]) ** 2 > STIFF
    gap = rank1_sgd(A, b, 0.5, THETA0, 5, 0.05, 15_000)[0]
    assert stiff and gd_gap(Regression.half_sum(A, b), THETA0, 5, 0.05) == pytest.approx(
        gap[0], rel=0.02
    )


@pytest.mark.parametrize("replace", [False, True])
def test_second_moments_are_those_of_the_draws(replace):
    """Every possible batch of two, counted."""
    problem = Regression(X, Y, 0.3)
    view = singular_basis(problem)
    theta, w = 0.3 * THETA0, np.random.default_rng(1).normal(size=14)
    pairs = [(i, j) for i in range(6) for j in range(6) if replace or i != j]
    grads = [2 * 0.3 * 6 / 2 * X[list(p)].T @ (X[list(p)] @ theta - Y[list(p)]) for p in pairs]
    variance = 6 / 2 if replace else 6 / 2 * (6 - 2) / (6 - 1)
    found = minibatch_moments(problem, view, variance)(
        view.basis.T @ theta - view.minimiser, view.basis.T @ w
    )
    assert found.square == pytest.approx(np.mean([g @ g for g in grads]), rel=1e-12)
    assert found.along == pytest.approx(np.mean([(g @ w) ** 2 for g in grads]), rel=1e-12)


def test_sgd_ends_there_in_the_mean():
    problem, lr, members = Regression.mean(X, Y), 1e-3, 40
    gap, theta, residual = rank1_sgd(X, Y, 1 / 6, THETA0, 5, lr, 9000, 2, members)
    assert residual < 1e-4
    found = sgd_limit(problem, THETA0, 5, lr, 2)
    distance = np.linalg.norm(theta - problem.min_norm, axis=1)
    error = distance.std() / members**0.5
    gd = balanced_limit(problem, THETA0, 5, gd_gap(problem, THETA0, 5, lr))
    assert abs(found.distance - distance.mean()) < 3 * error + 2e-3 * found.distance
    assert gd.distance - distance.mean() > 10 * error  # the noise is seen, and its sign
    assert found.gap == pytest.approx(gap.mean(), rel=0.05)
    assert found.gap > 2 * gd.gap > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scale", "lr", "replace"), [(0.1, 1e-3, False), (1.0, 1e-3, True), (1.0, 2.5e-4, False)]
)
def test_sgd_ensembles(scale, lr, replace):
    A, b = problem_data(10, 30)
    problem, theta0, members = Regression.mean(A, b), scale * np.ones(30) / 30**0.5, 100
    gap, theta, residual = rank1_sgd(A, b, 0.1, theta0, 5, lr, int(20 / lr), 2, members, replace)
    assert residual < 1e-6
    found = sgd_limit(problem, theta0, 5, lr, 2, replace)
    distance = np.linalg.norm(theta - problem.min_norm, axis=1)
    allowed = 3 * distance.std() / members**0.5 + 2 * lr * found.distance
    assert abs(found.distance - distance.mean()) < allowed
    assert found.gap == pytest.approx(gap.mean(), rel=60 * lr)


def test_sgd_without_noise_or_room():
    problem = Regression.mean(X, Y)
    everything = sgd_limit(problem, THETA0, 5, 1e-3, 6)
    assert everything.gap == pytest.approx(gd_gap(problem, THETA0, 5, 1e-3), rel=1e-12)
    one_layer = sgd_limit(problem, THETA0, 1, 1e-3, 2)
    assert one_layer.gap == 0
    A, b = problem_data(9, 4)  # n ≥ d: SGD, GD and flow end at the same point
    square = sgd_limit(Regression.mean(A, b), np.ones(4), 5, 1e-3, 2)
    np.testing.assert_allclose(square.theta, np.linalg.pinv(A) @ b, rtol=1e-10)
    assert gd_gap(Regression.mean(np.zeros((2, 3)), np.zeros(2)), np.ones(3), 3, 0.1) == 0
    settled = Regression.mean(X, X @ THETA0)
    assert gd_gap(settled, THETA0, 3, 0.1) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: sgd_limit(p, THETA0, 5, 1e-3, 7), "batch_size must be at most the 6"),
        (lambda p: sgd_limit(p, THETA0, 5, -1.0, 2), "lr must be at least 0"),
        (lambda p: sgd_limit(p, THETA0, float("inf"), 0.1, 2), "depth must be a whole number"),
        (lambda p: sgd_limit(p, 0 * THETA0, 5, 0.1, 2), "theta0 must not be zero"),
        (lambda p: gd_gap(p, THETA0[:3], 5, 0.1), "theta0 must have shape"),
        (
            lambda p: sgd_limit(Population(np.eye(14), [THETA0], np.eye(1)), THETA0, 5, 0.1, 2),
            "problem must be a Regression for sgd_limit, got Population",
        ),
        (
            lambda p: sgd_limit(Regression.mean(X[[0, 0, 1]], Y[:3]), THETA0, 5, 0.1, 2),
            "labels that can be fitted, got a least loss",
        ),
        (
            lambda p: gd_gap(Regression.mean(X[:1], Y[:1]), -X[0] * np.sign(Y[0]), 3, 0.1),
            "must not lie on the line",
        ),
        (lambda p: modified_loss(p, {"a": THETA0}, 0.1), r"params must be those.*\['a'\]"),
        (lambda p: modified_loss(p, [THETA0], 0.1), "params must be a dict.*list"),
        (lambda p: modified_loss(p, {"W1": np.ones((3, 1))}, 0.1), "theta must have shape"),
        (
            lambda p: modified_loss(p, {"W1": np.ones((14, 2)), "W2": np.ones((3, 1))}, 0.1),
            r"params must fit together.*\(14, 2\)",
        ),
        (
            lambda p: gd_gap(Regression.mean(1e155 * X, 1e155 * Y), THETA0, 5, 0.1),
            "lr is too large for this problem.*range of float64, got 0.1",
        ),
        (
            lambda p: gd_gap(Regression.mean(X, 1e200 * Y), THETA0, 2, 1e-50),
            "problem, theta0 must be of moderate size: gd_gap would leave the range.*1e3",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(Regression.mean(X, Y))


def test_the_gap_of_data_whose_squares_leave_float64():
    """Data s times as large with steps 1/s² as long are the same descent."""
    gap = gd_gap(Regression.mean(X, Y), THETA0, 5, 0.1)
    for s, lr in [(2.0**498, 0.1), (2.0**800, 0.1 * 2.0**-1000), (2.0**-498, 0.1)]:
        found = gd_gap(Regression.mean(s * X, s * Y), THETA0, 5, lr)
        assert found / s / s == pytest.approx(gap * (lr / 0.1), rel=1e-7)


NETS = {
    "rank one": random_params(3, 14, 3, 1.0, 0),
    "one layer": random_params(1, 14, 3, 1.0, 0),
    "deep": {
        f"W{i}": np.random.default_rng(i).normal(size=s) / 2
        for i, s in enumerate([(14, 3), (3, 4), (4, 2)], start=1)
    },
    "diagonal": dict(zip("uv", np.random.default_rng(0).normal(size=(2, 14)), strict=True)),
}


@pytest.mark.parametrize("name", NETS)
def test_modified_velocity_is_the_gradient_of_the_modified_loss(name):
    params = NETS[name]
    labels = np.stack([Y, Y**2], axis=1) if name == "deep" else Y
    problem, lr = Regression.half_mean(X, labels), 0.3
    velocity = modified_velocity(problem, params, lr)
    for key, value in params.items():
        assert velocity[key].shape == value.shape
        for index in np.ndindex(value.shape):
            sides = []
            for sign in (1, -1):
                moved = value.copy()
                moved[index] += sign * 1e-5
                sides.append(modified_loss(problem, {**params, key: moved}, lr))
            slope = (sides[0] - sides[1]) / 2e-5
            assert velocity[key][index] == pytest.approx(-slope, rel=1e-5, abs=1e-6)


def test_descent_follows_the_modified_flow_to_second_order():
    problem = Regression.mean(X, Y)
    start = balanced_params(THETA0, 2, seed=1)
    errors, plain = [], []
    for lr in (0.02, 0.01):
        params = start
        for _ in range(round(0.4 / lr)):
            g = 2 / 6 * X.T @ (X @ predictor(params) - Y)
            params = shaped(params, flat(params) - lr * flat(gradients(params, g)))
        moved = flow(
            X, Y, 1 / 6, start, lambda p, lr=lr: modified_velocity(problem, p, lr), until=0.4
        )
        errors.append(np.linalg.norm(flat(params) - flat(moved)))
        plain.append(np.linalg.norm(flat(params) - flat(flow(X, Y, 1 / 6, start, until=0.4))))
    assert 3.5 < errors[0] / errors[1] < 4.6
    assert 1.8 < plain[0] / plain[1] < 2.2 and plain[1] > 5 * errors[1]
