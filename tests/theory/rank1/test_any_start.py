"""The limit of rank-1 nets that are not balanced, against flows on all parameters."""

import numpy as np
import pytest
import scipy.integrate

from gradbias.problems import Population, Regression
from gradbias.theory._problem import singular_basis
from gradbias.theory.rank1 import balanced_limit, deep_from_rank1, rank1_from_deep, rank1_limit
from gradbias.theory.rank1._any_start import pair_levels
from gradbias.theory.rank1._sign_crossing import ReducedFlow
from theory.rank1.rank1_oracle import (
    balanced_params,
    flat,
    flow,
    gradients,
    predictor,
    problem_data,
    random_params,
    shaped,
)

X, Y = problem_data(3, 7)
PROBLEM = Regression(X, Y, 1 / 3)

# L, scale, seed: ξ changes its sign on the way in half of them.
STARTS = [(2, 1, 1), (2, 2, 7), (3, 1, 2), (3, 1.5, 10), (4, 1, 3), (6, 1, 4)]


def sign_of_xi(params):
    return np.sign(np.prod(np.sum(params["u"] * params["v"], axis=1)))


def test_random_flows_end_there_whatever_happens_to_the_sign():
    origins, changes = [], []
    for L, scale, seed in STARTS:
        params = random_params(L, 7, 4, scale, seed)
        end = flow(X, Y, 1 / 3, params, stop=1e-19)
        found = rank1_limit(PROBLEM, params)
        error = np.linalg.norm(found.theta - predictor(end)) / np.linalg.norm(found.theta)
        assert error < 1e-8, (L, scale, seed)
        assert found.residual < 1e-12 and not found.saddle
        assert abs(found.square / (end["v1"] @ end["v1"]) - 1) < 1e-8
        assert found.sign == sign_of_xi(end)
        origins.append(found.sign_from)
        changes.append(found.sign != sign_of_xi(params))
        assert not (changes[-1] and origins[-1] == "start")
    assert {"start", "integration"} == set(origins)
    assert True in changes and False in changes


@pytest.mark.parametrize("L", [1, 2, 4, 40])
def test_a_balanced_net_is_a_special_case(L):
    theta0 = np.random.default_rng(3).normal(size=7)
    signs = np.where(np.arange(L - 1) % 3 == 0, -1.0, 1.0)
    found = rank1_limit(PROBLEM, balanced_params(theta0, L, signs=signs))
    expected = balanced_limit(PROBLEM, theta0, 2 * L - 1)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=1e-11)
    assert abs(found.distance - expected.distance) < 1e-12
    assert found.sign_from == "start"


def test_charges_of_the_pairs_give_xi_along_the_flow():
    """Lemma: |ω| is a function of ‖v1‖² alone; ‖u‖² − ‖v1‖² and PQ are conserved."""
    start = random_params(3, 7, 4, 1.0, 2)
    end = flow(X, Y, 1 / 3, start, until=0.7)
    for name in ("u", "v"):
        change = [np.sum(p[name] ** 2, axis=1) - p["v1"] @ p["v1"] for p in (start, end)]
        np.testing.assert_allclose(change[1], change[0], atol=1e-11)
    moved = end["v1"] @ end["v1"] - start["v1"] @ start["v1"]
    assert abs(moved) > 1e-2
    low, high = pair_levels(start["u"], start["v"])
    omega = np.sum(end["u"] * end["v"], axis=1)
    np.testing.assert_allclose((low + moved) * (high + moved), omega**2, rtol=1e-10)


def test_the_reduced_flow_is_the_flow():
    start = random_params(3, 7, 4, 1.0, 2)
    end = flow(X, Y, 1 / 3, start, until=0.7)
    view = singular_basis(PROBLEM)
    inside = view.basis.T @ start["v1"]
    reduced = ReducedFlow(view.curvature, view.minimiser, inside, start["u"], start["v"])
    path = scipy.integrate.solve_ivp(
        reduced.velocity, (0, 0.7), reduced.start, method="DOP853", rtol=1e-12, atol=1e-13
    )
    state = path.y[:, -1]
    np.testing.assert_allclose(state[:3], view.basis.T @ end["v1"], atol=1e-10)
    np.testing.assert_allclose(
        reduced.overlaps(state), np.sum(end["u"] * end["v"], axis=1), atol=1e-10
    )
    above = PROBLEM.loss(predictor(end)) - PROBLEM.loss(np.zeros(7))
    assert reduced.above_zero(state) == pytest.approx(above, abs=1e-10)
    assert reduced.size(state) == pytest.approx(
        np.linalg.norm(view.basis.T @ predictor(end)), abs=1e-10
    )


def test_one_pair_that_starts_at_right_angles():
    """ω = 0: ξ/ω is 0/0, the product without the pair is not."""
    params = random_params(3, 7, 4, 1.0, 0)
    u, v = params["u"], params["v"]
    v[0] -= u[0] * (u[0] @ v[0]) / (u[0] @ u[0])
    v[0] -= u[0] * (u[0] @ v[0]) / (u[0] @ u[0])
    found = rank1_limit(PROBLEM, params)
    end = flow(X, Y, 1 / 3, params, stop=1e-19)
    np.testing.assert_allclose(found.theta, predictor(end), atol=1e-8)
    exact = {"v1": params["v1"], "u": np.eye(2, 4), "v": np.eye(2, 4)[::-1]}  # two of them: rest
    assert rank1_limit(PROBLEM, exact).saddle and not rank1_limit(PROBLEM, exact).theta.any()


def test_saddles():
    x, y = np.array([[0.6, -1.1, 0.4]]), np.array([1.7])
    problem = Regression.mean(x, y)
    for L in (2, 3):
        ends = rank1_limit(problem, balanced_params(-0.8 * x[0], L))
        assert ends.saddle and not ends.theta.any() and ends.sign == 0
        assert ends.sign_from == "integration"
        fits = rank1_limit(problem, balanced_params(0.8 * x[0], L))
        assert not fits.saddle and abs(x[0] @ fits.theta - 1.7) < 1e-12
    # Not balanced, v1 smaller: it changes its own sign, and the flow fits.
    params = balanced_params(-0.8 * x[0], 2)
    params["v1"] *= 0.9
    fits = rank1_limit(problem, params)
    assert not fits.saddle and fits.sign_from == "start"
    np.testing.assert_allclose(
        fits.theta, predictor(flow(x, y, 1.0, params, stop=1e-19)), atol=1e-8
    )
    zero = {"v1": np.zeros(3), "u": np.ones((1, 2)), "v": np.ones((1, 2))}
    np.testing.assert_allclose(rank1_limit(problem, zero).theta, problem.min_norm)
    asleep = {"v1": np.zeros(3), "u": np.zeros((1, 2)), "v": np.zeros((1, 2))}
    assert rank1_limit(problem, asleep).saddle


def test_odd_problems():
    params = random_params(3, 7, 4, 1.0, 2)
    theta0 = predictor(params)
    nothing = Regression.mean(np.zeros((2, 7)), np.ones(2))
    np.testing.assert_allclose(rank1_limit(nothing, params).theta, theta0, rtol=1e-13)
    zero = Regression.mean(X, np.zeros(3))
    end = flow(X, np.zeros(3), 1 / 3, params, stop=1e-21)
    np.testing.assert_allclose(rank1_limit(zero, params).theta, predictor(end), atol=1e-9)
    A, b = np.vstack([X, X[0]]), np.append(Y, 3.0)  # cannot be fitted
    end = flow(A, A @ (np.linalg.pinv(A) @ b), 0.25, params, stop=1e-19)
    found = rank1_limit(Regression.mean(A, b[:, None]), params)
    assert found.theta.shape == (7, 1)
    np.testing.assert_allclose(found.theta[:, 0], predictor(end), atol=1e-8)
    one = rank1_limit(Regression.mean([[2.0]], [3.0]), random_params(2, 1, 1, 1.0, 0))
    np.testing.assert_allclose(one.theta, [1.5])
    fresh = Population(X.T @ X, [np.linalg.pinv(X) @ Y], np.eye(1))
    same = rank1_limit(Regression(X, Y, 1.0), params)
    np.testing.assert_allclose(rank1_limit(fresh, params).theta[:, 0], same.theta, rtol=1e-9)


def test_data_of_any_size():
    params = random_params(3, 7, 4, 1.0, 2)
    expected = rank1_limit(PROBLEM, params).theta
    for scale in (1e-150, 1e150):
        found = rank1_limit(Regression.mean(scale * X, scale * Y), params)
        np.testing.assert_allclose(found.theta, expected, rtol=1e-9)
    with pytest.raises(ValueError, match="products underflow"):
        rank1_limit(PROBLEM, {name: 1e-150 * value for name, value in params.items()})


@pytest.mark.parametrize("power", [-290, -200, -150, 100, 150, 200])
def test_the_same_net_in_other_units(power):
    """Labels and parameters of any size: once a hang at 1e-200, NumPy's words from 1e100 on."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(3, 4)), rng.normal(size=3)
    params = {
        "v1": rng.normal(size=4),
        "u": rng.normal(size=(2, 2)),
        "v": rng.normal(size=(2, 2)),
    }
    expected = rank1_limit(Regression(inputs, labels, 0.5), params)
    unit = 10.0 ** (power / 5)
    moved = {name: unit * value for name, value in params.items()}
    found = rank1_limit(Regression(inputs, 10.0**power * labels, 0.5), moved)
    np.testing.assert_allclose(found.theta, 10.0**power * expected.theta, rtol=1e-9)
    assert (found.sign, found.sign_from) == (expected.sign, expected.sign_from)
    assert expected.sign_from == "integration"
    assert found.square == pytest.approx(unit**2 * expected.square, rel=1e-9)
    assert found.distance == pytest.approx(10.0**power * expected.distance, rel=1e-9)


@pytest.mark.parametrize(
    "scale", [1e-60, 1e-10, *(pytest.param(s, marks=pytest.mark.slow) for s in (1e10, 1e60))]
)
def test_a_start_far_from_the_size_of_the_labels_ends(scale):
    """Either an answer or a sentence, in a bounded number of evaluations."""
    params = {name: scale * value for name, value in random_params(3, 7, 4, 1.0, 2).items()}
    try:
        found = rank1_limit(PROBLEM, params)
    except ValueError as error:
        assert "params" in str(error)
    else:
        np.testing.assert_allclose(X @ found.theta, Y, atol=1e-6 * (1 + scale**4))


def test_large_and_small_starts_have_an_answer():
    rng = np.random.default_rng(1)
    for seed in range(24):
        L, scale = (2, 3, 4, 6)[seed % 4], 10 ** rng.uniform(-2, 1)
        found = rank1_limit(PROBLEM, random_params(L, 7, (1, 5)[seed % 2], scale, seed))
        assert found.residual < 1e-12
        np.testing.assert_allclose(X @ found.theta, Y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"v1": np.ones(7), "u": np.ones((1, 2))}, r"'v1', 'u' and 'v'.*got \['u', 'v1'\]"),
        ([1, 2], "params must have the arrays.*list"),
        ({"v1": np.ones(6), "u": np.ones((1, 2)), "v": np.ones((1, 2))}, r"v1.*\(7,\), got \(6,\)"),
        ({"v1": np.ones(7), "u": np.ones((1, 2)), "v": np.ones((1, 3))}, r"'v'.*\(1, 2\)"),
        ({"v1": np.ones(7), "u": np.full((1, 2), np.nan), "v": np.ones((1, 2))}, "must be finite"),
    ],
)
def test_what_is_refused(params, message):
    with pytest.raises(ValueError, match=message):
        rank1_limit(PROBLEM, params)


def test_more_outputs_are_refused():
    with pytest.raises(ValueError, match="one output.*rank1_limit, got k = 2"):
        rank1_limit(Regression.mean(X, np.ones((3, 2))), random_params(2, 7, 2, 1.0, 0))


def steps(params, count, rows, lr=0.02):
    for k in range(count):
        B = rows[k]
        g = 2 / len(B) * X[B].T @ (X[B] @ predictor(params) - Y[B])
        params = shaped(params, flat(params) - lr * flat(gradients(params, g)))
    return params


def test_the_sparse_deep_net_makes_the_same_steps():
    """SGD keeps the pattern exactly, if a column and the row after it are at the same unit."""
    start = random_params(3, 7, 4, 1.0, 1)
    deep = deep_from_rank1(start, hidden=5, units=[2, 4])
    assert [W.shape for W in deep.values()] == [(7, 5), (5, 4), (4, 5), (5, 4), (4, 1)]
    rows = np.random.default_rng(0).integers(0, 3, size=(300, 2))
    moved = steps(list(deep.values()), 300, rows)
    expected = steps(start, 300, rows)
    assert np.linalg.norm(predictor(expected) - predictor(start)) > 0.1
    again = rank1_from_deep({f"W{i + 1}": W for i, W in enumerate(moved)})
    for name, value in expected.items():
        np.testing.assert_allclose(again[name], value, atol=1e-13)
    # Another unit for the row, as the paper's wording allows: the pattern is lost.
    broken = {**deep, "W2": np.roll(deep["W2"], 1, axis=0)}
    with pytest.raises(ValueError, match=r"one unit between W1 and W2.*\[2, 3\]"):
        rank1_from_deep(broken)
    off = steps(list(broken.values()), 50, rows)
    assert np.count_nonzero(np.abs(off[0]).max(axis=0) > 1e-12) > 1 or not predictor(off).any()
    # A diagonal start is not preserved either.
    diagonal = [np.eye(7, 5), np.eye(5, 4), np.eye(4, 5), np.eye(5, 4), np.ones((4, 1))]
    after = steps(diagonal, 5, rows)[1]
    assert np.abs(after[~np.eye(5, 4, dtype=bool)]).max() > 1e-3


def test_embedding_refuses():
    params = random_params(2, 3, 2, 1.0, 0)
    assert set(deep_from_rank1(params)) == {"W1", "W2", "W3"}
    with pytest.raises(ValueError, match=r"units must be 1 numbers below 2, got \[2\]"):
        deep_from_rank1(params, units=[2])
    with pytest.raises(ValueError, match="odd number of layers"):
        rank1_from_deep({"W1": np.ones((2, 2)), "W2": np.ones((2, 1))})
    with pytest.raises(ValueError, match=r"one output, got W1 of shape \(2, 3\)"):
        rank1_from_deep({"W1": np.ones((2, 3))})
    one = rank1_from_deep({"W1": np.ones((2, 1))})
    assert one["u"].shape == (0, 1) and one["v1"].shape == (2,)
