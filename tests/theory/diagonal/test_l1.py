"""Weighted ℓ1, sparse recovery and the kernel regime."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import diagonal
from theory.diagonal.diagonal_oracle import projected_field, random_problem, random_start, vertices


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_all_vertices(seed):
    """Enumeration of supports; and the dual as a proof: no gap, feasible, in the row space."""
    problem = random_problem(30 + seed, 3, 6, weight=0.7)
    s = diagonal.decay_rates(problem)
    best = min(vertices(problem.X, problem.Y), key=lambda w: s @ np.abs(w))
    w, proof = diagonal.weighted_l1(problem), diagonal.l1_certificate(problem)
    np.testing.assert_allclose(w, best, rtol=0, atol=1e-13)
    assert proof.optimal and proof.unique and proof.residual < 1e-10
    rows = problem.row_space
    np.testing.assert_allclose(rows @ (rows.T @ proof.dual), proof.dual, atol=1e-10 * np.max(s))
    assert np.all(np.abs(proof.dual) <= s * (1 + 1e-12))
    assert proof.dual @ w == pytest.approx(s @ np.abs(w), rel=1e-12)
    worse = max(vertices(problem.X, problem.Y), key=lambda w: s @ np.abs(w))
    refused = diagonal.l1_certificate(problem, worse)
    assert not refused.optimal and refused.rate < 0


@pytest.mark.parametrize("nonzero", [None, 2])
def test_the_rate_is_the_flows(nonzero):
    """ln‖θ(t) − w‖ falls with slope −c·g: generic labels, and a teacher sparser than n.

    In the second a coordinate has (Xᵀλ)_j = 0, so that θ is faster than u² + v².
    """
    rng = np.random.default_rng(36)
    X, w = rng.standard_normal((5, 9)), rng.standard_normal(9)
    if nonzero:
        w[nonzero:] = 0
    problem, c = gb.Regression(X, X @ w, 0.2), 0.5
    end, proof = diagonal.weighted_l1(problem), diagonal.l1_certificate(problem)
    t = np.array([17.0, 21.0] if nonzero is None else [60.0, 70.0])
    u, v = diagonal.limiting_flow(problem, {"u": np.ones(9), "v": np.ones(9)}, t, c)
    # Sparser than n: below rounding of the labels, where only coordinates off the support tell.
    off = np.abs(end) < 1e-9
    error = np.linalg.norm((u**2 - v**2)[:, off], axis=1)
    mass = np.max((u**2 + v**2)[:, off], axis=1)
    slope, slope_of_mass = -np.log([error[1] / error[0], mass[1] / mass[0]]) / (t[1] - t[0])
    assert slope == pytest.approx(c * diagonal.l1_rate(problem), rel=1e-3)
    assert slope_of_mass == pytest.approx(c * proof.rate, rel=1e-3)
    assert (proof.theta_rate > 1.05 * proof.rate) == (nonzero == 2)


def test_odd_sizes():
    one = gb.Regression.half_mean([[2.0]], [-6.0])
    np.testing.assert_allclose(diagonal.weighted_l1(one), [-3.0])
    assert diagonal.l1_rate(one) == np.inf
    blind = gb.Regression.half_mean([[1.0, 0.0, 2.0]], [2.0])  # weights 4, 0, 16
    np.testing.assert_allclose(diagonal.weighted_l1(blind), [2.0, 0.0, 0.0])
    assert not diagonal.l1_certificate(blind).unique
    tall = random_problem(37, 6, 3, duplicate=True)
    np.testing.assert_allclose(diagonal.weighted_l1(tall), tall.min_norm, atol=1e-12)
    nothing = gb.Regression.half_mean(np.eye(2), np.zeros(2))
    np.testing.assert_array_equal(diagonal.weighted_l1(nothing), 0)
    assert diagonal.l1_certificate(nothing).unique
    huge = random_problem(38, 3, 6)
    scaled = gb.Regression(1e100 * huge.X, 1e-40 * huge.Y, 1e-90)
    np.testing.assert_allclose(
        1e140 * diagonal.weighted_l1(scaled), diagonal.weighted_l1(huge), atol=1e-10
    )


def test_label_noise_finds_what_the_kernel_misses():
    """Theorem 6.1 end to end; the certificate says so for these data before any flow."""
    problem = gb.problems.sparse(18, 30, 3, entries="gaussian", key=1)
    teacher = gb.problems.sparse_teacher(30, 3, key=1)
    assert diagonal.l1_certificate(problem, teacher).unique
    u, v = diagonal.limiting_flow(problem, {"u": np.ones(30), "v": np.ones(30)}, 60.0, 1.0)
    np.testing.assert_allclose(u**2 - v**2, teacher, atol=1e-3)
    assert diagonal.distance_to_canonical({"u": -u, "v": v}, teacher) < 0.02
    kernel = diagonal.kernel_solution(problem)
    assert np.sum((kernel - teacher) ** 2) > 0.3
    wide = diagonal.limit(problem, {"u": np.full(30, 1e3), "v": np.full(30, 1e3)})
    np.testing.assert_allclose(wide.theta, kernel, atol=1e-6)


def test_the_linearised_net():
    """The step of least norm that fits, in (u, v), by pinv."""
    problem, (u0, v0) = random_problem(39, 3, 5), random_start(39, 5)
    J, theta = 2 * np.hstack([problem.X * u0, -problem.X * v0]), u0**2 - v0**2
    step = np.linalg.pinv(J) @ (problem.Y - problem.X @ theta)
    told = theta + 2 * u0 * step[:5] - 2 * v0 * step[5:]
    np.testing.assert_allclose(
        diagonal.kernel_solution(problem, {"u": u0, "v": v0}), told, atol=1e-12
    )
    np.testing.assert_allclose(
        diagonal.kernel_solution(problem, {"u": np.full(5, 7.0), "v": np.full(5, 7.0)}),
        problem.min_norm,
    )
    with pytest.raises(ValueError, match="params must be a dict with u and v"):
        diagonal.kernel_solution(problem, {"u": u0})


def test_the_kernels_error():
    """Theorem 6.7 with equality: min-ℓ2 fits of 300 Gaussian data sets."""
    rng = np.random.default_rng(40)
    teacher = np.zeros(30)
    teacher[:3] = [1.0, -1.0, 1.0]
    errors = []
    for _ in range(300):
        X = rng.standard_normal((12, 30))
        w = diagonal.kernel_solution(gb.Regression.half_mean(X, X @ teacher))
        errors.append(np.sum((w - teacher) ** 2))
    told = diagonal.kernel_error(teacher, 12)
    assert told == pytest.approx(1.8)
    assert abs(np.mean(errors) - told) < 3 * np.std(errors) / np.sqrt(300)
    assert diagonal.kernel_error(teacher, 31) == 0.0


def test_canonical_parameters():
    w = np.array([4.0, -9.0, 0.0])
    u, v = diagonal.canonical(w)
    np.testing.assert_array_equal(u, [2.0, 0.0, 0.0])
    np.testing.assert_array_equal(v, [0.0, 3.0, 0.0])
    assert diagonal.distance_to_canonical({"u": -u, "v": v}, w) == 0.0
    assert diagonal.distance_to_canonical({"u": u, "v": [0, 3, 3]}, w) == 3.0


def test_worse_vertices_are_stationary_but_left():
    """F = 0 and uv = 0 at every vertex (D.11); near a worse one the potential of 6.5 grows."""
    problem = random_problem(41, 3, 6)
    s, best = diagonal.decay_rates(problem), diagonal.weighted_l1(problem)
    for w in vertices(problem.X, problem.Y):
        u, v = diagonal.canonical(w)
        np.testing.assert_allclose(
            diagonal.projected_gradient(problem, {"u": u, "v": v}), 0, atol=1e-9
        )
        if s @ np.abs(w) < s @ np.abs(best) + 1e-9:
            continue
        off = w == 0
        u, v = np.where(off, 1e-6, u), np.where(off, 1e-6, v)
        du, dv = np.split(projected_field(problem, np.append(u, v), 1.0), 2)
        h = 1e-3
        later = diagonal.escape_potential({"u": u + h * du, "v": v + h * dv}, best, off)
        assert later > diagonal.escape_potential({"u": u, "v": v}, best, off)
        vertex = diagonal.canonical(w)
        assert diagonal.escape_potential(dict(zip("uv", vertex, strict=True)), best, off) == -np.inf


def test_recovery_conditions():
    few = diagonal.boolean_recovery(10, 30, 3)
    assert few.threshold == pytest.approx(3 * (np.log(10) + 1)) and few.condition_met
    assert not diagonal.boolean_recovery(10, 30, 3, constant=2.0).condition_met
    none = diagonal.gaussian_recovery(40, 100, 3)
    assert none.threshold > 1000 and none.probability == 0.0 and not none.condition_met
    sure = diagonal.gaussian_recovery(900, 1000, 1)
    assert sure.condition_met and 0.999 < sure.probability <= 1
    assert diagonal.gaussian_recovery(5, 4, 4).threshold == pytest.approx(17)  # a full teacher
    with pytest.raises(ValueError, match="nonzero must be at most d = 4, got 5"):
        diagonal.gaussian_recovery(5, 4, 5)


def test_the_width_in_the_gaussian_condition():
    """E sup ⟨z, p⟩ over unit p with ‖p_off‖₁ ≤ 3‖p_on‖₁, by Monte Carlo, is below the bound."""
    rng, d, kappa = np.random.default_rng(42), 50, 2
    z = np.abs(rng.standard_normal((400, d)))
    sup = np.linalg.norm(z[:, :kappa], axis=1) + 3 * np.sqrt(kappa) * np.max(z[:, kappa:], axis=1)
    threshold = diagonal.gaussian_recovery(10, d, kappa).threshold
    bound = np.sqrt(threshold - 1) / 2
    assert 0.7 * bound < np.mean(sup) < bound
