"""Potentials against derivatives in many digits, convex solvers, and flows."""

import math

import mpmath
import numpy as np
import pytest
import scipy.optimize

from gradbias.problems import Population, Regression
from gradbias.theory.potentials import Potential, hyperbolic_entropy, rank1_potential
from gradbias.theory.rank1 import balanced_limit
from theory.rank1.rank1_oracle import problem_data

X, Y = problem_data(3, 7)
PROBLEM = Regression.mean(X, Y)
THETA0 = np.random.default_rng(5).normal(size=7)
POINT = np.random.default_rng(6).normal(size=7)

POTENTIALS = {
    "one layer": rank1_potential(THETA0, 1),
    "rank one": rank1_potential(THETA0, 5),
    "even": rank1_potential(THETA0, 4),
    "gap": rank1_potential(THETA0, 5, 0.3),
    "negative gap": rank1_potential(THETA0, 3, -0.4),
    "entropy": hyperbolic_entropy(0.7),
    "tilted entropy": hyperbolic_entropy(np.linspace(0.1, 2, 7), THETA0),
    "own": Potential(lambda x: np.sum(np.cosh(x)), np.sinh, np.arcsinh),
}


@pytest.mark.parametrize("name", POTENTIALS)
def test_the_pieces_fit_together(name):
    V = POTENTIALS[name]
    step = 1e-5 * np.eye(7)
    slope = [(V.value(POINT + e) - V.value(POINT - e)) / 2e-5 for e in step]
    np.testing.assert_allclose(V.gradient(POINT), slope, atol=1e-8)
    np.testing.assert_allclose(V.inverse_gradient(V.gradient(POINT)), POINT, rtol=1e-12)
    dual = V.gradient(POINT)
    along = [(V.inverse_gradient(dual + e) - V.inverse_gradient(dual - e)) / 2e-5 for e in step]
    jacobian = V.inverse_jacobian(dual, np.eye(7))
    np.testing.assert_allclose(jacobian, np.transpose(along), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(jacobian, jacobian.T, atol=1e-7)
    away = V.bregman(POINT, THETA0)
    assert away > 1e-3 and abs(V.bregman(POINT, POINT)) < 1e-15
    assert away == pytest.approx(
        V.value(POINT) - V.value(THETA0) - V.gradient(THETA0) @ (POINT - THETA0)
    )


@pytest.mark.parametrize("name", POTENTIALS)
def test_the_limit_is_the_nearest_fit(name):
    """Fits, moves the dual variable in the row space only, and scipy finds nothing nearer."""
    V = POTENTIALS[name]
    found = V.limit(PROBLEM, THETA0)
    assert found.residual < 1e-13
    np.testing.assert_allclose(X @ found.theta, Y, atol=1e-12)
    moved = V.gradient(found.theta) - V.gradient(THETA0)
    outside = moved - X.T @ np.linalg.lstsq(X.T, moved)[0]
    assert np.linalg.norm(outside) < 1e-11 * (1 + np.linalg.norm(moved))
    fit = {"type": "eq", "fun": lambda x: X @ x - Y, "jac": lambda x: X}
    best = scipy.optimize.minimize(
        lambda x: V.bregman(x, THETA0),
        np.linalg.pinv(X) @ Y,
        jac=lambda x: V.gradient(x) - V.gradient(THETA0),
        constraints=[fit],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert np.linalg.norm(found.theta - best.x) < 1e-4 * np.linalg.norm(best.x)
    assert V.bregman(found.theta, THETA0) <= best.fun + 1e-12


def test_depth_potentials_give_the_scalar_root():
    for N in (1, 2, 5, 1001):
        for scale in (0.01, 10.0):
            for gap in (0.0, 0.4):
                V = rank1_potential(scale * THETA0, N, gap)
                expected = balanced_limit(PROBLEM, scale * THETA0, N, gap)
                found = V.limit(PROBLEM)  # from the least point of V
                error = np.linalg.norm(found.theta - expected.theta)
                assert error < 1e-11 * np.linalg.norm(expected.theta), (N, scale, gap)
                if gap == 0:
                    same = V.limit(PROBLEM, scale * THETA0).theta
                    np.testing.assert_allclose(same, found.theta, rtol=1e-10)


def test_the_printed_forms_of_theorems_1_and_2():
    for N in (1, 2, 5):
        lam, omega = 1 - 1 / N, 1 + 1 / N
        size, start = np.linalg.norm(POINT), np.linalg.norm(THETA0)
        value = size**omega / omega - POINT @ THETA0 / start**lam
        assert rank1_potential(THETA0, N).value(POINT) == pytest.approx(value, rel=1e-13)
        small = 1e-6
        change = rank1_potential(THETA0, N, small).value(POINT) - value
        assert change == pytest.approx(small / 2 * size**lam, rel=1e-4)


def test_the_conjugate_has_the_factor_of_the_first_layer():
    """V*(a) is the integral of a·Ξ(a), since ‖θ‖ = Ξ‖v1‖; without the a it is another function."""
    N, gap, a = 5, 0.3, 1.4
    V = rank1_potential(np.zeros(7), N, gap)
    dual = a * THETA0 / np.linalg.norm(THETA0)
    theta = V.inverse_gradient(dual)
    conjugate = dual @ theta - V.value(theta)
    low = gap**0.5
    right = mpmath.quad(lambda x: x * (x * x - gap) ** ((N - 1) / 2), [low, a])
    wrong = mpmath.quad(lambda x: (x * x - gap) ** ((N - 1) / 2), [low, a])
    assert conjugate == pytest.approx(float(right), rel=1e-12)
    assert abs(conjugate / float(wrong) - 1) > 0.1


def test_infinite_depth():
    V = rank1_potential(3 * THETA0, math.inf, 0.2)
    unit = THETA0 / np.linalg.norm(THETA0)
    size = np.linalg.norm(POINT)
    assert V.value(POINT) == pytest.approx(1.2**0.5 * size - POINT @ unit, rel=1e-14)
    np.testing.assert_allclose(V.gradient(POINT), 1.2**0.5 * POINT / size - unit, rtol=1e-13)
    deep = rank1_potential(3 * THETA0, 10**7, 0.2)
    assert deep.value(POINT) == pytest.approx(V.value(POINT), rel=1e-5)
    with pytest.raises(ValueError, match="depth must be finite"):
        V.inverse_gradient(POINT)
    with pytest.raises(ValueError, match="use balanced_limit"):
        V.limit(PROBLEM)
    with pytest.raises(ValueError, match="theta must not be zero"):
        V.gradient(np.zeros(7))
    with pytest.raises(ValueError, match="gap must be greater than -1"):
        rank1_potential(THETA0, math.inf, -1.0)


@pytest.mark.parametrize("alpha", [1e-8, 1e-4, 1.0, 1e3])
def test_entropy_at_extreme_scales(alpha):
    """Many digits for the pieces; HiGHS for small α, least squares for large."""
    V = hyperbolic_entropy(alpha)
    with mpmath.workdps(50):
        z = [mpmath.mpf(x) / mpmath.mpf(alpha) ** 2 for x in POINT.tolist()]
        q = [2 - mpmath.sqrt(4 + x * x) + x * mpmath.asinh(x / 2) for x in z]
        value = float(mpmath.mpf(alpha) ** 2 * sum(q))
    assert V.value(POINT) == pytest.approx(value, rel=1e-14)
    A, b = problem_data(12, 30, seed=3)
    found = V.limit(Regression.mean(A, b))
    assert found.residual < 1e-13
    lp = scipy.optimize.linprog(np.ones(60), A_eq=np.hstack([A, -A]), b_eq=b)
    l1 = np.abs(found.theta).sum() / lp.fun - 1
    l2 = np.linalg.norm(found.theta - np.linalg.pinv(A) @ b)
    if alpha == 1e-8:
        assert 0 < l1 < 0.02
    elif alpha == 1e3:
        assert l2 < 1e-6
    else:
        assert l1 > 1e-3 and l2 > 1e-3


def test_asymmetric_start_of_a_diagonal_net():
    """A flow of u and v by hand, w± of the paper; and the tilt that makes θ0 the least point."""
    rng = np.random.default_rng(2)
    u, v = rng.uniform(0.3, 1.2, size=(2, 7))
    V = hyperbolic_entropy(np.sqrt(u * v), u**2 - v**2)
    np.testing.assert_allclose(V.gradient(u**2 - v**2), 0, atol=1e-14)
    np.testing.assert_allclose(V.inverse_gradient(np.zeros(7)), u**2 - v**2, atol=1e-14)

    def descent(t, w):
        g = 2 / 3 * X.T @ (X @ (w[:7] ** 2 - w[7:] ** 2) - Y)
        return np.concatenate([-2 * w[:7] * g, 2 * w[7:] * g])

    start = np.concatenate([u, v])
    end = scipy.integrate.solve_ivp(
        descent, (0, 400), start, method="DOP853", rtol=1e-11, atol=1e-13
    )
    w = end.y[:, -1]
    theta = w[:7] ** 2 - w[7:] ** 2
    assert np.abs(X @ theta - Y).max() < 1e-9
    np.testing.assert_allclose(V.limit(PROBLEM).theta, theta, atol=1e-8)
    symmetric = hyperbolic_entropy(np.sqrt(u * v))
    np.testing.assert_allclose(symmetric.limit(PROBLEM, u**2 - v**2).theta, theta, atol=1e-8)
    assert np.abs(symmetric.limit(PROBLEM).theta - theta).max() > 1e-2


def test_an_own_potential_of_matrices():
    """Several outputs: the Frobenius norm gives the projection of the start."""
    B = np.stack([Y, Y[::-1] ** 2], axis=1)
    start = np.random.default_rng(0).normal(size=(7, 2))
    half = Potential(lambda x: np.sum(x * x) / 2, lambda x: x, lambda z: z)
    found = half.limit(Regression.half_sum(X, B), start)
    P = np.eye(7) - np.linalg.pinv(X) @ X
    np.testing.assert_allclose(found.theta, np.linalg.pinv(X) @ B + P @ start, atol=1e-12)
    fresh = Population(np.diag([1.0, 2, 0]), [[1.0, -1, 3]], np.eye(1))
    np.testing.assert_allclose(half.limit(fresh, np.ones(3)).theta, [[1.0], [-1], [1]], atol=1e-12)
    entropy = hyperbolic_entropy(0.5).limit(Regression.half_sum(X, B))  # a number fits any shape
    np.testing.assert_allclose(X @ entropy.theta, B, atol=1e-12)


def test_a_potential_that_cannot_fit_says_so():
    positive = Potential(lambda x: np.sum(x * np.log(x) - x), np.log, np.exp)
    impossible = Regression.mean([[1.0, 1.0]], [-1.0])
    assert positive.limit(impossible, [1.0, 1.0]).residual > 0.5
    assert positive.limit(Regression.mean([[1.0, 1.0]], [3.0]), [1.0, 2.0]).theta == pytest.approx(
        [1.0, 2.0], rel=1e-12
    )


def test_odd_problems():
    V = POTENTIALS["rank one"]
    nothing = V.limit(Regression.mean(np.zeros((2, 7)), np.ones(2)), THETA0)
    np.testing.assert_allclose(nothing.theta, THETA0, rtol=1e-13)
    zero = V.limit(Regression.mean(X, np.zeros(3)), THETA0)
    expected = balanced_limit(Regression.mean(X, np.zeros(3)), THETA0, 5)
    np.testing.assert_allclose(zero.theta, expected.theta, atol=1e-10)
    column = V.limit(Regression.mean(X, Y[:, None]), THETA0[:, None])
    np.testing.assert_allclose(column.theta[:, 0], V.limit(PROBLEM, THETA0).theta)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hyperbolic_entropy(0.0), "alpha must be greater than 0.*got 0"),
        (lambda: hyperbolic_entropy([1.0, -2.0]), "alpha must be greater than 0.*got -2"),
        (lambda: hyperbolic_entropy([1.0, 2.0], [1.0]), r"theta0 must have shape \(2,\)"),
        (lambda: hyperbolic_entropy([1.0, 2.0]).value([1.0]), r"theta must have shape \(2,\)"),
        (lambda: rank1_potential(THETA0, 3).value([1.0]), r"theta must have shape \(7,\)"),
        (lambda: rank1_potential(THETA0, 0), "depth must be a whole number"),
        (lambda: rank1_potential(THETA0, 3).limit(None), "problem must be a Regression"),
        (lambda: rank1_potential(THETA0, 3).bregman(THETA0, [1.0]), "one shape"),
        (lambda: rank1_potential(THETA0, 3).gradient("x"), "theta must be an array"),
        (lambda: Potential(3, np.sin, np.cos), "value must be a function, got 3"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
