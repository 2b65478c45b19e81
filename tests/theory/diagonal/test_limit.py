"""The end of gradient flow by the dual, against integration and a primal solver."""

import numpy as np
import pytest
from scipy.optimize import minimize

import gradbias as gb
from gradbias.theory import diagonal
from theory.diagonal.diagonal_oracle import gradient_flow, random_problem, random_start

FLOWS = {
    "wide": (random_problem(0, 3, 6), random_start(0, 6), 60),
    "tall, no fit": (random_problem(1, 8, 4, weight=0.1), random_start(1, 4), 250),
    "rank-deficient, no fit": (
        random_problem(2, 4, 6, weight=2.0, duplicate=True),
        random_start(2, 6, 0.3),
        60,
    ),
    "one by one": (random_problem(3, 1, 1), random_start(3, 1), 60),
    "small init": (random_problem(6, 3, 5), random_start(6, 5, 1e-4), 60),
    "large init": (random_problem(5, 3, 5), random_start(5, 5, 5.0), 2),
}


@pytest.mark.parametrize("case", FLOWS)
def test_it_is_where_the_flow_goes(case):
    problem, (u0, v0), T = FLOWS[case]
    u, v, _ = gradient_flow(problem, u0, v0, T)
    end = diagonal.limit(problem, {"u": u0, "v": v0})
    size = np.max(np.abs([u, v]))
    np.testing.assert_allclose(end.u, u, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(end.v, v, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(end.theta, end.u**2 - end.v**2, rtol=0, atol=1e-14 * size**2)
    assert end.residual < 1e-14
    assert problem.loss(end.theta) == pytest.approx(problem.min_loss, abs=1e-12)


def test_zeros_keep_their_sign():
    """v = 0 keeps θ ≥ 0: ends inside, ends at the boundary, coordinates that are not there."""
    for seed, (n, d), zeros in [
        (7, (3, 6), "v"),
        (1, (8, 4), "v"),  # the fit is not reachable: non-negative least squares
        (9, (3, 6), "mixed"),
    ]:
        problem, (u0, v0) = random_problem(seed, n, d), random_start(seed, d)
        if zeros == "v":
            v0 = np.zeros(d)
        else:
            u0[0], v0[1] = 0.0, 0.0
            u0[2] = v0[2] = 0.0
        u, v, _ = gradient_flow(problem, u0, v0, 60)
        end = diagonal.limit(problem, {"u": u0, "v": v0})
        np.testing.assert_allclose(end.theta, u**2 - v**2, rtol=0, atol=1e-10)
        np.testing.assert_array_equal((end.u == 0) & (u0 != 0), False)
        np.testing.assert_array_equal(end.v[v0 == 0], 0.0)
        if (n, d) == (8, 4):
            assert problem.loss(end.theta) > problem.min_loss + 1e-3  # the signs do bind


def test_it_minimises_the_hyperbolic_entropy():
    """Woodworth et al.: Σα²q(θ/α²) − θ·asinh(θ₀/2α²), α² = |uv|, over the fits."""
    problem, (u0, v0) = random_problem(10, 3, 7), random_start(10, 7, 0.7)
    a2, tilt = np.abs(u0 * v0), np.arcsinh((u0**2 - v0**2) / (2 * np.abs(u0 * v0)))
    base = np.linalg.lstsq(problem.X, problem.Y)[0]
    free = np.linalg.svd(problem.X)[2][3:].T

    def entropy(z):
        ratio = (base + free @ z) / a2
        value = a2 @ (2 - np.sqrt(4 + ratio**2) + ratio * np.arcsinh(ratio / 2))
        slope = np.arcsinh(ratio / 2) - tilt
        return value - tilt @ (base + free @ z), free.T @ slope

    def curvature(z):
        return (free.T / np.hypot(2 * a2, base + free @ z)) @ free

    best = minimize(entropy, np.zeros(4), jac=True, hess=curvature, method="trust-exact", tol=1e-13)
    z = best.x  # to 1e-8 only: it stops where values differ by rounding, so the slope goes on
    for _ in range(3):
        z = z - np.linalg.solve(curvature(z), entropy(z)[1])
    assert np.max(np.abs(entropy(z)[1])) < 1e-14
    theta = diagonal.limit(problem, {"u": u0, "v": v0}).theta
    np.testing.assert_allclose(theta, base + free @ z, rtol=0, atol=1e-11)


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e3, 1e150])
def test_extreme_starts(scale):
    """Conservation of uv, a in the row space and the fit, to rounding, without a reference."""
    problem, (u0, v0) = random_problem(11, 4, 9), random_start(11, 9, scale)
    end = diagonal.limit(problem, {"u": u0, "v": v0})
    assert end.residual < 1e-13
    logs = np.log(np.abs(end.u / u0)), np.log(np.abs(end.v / v0))
    size = 1 + np.max(np.abs(logs))
    np.testing.assert_allclose(logs[0], -logs[1], rtol=0, atol=1e-13 * size)
    null = np.linalg.svd(problem.X)[2][4:]
    np.testing.assert_allclose(null @ logs[0], 0, atol=1e-12 * size)
    np.testing.assert_array_equal(np.sign(end.u), np.sign(u0))


@pytest.mark.parametrize("labels", [1e-150, 1e-8, 1e8, 1e150])
@pytest.mark.parametrize("inputs", [1e-100, 1.0, 1e100])
def test_extreme_data(labels, inputs):
    """Scaling X and y together changes nothing; scaling y alone is a smaller start."""
    plain, (u0, v0) = random_problem(12, 3, 5), random_start(12, 5)
    scaled = gb.Regression(inputs * plain.X, inputs * labels * plain.Y, 0.5)
    end = diagonal.limit(scaled, {"u": u0, "v": v0})
    other = diagonal.limit(plain, {"u": u0 / np.sqrt(labels), "v": v0 / np.sqrt(labels)})
    assert end.residual < 1e-13
    top = np.max(np.abs(other.theta))
    np.testing.assert_allclose(end.theta / labels, other.theta, rtol=0, atol=1e-12 * top)


def test_nothing_to_fit():
    u0, v0 = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    for X, Y in [(np.zeros((3, 2)), np.ones(3)), (np.zeros((1, 2)), np.zeros(1))]:
        end = diagonal.limit(gb.Regression.mean(X, Y), {"u": u0, "v": v0})
        np.testing.assert_allclose(end.u, u0, rtol=1e-15)
        np.testing.assert_allclose(end.v, v0, rtol=1e-15)
    silent = diagonal.limit(gb.Regression.mean(np.eye(2), np.ones(2)), {"u": [0, 0], "v": [0, 0]})
    np.testing.assert_array_equal(silent.theta, 0)
    flat = diagonal.limit(gb.Regression.mean(np.eye(2), np.zeros(2)), {"u": u0, "v": v0})
    np.testing.assert_allclose(flat.u**2, [0.5, 6.0], rtol=1e-14)  # u² = v² = |uv|


def test_signs_that_leave_nothing():
    """θ ≥ 0 and labels that want it negative: all of it vanishes, and that is certified."""
    end = diagonal.limit(gb.Regression.mean(np.eye(2), -np.ones(2)), {"u": [1.0, 2.0], "v": [0, 0]})
    assert np.max(np.abs(end.theta)) < 1e-15 and end.residual < 1e-15


def test_a_small_difference_of_large_halves():
    """This start is its own end; ln u − ln v would know θ to seven digits only."""
    high, low = 1024 * (1 + 2.0**-30), 1024.0
    problem = gb.Regression.mean([[1.0, 1.0]], [0.0])
    end = diagonal.limit(problem, {"u": [high, low], "v": [low, high]})
    np.testing.assert_allclose(
        end.theta, np.array([1, -1]) * (high - low) * (high + low), rtol=1e-14
    )


def test_starts_of_all_sizes():
    """u and v from 1e-8 to 1e3 in one start, with equal, empty and tiny columns."""
    rng = np.random.default_rng(14)
    for seed in range(6):
        problem = random_problem(60 + seed, 7, 12)
        X = problem.X * np.logspace(0, -4 * (seed % 2), 12)
        X[:, 1], X[:, 2] = X[:, 0], 0.0
        problem = gb.Regression.half_mean(X, 1e-3 * problem.Y)
        u0, v0 = 10 ** rng.uniform(-8, 3, (2, 12))
        end = diagonal.limit(problem, {"u": u0, "v": v0})
        a, rows = np.log(end.u / u0), problem.row_space
        assert end.residual < 1e-12
        np.testing.assert_allclose(rows @ (rows.T @ a), a, rtol=0, atol=1e-13 * np.max(np.abs(a)))
        np.testing.assert_allclose(end.u * end.v, u0 * v0, rtol=1e-12)
        u, v = diagonal.limiting_flow(
            problem, {"u": u0, "v": v0}, [0.0, 30.0], 1.0
        )  # certified, or it raises
        np.testing.assert_allclose(u[0], end.u, rtol=1e-12)
        np.testing.assert_allclose([u[1, 2], v[1, 2]], [u0[2], v0[2]], rtol=1e-13)


def test_a_population_is_its_covariance():
    rng = np.random.default_rng(13)
    root, teacher = rng.standard_normal((3, 5)), rng.standard_normal((1, 5))
    problem = gb.Population(root.T @ root, teacher, np.eye(1))
    u0, v0 = random_start(13, 5)
    same = diagonal.limit(gb.Regression.half_sum(root, root @ teacher[0]), {"u": u0, "v": v0})
    np.testing.assert_allclose(
        diagonal.limit(problem, {"u": u0, "v": v0}).theta, same.theta, atol=1e-12
    )


def test_refusals():
    problem, (u0, v0) = random_problem(0, 3, 6), random_start(0, 6)
    with pytest.raises(ValueError, match=r"params\['u'\] must have shape \(6,\), got \(5,\)"):
        diagonal.limit(problem, {"u": u0[:5], "v": v0})
    with pytest.raises(ValueError, match=r"params\['v'\] must be finite"):
        diagonal.limit(problem, {"u": u0, "v": v0 * np.nan})
    with pytest.raises(ValueError, match="one output.*a diagonal net, got k = 2"):
        diagonal.limit(gb.Regression.mean(np.eye(2), np.eye(2)), {"u": [1, 1], "v": [1, 1]})
    with pytest.raises(ValueError, match="problem must be a Regression or a Population, got int"):
        diagonal.limit(3, {"u": u0, "v": v0})
