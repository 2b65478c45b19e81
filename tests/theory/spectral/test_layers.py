"""Layers as functions of the predictor, at every time of a flow of both layers."""

import mpmath
import numpy as np
import pytest

import gradbias as gb
from gradbias.theory.spectral import (
    alpha_of,
    alpha_velocity,
    beta_of,
    beta_velocity,
    limit_gram,
    limit_singular_values,
    singular_value_velocity,
)
from gradbias.theory.spectral.printed import printed_beta_of, printed_singular_value_gradient
from theory.spectral.spectral_oracle import CASES, data, flow, relative

ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def problem_of(case):
    X, Y = data(case)
    return gb.Regression(X, Y, case.weight)


def values(matrix, count):
    found = np.zeros(count)
    s = np.linalg.svd(matrix, compute_uv=False)[:count]
    found[: len(s)] = s
    return found


@ALL
def test_singular_values_of_both_layers_at_every_time(case):
    path = flow(case)
    scale = values(path.W1[-1], 1)[0]
    for W1, W2 in zip(path.W1, path.W2, strict=True):
        first, second = limit_singular_values(W1 @ W2, case.gamma, case.d)
        assert first.shape == (case.d,) and second.shape == (min(case.d, case.k),)
        np.testing.assert_allclose(first, values(W1, case.d), rtol=0, atol=2e-10 * scale)
        np.testing.assert_allclose(second, values(W2, len(second)), rtol=0, atol=2e-10 * scale)


@ALL
def test_gram_matrices_and_alpha_at_every_time(case):
    path = flow(case)
    for W1, W2 in zip(path.W1[1:], path.W2[1:], strict=True):
        M, N = limit_gram(W1 @ W2, case.gamma)
        assert relative(M, W1 @ W1.T) < 1e-9
        assert relative(N, W2.T @ W2) < 1e-9
        alpha = alpha_of(W1 @ W2, case.gamma)
        assert relative(alpha, np.linalg.pinv(W1).T @ W2) < 1e-9 / np.sqrt(case.gamma)
        np.testing.assert_allclose(M @ alpha, W1 @ W2, rtol=0, atol=1e-13 * np.abs(M).max())


@ALL
def test_the_predictor_obeys_a_closed_equation_in_the_problems_own_time(case):
    problem, path = problem_of(case), flow(case)
    for W1, W2 in zip(path.W1, path.W2, strict=True):
        R = -problem.gradient(W1 @ W2)
        true = W1 @ (W1.T @ R) + (R @ W2.T) @ W2
        error = np.abs(beta_velocity(problem, W1 @ W2, case.gamma) - true).max()
        assert error < 2e-10 * np.abs(R).max() * np.linalg.norm(W1, 2) ** 2


def test_one_output_has_the_closed_form_of_the_paper():
    case = CASES["one output"]
    problem, g = problem_of(case), case.gamma
    for beta in flow(case).beta[1:]:
        r, b = -problem.gradient(beta)[:, 0], beta[:, 0]
        closed = 2 * g * r + (b * (b @ r) + b @ b * r) / (g + np.sqrt(b @ b + g * g))
        np.testing.assert_allclose(beta_velocity(problem, b, g), closed, rtol=1e-13)


@pytest.mark.parametrize("name", ["generic", "one output", "more outputs than inputs"])
def test_the_dual_equation(name):
    """α' by differences of α along the flow; the printed map misses 2γ."""
    case = CASES[name]
    problem, fine = problem_of(case), flow(case, end=6.0, points=24 * 64 + 1)
    h = fine.t[1]
    for i in (64, 320):
        near = [np.linalg.pinv(fine.W1[i + j]).T @ fine.W2[i + j] for j in (-2, -1, 0, 1, 2)]
        slope = (near[0] - 8 * near[1] + 8 * near[3] - near[4]) / (12 * h)
        assert relative(alpha_velocity(problem, near[2], case.gamma), slope) < 1e-6
        beta = fine.beta[i]
        assert relative(beta_of(near[2], case.gamma), beta) < 1e-9
        np.testing.assert_allclose(printed_beta_of(near[2]) * 2 * case.gamma, beta, rtol=1e-9)


def test_singular_values_follow_the_corrected_mirror_flow():
    """Theorem 3.2a by differences; the printed gradient and the paper's last line are wrong."""
    case = CASES["generic"]
    problem, fine = problem_of(case), flow(case, end=6.0, points=24 * 64 + 1)
    h, g = fine.t[1], case.gamma
    for i in (64, 320, 640):
        s = np.array([values(fine.beta[i + j], 2) for j in (-2, -1, 0, 1, 2)])
        weights = np.array([1, -8, 0, 8, -1]) / (12 * h)
        sigma, velocity = singular_value_velocity(problem, fine.beta[i], g)
        np.testing.assert_allclose(sigma, s[2], rtol=1e-12)
        np.testing.assert_allclose(velocity, weights @ s, rtol=1e-6, atol=1e-9)
        pull = velocity / (2 * np.hypot(sigma, g))
        for slope_of, good in [
            (lambda x: 0.5 * np.arcsinh(x / g), True),
            (lambda x: printed_singular_value_gradient(x, g), False),
            (lambda x: np.arcsinh(x / g), False),
        ]:
            error = relative(weights @ slope_of(s), pull)
            assert error < 1e-6 if good else error > 0.1


@pytest.mark.parametrize("gamma", [1e2, 1.0, 1e-8, 1e-100])
@pytest.mark.parametrize("sigma", [1e-30, 1e-8, 1.0, 1e6])
def test_values_keep_their_digits_where_the_printed_form_cancels(sigma, gamma):
    with mpmath.workdps(300):
        s = mpmath.sqrt(mpmath.mpf(sigma) ** 2 + mpmath.mpf(gamma) ** 2)
        want = float(mpmath.sqrt(s + gamma)), float(mpmath.sqrt(s - gamma))
        dual = float(sigma / (s + gamma))
    first, second = limit_singular_values(np.diag([sigma, 0.0]), gamma, 2)
    np.testing.assert_allclose([first[0], second[0]], want, rtol=1e-15)
    np.testing.assert_allclose([first[1], second[1]], [np.sqrt(2 * gamma), 0], rtol=1e-15)
    np.testing.assert_allclose(alpha_of([sigma, 0.0], gamma), [dual, 0], rtol=1e-15)
    M, N = limit_gram(np.diag([sigma, 0.0]), gamma)
    np.testing.assert_allclose([M[0, 0], N[0, 0]], np.square(want), rtol=1e-15)
    if sigma < 1e-7 * gamma:
        printed = np.sqrt(np.sqrt(sigma**2 + gamma**2) - gamma)
        assert abs(printed / want[1] - 1) > 1e-3


def test_alpha_and_back():
    rng = np.random.default_rng(0)
    for shape in [(4, 2), (2, 4), (5,), (1, 1)]:
        beta = rng.standard_normal(shape)
        np.testing.assert_allclose(beta_of(alpha_of(beta, 0.3), 0.3), beta, rtol=1e-13, atol=1e-14)
        assert alpha_of(beta, 0.3).shape == shape


@pytest.mark.parametrize("size", [1e-150, 1e150])
def test_extreme_scales(size):
    beta = size * np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]])
    plain = limit_singular_values(beta / size, 0.7, 3)
    scaled = limit_singular_values(beta, 0.7 * size, 3)
    for a, b in zip(plain, scaled, strict=True):
        np.testing.assert_allclose(b, a * np.sqrt(size), rtol=1e-14)
    np.testing.assert_allclose(alpha_of(beta, 0.7 * size), alpha_of(beta / size, 0.7), rtol=1e-14)
    one = limit_singular_values(beta[:, 1], 0.7 * size, 3)
    np.testing.assert_allclose(
        one[1], limit_singular_values(beta[:, 1] / size, 0.7, 3)[1] * np.sqrt(size), rtol=1e-14
    )


def test_coordinates_of_a_subspace_and_the_balanced_net():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    small = rng.standard_normal((2, 3))
    for got, want in zip(
        limit_singular_values(small, 0.2, 6),
        limit_singular_values(basis @ small, 0.2, 6),
        strict=True,
    ):
        np.testing.assert_allclose(got[: len(want)], want[: len(got)], rtol=1e-13, atol=1e-8)
    s = np.linalg.svd(small, compute_uv=False)
    balanced = limit_singular_values(small, 0.0, 2)
    np.testing.assert_allclose(balanced, np.sqrt([s, s]), rtol=1e-14)
    for zero in limit_singular_values(np.zeros((2, 3)), 0.0, 2):
        np.testing.assert_array_equal(zero, 0)


def test_wrong_arguments_are_named():
    beta = np.ones((3, 2))
    with pytest.raises(ValueError, match="gamma must be at least 0"):
        limit_singular_values(beta, -1, 3)
    with pytest.raises(ValueError, match=r"beta must have shape \(2, any\)"):
        limit_singular_values(beta, 1, 2)
    with pytest.raises(ValueError, match="np.diag"):
        limit_singular_values([3.0, 1.0], 1, 4)
    with pytest.raises(ValueError, match="beta must be finite, got nan"):
        limit_gram([np.nan, 1.0], 1)
    with pytest.raises(ValueError, match="alpha must have singular values below 1"):
        beta_of(np.eye(2), 1)
    with pytest.raises(ValueError, match="gamma must be greater than 0"):
        beta_of(np.eye(2) / 2, 0)
    with pytest.raises(ValueError, match="beta must not be empty"):
        alpha_of(np.zeros((0, 2)), 1)
    with pytest.raises(ValueError, match="problem must be a Regression or a Population, got str"):
        beta_velocity("X", beta, 1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="theta must have shape"):
        beta_velocity(problem_of(CASES["generic"]), beta, 1)
