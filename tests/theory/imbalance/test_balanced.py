"""Which minimum: the invariant set and the bias, balanced nets, and the two closed forms."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theory.imbalance import (
    balanced_two_layer,
    balanced_whitened,
    bias_bound,
    certificate,
    imbalance_level,
    invariant_projection,
    invariant_residual,
    riccati_solution,
    split,
)
from theory.imbalance.imbalance_oracle import (
    CASES,
    Case,
    descent,
    error,
    flow,
    relative,
    seen,
    unseen,
)

ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def white(n, D, m, rank, sigma=1.3, weight=0.4, seed=0):
    """Data with equal singular values, and labels that no predictor fits."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((a, a)))[0][:, :rank] for a in (n, D))
    return gb.Regression(sigma * left @ right.T, rng.standard_normal((n, m)), weight), rng


# --- The invariant set and the bias -----------------------------------------------------------


@ALL
def test_projection_reaches_the_invariant_set_and_moves_nothing_else(case):
    problem, params = case.make()
    there = invariant_projection(problem, params)
    scale = max(np.abs(params["W1"]).max(), 1) ** 2
    assert np.abs(invariant_residual(problem, there)).max(initial=0) < 1e-14 * scale
    before, after = seen(problem, params), seen(problem, there)
    for a, b in zip(before[:2], after[:2], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
    again = invariant_projection(problem, there)
    np.testing.assert_allclose(again["W1"], there["W1"], atol=1e-14)
    if case.h <= case.m + case.rank:  # no direction is left for U2
        np.testing.assert_allclose(unseen(problem).T @ there["W1"], 0, atol=1e-13)


@ALL
def test_residual_is_the_two_products(case):
    problem, params = case.make()
    U1, V, *_ = seen(problem, params)
    U2 = unseen(problem).T @ params["W1"]
    residual = invariant_residual(problem, params)
    assert residual.shape == (case.m + case.rank, case.D - case.rank)
    for got, true in ((residual[: case.m], V @ U2.T), (residual[case.m :], U1 @ U2.T)):
        assert np.linalg.norm(got) == pytest.approx(np.linalg.norm(true), abs=1e-13)


def test_proposition_1_and_its_control():
    """From the invariant set flow and coarse descent end at least norm; VU2ᵀ = 0 is not enough."""
    problem, params = Case(5, 8, 2, 9, 3, seed=1).make()
    there = invariant_projection(problem, params)
    best = np.linalg.pinv(problem.X) @ problem.Y
    end = flow(problem, there, [12.0])[0]
    assert relative(end["W1"] @ end["W2"], best) < 1e-9
    end = descent(problem, there, 0.02, 3000)
    assert relative(end["W1"] @ end["W2"], best) < 1e-12
    half = {**params, "W1": params["W1"].copy()}
    Phi2, used = unseen(problem), np.linalg.qr(params["W2"])[0]
    half["W1"] -= Phi2 @ (Phi2.T @ params["W1"]) @ used @ used.T
    assert np.linalg.norm(invariant_residual(problem, half)[:2]) < 1e-13
    end = descent(problem, half, 0.02, 3000)
    assert np.linalg.norm(end["W1"] @ end["W2"] - best) > 0.1


def test_bias_bounds_hold_and_are_nearly_attained():
    ratios = []
    for seed in range(12):
        scale = [2.0, 0.7][seed % 2]
        problem, params = Case(3, 6, 1 + seed % 2, 12, 3, scale=scale, seed=seed).make()
        told = bias_bound(problem, params)
        end = flow(problem, params, [20.0 / scale**2])[0]
        theta = end["W1"] @ end["W2"]
        bias = np.linalg.norm(theta - np.linalg.pinv(problem.X) @ problem.Y)
        assert np.linalg.norm(error(problem, end)) < 1e-6
        assert np.log(bias) <= told.log_bound <= told.log_simple + 1e-12
        assert told.bound == pytest.approx(np.exp(told.log_bound))
        ratios.append(bias / told.bound)
    assert max(ratios) > 0.5


def test_bias_bound_is_attained_where_the_kernel_stands_still():
    """Orthogonal rows, large: k = c throughout. With VU2ᵀ = 0 the bias is sinh θ, not cosh θ."""
    problem = gb.Regression([[1.5, 0.0]], [4.0], 0.2)
    params = {"W1": [[20.0, 0.0, 0.0], [1.0, 0.0, 0.0]], "W2": [[0.0], [20.0], [0.0]]}
    told = bias_bound(problem, params)
    assert told.growth == pytest.approx(1.5 * 4 / (1.5**2 * 800))
    end = flow(problem, {k: np.array(v) for k, v in params.items()}, [0.1])[0]
    bias = np.linalg.norm(end["W1"] @ end["W2"] - np.linalg.pinv(problem.X) @ [[4.0]])
    assert 0.999 < bias / told.bound <= 1
    np.testing.assert_allclose(told.log_simple, told.growth + np.log(20))


def test_bias_bound_at_its_ends():
    problem, params = Case(3, 6, 1, 12, 3).make()
    there = invariant_projection(problem, params)
    assert bias_bound(problem, there).bound < 1e-10
    far = gb.Regression.half_sum(problem.X, 1e5 * problem.Y)
    told = bias_bound(far, params)
    assert told.bound == np.inf
    assert 1e3 < told.log_bound < told.log_simple  # in logarithms it is a number
    whole = gb.Regression.half_sum(np.eye(6), np.ones((6, 1)))  # nothing is unseen
    assert bias_bound(whole, params).bound == 0
    # on the invariant set exactly, and without a bound on the growth: the bias is still zero
    flat = gb.Regression.half_sum([[1.0, 0.0]], [3.0])
    told = bias_bound(flat, {"W1": [[1.0, 0.0], [0.0, 1.0]], "W2": [[1.0], [0.0]]})
    assert (told.growth, told.bound) == (np.inf, 0.0)
    # huge and tiny weights: logarithms of norms whose squares are beyond float64
    for scale in (1e-120, 1e140):
        scaled = {name: scale * value for name, value in params.items()}
        Zr = invariant_residual(problem, params)
        told = bias_bound(problem, scaled)
        simple = told.growth + np.log(np.linalg.norm(Zr)) + 2 * np.log(scale)
        assert told.log_simple == pytest.approx(simple)


# --- Balanced nets ----------------------------------------------------------------------------


def test_balanced_net_has_the_product_and_no_imbalance():
    problem, _ = Case(5, 8, 3, 6, 4).make()
    rng = np.random.default_rng(0)
    theta0 = rng.standard_normal((8, 3))
    Q = np.linalg.qr(rng.standard_normal((6, 3)))[0]
    net = balanced_two_layer(problem, theta0, 6, Q)
    assert {k: v.shape for k, v in net.items()} == {"W1": (8, 6), "W2": (6, 3)}
    np.testing.assert_allclose(net["W1"] @ net["W2"], theta0, atol=1e-13)
    U1, V, *_ = seen(problem, net)
    np.testing.assert_allclose(U1.T @ U1, V.T @ V, atol=1e-13)
    assert imbalance_level(problem, net) == 0  # exactly: rounding is recognised
    whole = net["W1"].T @ net["W1"] - net["W2"] @ net["W2"].T
    assert np.linalg.norm(whole) > 0.5
    # the formula itself, and the printed one, which does not multiply
    P = split(problem).Phi1 @ split(problem).Phi1.T
    values, vectors = np.linalg.eigh(theta0.T @ P @ theta0)
    fourth = (vectors * values**0.25) @ vectors.T
    np.testing.assert_allclose(net["W2"], Q @ fourth, atol=1e-13)
    with pytest.raises(ValueError, match="matmul"):
        fourth @ Q


def test_the_path_does_not_depend_on_the_frame():
    problem, _ = Case(4, 6, 2, 5, 3).make()
    rng = np.random.default_rng(1)
    theta0 = rng.standard_normal((6, 2))
    frames = [None, np.linalg.qr(rng.standard_normal((5, 2)))[0]]
    ends = [flow(problem, balanced_two_layer(problem, theta0, 5, Q), [0.7])[0] for Q in frames]
    a, b = (end["W1"] @ end["W2"] for end in ends)
    assert relative(a, b) < 1e-10
    assert relative(a, theta0) > 0.1


def test_where_no_balanced_net_exists():
    problem, _ = Case(4, 6, 3, 5, 2).make()  # r = 2 < m = 3
    with pytest.raises(ValueError, match="rank 3 .*got 2; the row space has 2 directions"):
        balanced_two_layer(problem, np.random.default_rng(0).standard_normal((6, 3)), 5)
    problem, _ = Case(4, 6, 2, 5, 4).make()
    theta0 = problem.min_norm
    with pytest.raises(ValueError, match="width must be at least the number of outputs 2, got 1"):
        balanced_two_layer(problem, theta0, 1)
    hidden = theta0.copy()
    hidden[:, 1] = split(problem).Phi2[:, 0]  # the second output: outside only
    with pytest.raises(ValueError, match="only outside of it cannot be made"):
        balanced_two_layer(problem, hidden, 5)
    with pytest.raises(ValueError, match="orthonormal columns"):
        balanced_two_layer(problem, theta0, 5, np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"Q must have shape \(5, 2\)"):
        balanced_two_layer(problem, theta0, 5, np.eye(2))
    with pytest.raises(ValueError, match="theta0 must have rank"):
        balanced_two_layer(problem, np.zeros((6, 2)), 5)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_balanced_at_any_scale(scale):
    problem, rng = white(4, 5, 2, 3)
    theta0 = scale * rng.standard_normal((5, 2))
    net = balanced_two_layer(problem, theta0, 2)
    np.testing.assert_allclose(net["W1"] @ net["W2"], theta0, rtol=1e-12)
    assert imbalance_level(problem, net) == 0


# --- Closed forms -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_one_output_whitened_closed_form(seed):
    problem, rng = white(4, 6, 1, [3, 1][seed % 2], seed=seed)
    theta0 = rng.standard_normal(6) * [1.0, 0.05][seed // 2]
    ts = np.array([0.0, 1e-6, 0.2, 1.0, 4.0])
    path = flow(problem, balanced_two_layer(problem, theta0, 3), ts)
    told = balanced_whitened(problem, theta0, ts)
    assert told.shape == (5, 6, 1)
    for got, p in zip(told, path, strict=True):
        np.testing.assert_allclose(got, p["W1"] @ p["W2"], atol=3e-10)
    late = balanced_whitened(problem, theta0, [1e3, 1e300])
    Phi1 = split(problem).Phi1
    start, end = Phi1.T @ theta0, Phi1.T @ problem.min_norm
    if len(start) == 1 and start @ end < 0:  # straight at the saddle
        end = 0 * end
    np.testing.assert_allclose(Phi1.T @ late, [end] * 2, atol=1e-12)


def test_one_output_whitened_special_starts():
    problem, _ = white(4, 6, 1, 3)
    best, Phi1 = problem.min_norm, split(problem).Phi1
    clock = 2 * 0.4 * 1.3**2 * np.linalg.norm(Phi1.T @ best)
    t = np.array([0.0, 0.3, 2.0])
    # along the solution: the logistic equation w' = 2w(1 − w)
    along = balanced_whitened(problem, 0.1 * best, t)
    logistic = 1 / (1 + 9 * np.exp(-2 * clock * t))
    np.testing.assert_allclose(along[..., 0], logistic[:, None] * best[:, 0], rtol=1e-12)
    # opposite: a saddle at zero, w' = −2|w|(1 + |w|)
    problem = gb.Regression(np.eye(3), np.array([2.0, 0.0, 0.0]), 0.5)
    w = balanced_whitened(problem, [-1.0, 0.0, 0.0], [0.5, 50.0])
    decayed = 2 * np.exp(-4 * 0.5) / (3 - np.exp(-4 * 0.5))
    np.testing.assert_allclose(w, [[-decayed, 0, 0], [0, 0, 0]], atol=1e-15)
    # no labels: |w|' = −2|w|², and a scalar time gives one predictor
    still = gb.Regression(np.eye(3), np.zeros(3), 0.5)
    np.testing.assert_allclose(balanced_whitened(still, [0.0, 4.0, 0.0], 0.5), [0, 4 / 5, 0])
    with pytest.raises(ValueError, match="equal singular values.*got 1 to 2"):
        balanced_whitened(gb.Regression(np.diag([1.0, 2.0]), np.ones(2), 1.0), [1.0, 1.0], 1.0)
    with pytest.raises(ValueError, match="one output for this closed form, got 2"):
        balanced_whitened(gb.Regression(np.eye(2), np.eye(2), 1.0), np.eye(2), 1.0)
    with pytest.raises(ValueError, match="theta0 must not be zero in the row space"):
        balanced_whitened(still, np.zeros(3), 1.0)


def scalar_imbalance(problem, rng, lam, h):
    """U1ᵀU1 − VᵀV = lam on the row space of both: aligned factors with u² − v² = lam."""
    parts = split(problem)
    r, m = parts.B.shape
    p = min(r, m)
    hidden, left, right = (np.linalg.qr(rng.standard_normal((a, a)))[0][:, :p] for a in (h, r, m))
    v = rng.uniform(0.3, 1.0, p)
    return {
        "W1": parts.Phi1 @ (left * np.sqrt(v**2 + lam)) @ hidden.T
        + parts.Phi2 @ rng.standard_normal((problem.d - r, h)),
        "W2": hidden @ (right * v).T,
    }


@pytest.mark.parametrize(("m", "rank", "lam"), [(3, 4, 0.0), (2, 4, 0.7), (5, 2, 2.0), (1, 1, 0.5)])
def test_riccati_solution_is_the_flow(m, rank, lam):
    problem, rng = white(5, 6, m, rank, seed=m)
    params = scalar_imbalance(problem, rng, lam, 5)
    ts = np.array([0.0, 1e-9, 0.3, 1.5, 20.0])
    told, Phi1 = riccati_solution(problem, params, ts), split(problem).Phi1
    for i, p in enumerate(flow(problem, params, ts)):
        U1, V = Phi1.T @ p["W1"], p["W2"].T
        np.testing.assert_allclose(told.UV[i], U1 @ V.T, atol=1e-9)
        np.testing.assert_allclose(told.VV[i], V @ V.T, atol=1e-9)
        np.testing.assert_allclose(told.UU[i], U1 @ U1.T, atol=1e-9)
    late = riccati_solution(problem, params, [1e3, 1e5]).UV  # rates differ by e^±10⁵
    np.testing.assert_allclose(late, [Phi1.T @ problem.min_norm] * 2, atol=1e-11)


def test_riccati_needs_a_scalar_imbalance():
    problem, rng = white(5, 6, 2, 3)
    params = {"W1": rng.standard_normal((6, 8)), "W2": rng.standard_normal((8, 2))}
    with pytest.raises(ValueError, match="multiple of a projection"):
        riccati_solution(problem, params, 1.0)
    zeros = {name: 0 * value for name, value in params.items()}
    assert not riccati_solution(problem, zeros, 3.0).UU.any()
    assert riccati_solution(problem, zeros, 3.0).UV.shape == (3, 2)


def test_balanced_nets_can_end_at_a_saddle():
    """m = r and determinants of opposite signs: ‖E‖ ends at the least singular value of B."""
    problem = gb.Regression.half_sum(np.eye(2), np.diag([2.0, 0.7]))
    net = balanced_two_layer(problem, np.diag([1.0, -0.5]), 2)
    end = riccati_solution(problem, net, 12.0)  # rounding leaves the saddle later
    gap = np.linalg.norm(np.diag([2.0, 0.7]) - end.UV)
    assert gap == pytest.approx(0.7, abs=1e-5)
    assert np.linalg.norm(error(problem, flow(problem, net, [15.0])[0])) == pytest.approx(0.7)
    told = certificate(problem, net)
    assert told.kB(0.0) > 0.5  # a rate for those that come close to the solution …
    assert told.asymptotic_rate == 0  # … and it is known that this one may not
