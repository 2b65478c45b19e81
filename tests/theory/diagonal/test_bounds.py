"""The manifold, and the bounds: they hold, they are attained, and the printed ones are not true."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import diagonal
from theory.diagonal.diagonal_oracle import (
    field,
    gradient_flow,
    integrated,
    jacobian,
    random_problem,
    random_start,
)


def differentiated(problem, x):
    """The Hessian by the complex step: exact, because the gradient is a polynomial."""
    columns = [np.imag(-field(problem, x + 1e-30j * e)) / 1e-30 for e in np.eye(len(x))]
    return np.array(columns).T


def test_the_hessian():
    problem, (u0, v0) = random_problem(50, 3, 5, weight=0.3), random_start(50, 5)
    end = diagonal.limit(problem, {"u": u0, "v": v0})
    for u, v in [(u0, v0), (end.u, end.v)]:
        told = diagonal.hessian(problem, {"u": u, "v": v})
        np.testing.assert_allclose(told, differentiated(problem, np.append(u, v)), atol=1e-12)
        assert np.trace(told) == pytest.approx(diagonal.regulariser(problem, {"u": u, "v": v}))
    J = jacobian(problem.X, np.append(end.u, end.v))
    np.testing.assert_allclose(told, 2 * 0.3 * J.T @ J, atol=1e-12)  # Eq (35)
    np.testing.assert_allclose(
        diagonal.tangent_kernel(problem, {"u": end.u, "v": end.v}), J @ J.T, rtol=1e-12
    )


def test_the_dimension():
    problem, (u, v) = random_problem(51, 4, 6, duplicate=True), random_start(51, 6)
    assert diagonal.manifold_dimension(problem, {"u": 1e-9 * u, "v": 1e9 * v}) == 12 - 3
    assert diagonal.manifold_dimension(problem, {"u": u, "v": np.zeros(6)}) == 12 - 3
    u[:4] = v[:4] = 0  # two coordinates are left for three directions
    assert diagonal.manifold_dimension(problem, {"u": u, "v": v}) == 12 - 2


def test_f_is_orthogonal_to_the_outputs_and_shortest():
    problem, (u, v) = random_problem(52, 3, 5, weight=0.3), random_start(52, 5)
    u[0] = v[0] = v[1] = 0.0  # at the boundary
    F = np.concatenate(diagonal.projected_gradient(problem, {"u": u, "v": v}))
    J = jacobian(problem.X, np.append(u, v))
    s = diagonal.decay_rates(problem)
    slope = 2 * np.tile(s, 2) * np.append(u, v)
    np.testing.assert_allclose(J @ F, 0, atol=1e-12)
    np.testing.assert_allclose(F, slope - np.linalg.pinv(J) @ (J @ slope), atol=1e-12)


def test_the_flow_obeys_its_inequality_and_length():
    """Corrected Lemma D.2 and the length of Lemma 6.3, for labels that cannot be fitted too."""
    for seed, n, duplicate in [(53, 3, False), (54, 4, True)]:
        problem = random_problem(seed, n, 5, weight=0.3, duplicate=duplicate)
        u0, v0 = random_start(seed, 5)
        C = diagonal.pl_constant(problem, {"u": u0, "v": v0})
        for T in (0, 0.1, 0.5):
            u, v, _ = gradient_flow(problem, u0, v0, T) if T else (u0, v0, 0)
            slope = field(problem, np.append(u, v))
            assert slope @ slope >= C * (problem.loss(u**2 - v**2) - problem.min_loss)
        _, _, length = gradient_flow(problem, u0, v0, 20)
        assert length <= diagonal.length_bound(problem, {"u": u0, "v": v0})


def test_the_printed_constant_is_false():
    """n = 4, u = v, the residual along the least eigenvector: ratio 1 corrected, 1/4 printed."""
    rng = np.random.default_rng(55)
    X = rng.standard_normal((4, 7))
    worst = np.linalg.svd(X)[0][:, -1]
    problem, one = gb.Regression.half_mean(X, worst), np.ones(7)
    slope = field(problem, np.ones(14))
    ratio = slope @ slope / problem.loss(np.zeros(7))
    assert ratio == pytest.approx(diagonal.pl_constant(problem, {"u": one, "v": one}), rel=1e-12)
    assert ratio / diagonal.pl_constant(problem, {"u": one, "v": one}, "paper") == pytest.approx(
        0.25
    )


def test_the_printed_length_is_false():
    """n = 1 and u = v: the corrected bound is attained to 0.1 %, the printed one is a quarter."""
    problem, one = gb.Regression.half_mean([[1.0]], [0.05]), np.ones(1)
    _, _, length = gradient_flow(problem, one, one, 10)
    assert length == pytest.approx(diagonal.length_bound(problem, {"u": one, "v": one}), rel=1e-3)
    assert length <= diagonal.length_bound(problem, {"u": one, "v": one})
    assert length > 3.9 * diagonal.length_bound(problem, {"u": one, "v": one}, "paper")


def test_bounds_at_the_edges():
    problem = gb.Regression.half_mean([[1.0, 0.0]], [1.0])
    assert diagonal.pl_constant(problem, {"u": [1, 0], "v": [2, 0]}) == pytest.approx(
        32
    )  # column 2 is unseen
    assert diagonal.length_bound(problem, {"u": [0, 1], "v": [2, 1]}) == np.inf
    assert diagonal.length_bound(problem, {"u": [np.sqrt(2), 1], "v": [1, 1]}) == pytest.approx(
        0, abs=1e-7
    )
    blind = gb.Regression.half_mean(np.zeros((1, 2)), [1.0])
    assert diagonal.length_bound(blind, {"u": [1, 1], "v": [1, 1]}) == 0.0
    with pytest.raises(ValueError, match="constant must be one of 'corrected', 'paper'"):
        diagonal.pl_constant(problem, {"u": [1, 0], "v": [2, 0]}, "printed")


def test_the_limiting_flow_obeys_its_inequality_and_length():
    """Lemmas D.16 and D.17, with the least ratio that the flow itself shows."""
    problem, (u0, v0), c = random_problem(56, 3, 5, weight=0.3), random_start(56, 5), 1.0
    times = np.concatenate([[0.0], np.geomspace(1e-3, 30, 40)])
    u, v = diagonal.limiting_flow(problem, {"u": u0, "v": v0}, times, c)
    ratios = [diagonal.limiting_pl(problem, {"u": a, "v": b}) for a, b in zip(u, v, strict=True)]
    gaps = np.array(
        [diagonal.regulariser(problem, {"u": a, "v": b}) for a, b in zip(u, v, strict=True)]
    )
    least = diagonal.decay_rates(problem) @ np.abs(diagonal.weighted_l1(problem))
    assert min(ratios) > 0 and np.all(gaps >= least - 1e-12)

    def right(x):
        at = {"u": x[:5], "v": x[5:]}
        return np.concatenate(diagonal.limiting_field(problem, at, c))

    end, length = integrated(right, np.append(u[0], v[0]), 3.0)
    near = min(r for r, t in zip(ratios, times, strict=True) if t <= 3)
    assert length <= diagonal.limiting_length_bound(problem, {"u": u[0], "v": v[0]}, near)
    assert length > 0.2 * diagonal.limiting_length_bound(problem, {"u": u[0], "v": v[0]}, near)
    np.testing.assert_allclose(
        end, np.concatenate(diagonal.limiting_flow(problem, {"u": u0, "v": v0}, 3.0, c)), atol=1e-9
    )
