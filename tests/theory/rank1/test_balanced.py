"""The limit of balanced nets against full flows, a convex solver and many digits."""

import math
import time

import mpmath
import numpy as np
import pytest
import scipy.optimize

from gradbias.problems import Population, Regression
from gradbias.theory.potentials._root import growth
from gradbias.theory.rank1 import balanced_limit
from theory.rank1.rank1_oracle import (
    balanced_layers,
    balanced_params,
    flow,
    predictor,
    problem_data,
)

X, Y = problem_data(3, 7)
THETA0 = np.random.default_rng(5).normal(size=7)
THETA0 /= np.linalg.norm(THETA0)


def close(a, b, tolerance):
    return np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b)


@pytest.mark.parametrize("scale", [0.01, 0.3, 3.0, 10.0])
@pytest.mark.parametrize("L", [2, 3, 4, 6])
def test_rank1_flow_ends_there(L, scale):
    weight = 1 / 3
    signs = [-1.0] + [1.0] * (L - 2)  # a negative alignment is balanced, too
    end = flow(X, Y, weight, balanced_params(scale * THETA0, L, signs=signs), stop=1e-19)
    found = balanced_limit(Regression(X, Y, weight), scale * THETA0, 2 * L - 1)
    assert close(found.theta, predictor(end), 1e-8)
    assert found.residual < 1e-13 and not found.saddle
    assert abs(found.s / np.linalg.norm(end["u"][0]) - 1) < 1e-8
    assert not close(
        balanced_limit(Regression(X, Y, weight), scale * THETA0, L).theta, predictor(end), 1e-4
    )  # the depth of a rank-1 net is not L


@pytest.mark.parametrize("scale", [0.1, 5.0])
@pytest.mark.parametrize("N", [1, 2, 3, 4])
def test_standard_flow_ends_there(N, scale):
    end = flow(X, Y, 0.5, balanced_layers(scale * THETA0, N), stop=1e-19)
    found = balanced_limit(Regression.half_sum(X, Y), scale * THETA0, N)
    assert close(found.theta, predictor(end), 1e-8)


def test_rank_deficient_data_that_cannot_be_fitted():
    A = np.vstack([X, X[0] + X[1], 2 * X[2]])
    b = np.concatenate([Y, [1.0, -2.0]])
    problem = Regression(A, b, 0.3)
    # The same minimisers, from data that can be fitted: flow of the loss above its minimum.
    clean = A @ (np.linalg.pinv(A) @ b)
    end = flow(A, clean, 0.3, balanced_params(THETA0, 3), stop=1e-19)
    found = balanced_limit(problem, THETA0, 5)
    assert close(found.theta, predictor(end), 1e-8)
    column = Regression(A, b[:, None], 0.3)
    assert balanced_limit(column, THETA0[:, None], 5).theta.shape == (7, 1)
    np.testing.assert_array_equal(balanced_limit(column, THETA0, 5).theta[:, 0], found.theta)


@pytest.mark.parametrize("gap", [0.0, 0.4, -0.3])
@pytest.mark.parametrize("N", [2, 5])
def test_it_is_the_least_point_of_the_potential_with_a_gap(N, gap):
    """scipy's SLSQP on V_δ = s^(N−1)(s²N/(N+1) + δ) − θ·θ0, with s from its own root."""

    def layer(size):
        def equation(s):
            return s ** (2 * N - 2) * (s * s + gap) - size**2

        return scipy.optimize.brentq(equation, max(-gap, 0) ** 0.5, 9.0, xtol=1e-15, rtol=1e-14)

    def V(theta):
        s = layer(np.linalg.norm(theta))
        return s ** (N - 1) * (s * s * N / (N + 1) + gap) - theta @ THETA0

    fit = {"type": "eq", "fun": lambda theta: X @ theta - Y, "jac": lambda theta: X}
    best = scipy.optimize.minimize(
        V, np.linalg.pinv(X) @ Y, constraints=[fit], method="SLSQP", options={"ftol": 1e-15}
    )
    found = balanced_limit(Regression.mean(X, Y), THETA0, N, gap)
    assert close(found.theta, best.x, 1e-5)
    assert V(found.theta) <= V(best.x) + 1e-13
    other = balanced_limit(Regression.mean(X, Y), THETA0, N, gap + 0.05)
    assert not close(other.theta, best.x, 1e-3)
    assert other.distance < found.distance  # a larger gap ends nearer to the least norm


@mpmath.workdps(50)
def test_the_scalar_root_to_many_digits():
    for m in (1, 1000, 10**6):
        for T in (-1200.0, 0.3, 1200.0):
            for b in (-0.5, 1e-9, 0.3, 1 - 1e-12, 1.0, 1.4, 50.0):
                exact = _root(m, mpmath.mpf(b) - 1, T)
                found = growth(m, b, b - 1, T)
                assert abs(found.z - exact) <= 1e-14 * max(1, abs(exact)), (m, T, b)
                assert found.residual < 1e-10


def _root(m, e, T):
    def value(x):
        p, square = mpmath.exp(x) + max(e, 0), mpmath.exp(x) - min(e, 0)
        return m * mpmath.log(square) + mpmath.log(p)

    low, high = mpmath.mpf(-5000), mpmath.mpf(5000)
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if value(middle) > T else (middle, high)
    return float(m * mpmath.log(mpmath.exp(low) - min(e, 0)))


def test_many_layers_and_infinitely_many():
    problem = Regression.mean(X, Y)
    P = np.eye(7) - np.linalg.pinv(X) @ X
    c, t = np.linalg.norm(P @ THETA0), np.linalg.norm(problem.min_norm)
    endless = balanced_limit(problem, 7 * THETA0, math.inf)
    assert abs(endless.distance / (t * c / (1 - c**2) ** 0.5) - 1) < 1e-14
    np.testing.assert_allclose(endless.theta, balanced_limit(problem, THETA0, math.inf).theta)
    errors = [
        np.linalg.norm(balanced_limit(problem, 7 * THETA0, N).theta - endless.theta)
        for N in (10**2, 10**4, 10**6)
    ]
    assert errors[1] / errors[0] < 0.02 and errors[2] / errors[1] < 0.02  # falls like 1/N
    with_gap = balanced_limit(problem, THETA0, math.inf, 0.2)
    assert abs(with_gap.distance / (t * c / (1.2 - c**2) ** 0.5) - 1) < 1e-14
    with pytest.raises(ValueError, match="theta0 must have a part inside"):
        wide = Regression.mean(np.eye(2, 7), [1.0, 2.0])
        balanced_limit(wide, np.eye(7)[3], math.inf)


def test_scales_from_end_to_end_of_the_floats():
    for scale in (1e-150, 1e-20, 1.0, 1e20, 1e150):
        for N in (1, 2, 5, 10**6):
            # θ and y scaled together: the whole limit is.
            problem = Regression.mean(X, scale * Y)
            found = balanced_limit(problem, scale * THETA0, N)
            usual = balanced_limit(Regression.mean(X, Y), THETA0, N)
            np.testing.assert_allclose(found.theta / scale, usual.theta, rtol=1e-12)
    tiny = [balanced_limit(Regression.mean(X, Y), 10.0**-k * THETA0, 5).distance for k in (50, 100)]
    assert abs(math.log10(tiny[0] / tiny[1]) - 10) < 1e-6  # ∝ ‖θ0‖^{1/N}
    apart = balanced_limit(Regression.mean(X, 1e300 * Y), 1e-300 * THETA0, math.inf)
    usual = balanced_limit(Regression.mean(X, Y), THETA0, math.inf)
    np.testing.assert_allclose(apart.theta / 1e300, usual.theta, rtol=1e-12)
    huge = balanced_limit(Regression.mean(X, Y), 1e100 * THETA0, 5)
    P = np.eye(7) - np.linalg.pinv(X) @ X
    assert abs(huge.distance / (1e100 * np.linalg.norm(P @ THETA0) ** 5) - 1) < 1e-10


def test_one_layer_is_the_projection_of_the_start():
    problem = Regression.mean(X, Y)
    P = np.eye(7) - np.linalg.pinv(X) @ X
    for gap in (0.0, 3.0):
        found = balanced_limit(problem, THETA0, 1, gap)
        np.testing.assert_allclose(found.theta, np.linalg.pinv(X) @ Y + P @ THETA0, atol=1e-14)
    np.testing.assert_allclose(balanced_limit(problem, np.zeros(7), 1).theta, problem.min_norm)


def test_the_printed_interpolation_claim_has_a_counter_example():
    """n = 1, θ0 = −c·x·sign(y): the flow runs into the saddle and never fits."""
    x, y = np.array([[0.6, -1.1, 0.4]]), np.array([1.7])
    for L in (2, 3):
        theta0 = -0.8 * x[0]
        found = balanced_limit(Regression.mean(x, y), theta0, 2 * L - 1)
        assert found.saddle and not found.theta.any()
        end = predictor(flow(x, y, 1.0, balanced_params(theta0, L), until=1e4))
        assert np.linalg.norm(end) < 0.05 and (x @ end - y) ** 2 > 2.8
        off = balanced_limit(Regression.mean(x, y), theta0 + np.array([0, 0, 1e-3]), 2 * L - 1)
        assert not off.saddle and abs(x[0] @ off.theta - 1.7) < 1e-12
        towards = balanced_limit(Regression.mean(x, y), -theta0, 2 * L - 1)
        assert not towards.saddle and abs(x[0] @ towards.theta - 1.7) < 1e-12
    # The line also exists for whitened data of any rank.
    whitened = Regression.mean(np.eye(3, 5), [1.0, 2.0, -1.0])
    assert balanced_limit(whitened, -2.0 * whitened.min_norm, 3).saddle
    assert not balanced_limit(whitened, -2.0 * whitened.min_norm, 1).saddle
    stretched = Regression.mean(np.diag([1.0, 2, 3]) @ np.eye(3, 5), [1.0, 2.0, -1.0])
    assert not balanced_limit(stretched, -2.0 * stretched.min_norm, 3).saddle


def test_odd_problems():
    nothing = Regression.mean(np.zeros((2, 3)), np.ones(2))  # zero data: nothing moves
    np.testing.assert_allclose(balanced_limit(nothing, [1.0, 2, 2], 5).theta, [1.0, 2, 2])
    zero = Regression.mean(X, np.zeros(3))  # the flow of v1 alone: v1 → P_N v1
    P = np.eye(7) - np.linalg.pinv(X) @ X
    c = np.linalg.norm(P @ THETA0)
    np.testing.assert_allclose(balanced_limit(zero, THETA0, 5).theta, c**4 * P @ THETA0)
    one = Regression.mean([[2.0]], [3.0])
    np.testing.assert_allclose(balanced_limit(one, [5.0], 7).theta, [1.5])
    assert balanced_limit(one, [0.0], 2).saddle
    fresh = Population(np.diag([1.0, 2, 0, 0]), [[1.0, -1, 3, 0]], np.eye(1))
    expected = balanced_limit(Regression.mean(np.eye(2, 4), [1.0, -1]), np.ones(4), 3).theta
    np.testing.assert_allclose(balanced_limit(fresh, np.ones(4), 3).theta[:, 0], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Regression.mean(X, np.ones((3, 2))), THETA0, 3), "one output.*got k = 2"),
        ((None, THETA0, 3), "problem must be a Regression.*NoneType"),
        ((Regression.mean(X, Y), THETA0[:4], 3), r"theta0 must have shape \(7,\).*\(4,\)"),
        ((Regression.mean(X, Y), THETA0 * np.nan, 3), "theta0 must be finite"),
        ((Regression.mean(X, Y), THETA0, 0), "depth must be a whole number of at least 1, got 0"),
        ((Regression.mean(X, Y), THETA0, 2.5), "depth must be a whole number"),
        ((Regression.mean(X, Y), THETA0, 3, math.inf), "gap must be finite"),
        ((Regression.mean(X, Y), 1e308 * np.ones(7), 3), "theta0 must have a norm within"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        balanced_limit(*arguments)


def test_it_is_cheap():
    A, b = problem_data(40, 100)
    problem, theta0 = Regression.mean(A, b), np.ones(100)
    balanced_limit(problem, theta0, 5)
    best = math.inf
    for _ in range(20):
        start = time.perf_counter()
        balanced_limit(problem, theta0, 5)
        best = min(best, time.perf_counter() - start)
    assert best < 5e-3


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-290, 1e-200, 1e-100, 1e100])
def test_one_layer_is_least_squares_at_any_size(scale):
    problem = Regression.mean(X, Y)
    found = balanced_limit(problem, scale * THETA0, 1, gap=0.5)
    V = problem.row_space
    outside = scale * THETA0 - V @ (V.T @ (scale * THETA0))
    np.testing.assert_allclose(found.theta, problem.min_norm + outside, rtol=1e-12)
    assert found.distance == pytest.approx(np.linalg.norm(outside / (scale or 1)) * scale)
    assert found.s == pytest.approx(np.linalg.norm(found.theta))


def test_a_gap_beyond_the_layers_of_a_tiny_start():
    with pytest.raises(ValueError, match="gap must not exceed.*got 1e"):
        balanced_limit(Regression.mean(X, Y), 1e-300 * THETA0, 2, gap=1e10)
