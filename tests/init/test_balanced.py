"""Balanced inits: the defining identities, where none exists, and odd sizes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradbias as gb
from gradbias.numerics.host_rng import generator

CHAINS = {
    "two layers": gb.TwoLayer(5, 3, 7),
    "one output": gb.TwoLayer(5, 1, 4),
    "width 1": gb.TwoLayer(5, 1, 1),
    "k > d": gb.TwoLayer(2, 6, 3),
    "two layers of Deep": gb.Deep([5, 4, 3]),
    "four layers": gb.Deep([5, 8, 3, 4, 3]),
    "narrow": gb.Deep([6, 2, 2, 2]),
    "all ones": gb.Deep([1, 1, 1, 1]),
    "one layer": gb.Deep([5, 3]),
}


def normal(*shape, key=0):
    return generator(key, "tests.balanced").standard_normal(shape)


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def weights(net, params):
    return [params[name] for name in net.shapes()]


def data(n=6, d=10, k=3, rank=4):
    X = normal(n, rank, key=1) @ normal(rank, d, key=2)
    return gb.Regression.half_sum(X, normal(n, k, key=3))


def imbalance_error(Ws, P=None):
    """The largest |W_kᵀW_k − W_{k+1}W_{k+1}ᵀ|, relative to the layers; P projects the first."""
    seen = list(Ws) if P is None else [P @ Ws[0], *Ws[1:]]
    pairs = [(a.T @ a, b @ b.T) for a, b in itertools.pairwise(seen)]
    return max((relative(a, b) for a, b in pairs), default=0.0)


# --- Rank1 ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("d", "depth", "width", "signs"),
    [
        (10, 3, 7, None),
        (10, 3, 7, [1, -1]),
        (4, 4, 1, [-1, -1, -1]),
        (1, 2, 5, [-1.0]),
        (6, 1, 3, None),
        (6, 1, 3, []),
        (3, 30, 2, None),
    ],
)
@pytest.mark.parametrize("scale", [1e-200, 0.3, 1e200])
def test_rank1_norms_alignment_and_predictor(d, depth, width, signs, scale):
    net, theta0 = gb.Rank1(d, depth, width), scale * normal(d)
    params = gb.init.balanced(net, theta0, key=4, signs=signs)
    norm = (scale * np.linalg.norm(normal(d))) ** (1 / (2 * depth - 1))
    u, v = params["u"], params["v"]
    np.testing.assert_allclose(np.linalg.norm(params["v1"] / norm), 1, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(u / norm, axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(v / norm, axis=1), 1, rtol=1e-12)
    cosines = np.sum((u / norm) * (v / norm), axis=1)
    np.testing.assert_allclose(cosines, np.ones(depth - 1) if signs is None else signs, rtol=1e-12)
    theta = np.sum(u * v, axis=1).prod() * params["v1"]
    np.testing.assert_allclose(theta, theta0, rtol=1e-12)
    assert {name: value.shape for name, value in params.items()} == net.shapes()


def test_rank1_pairs_have_their_own_directions():
    u = gb.init.balanced(gb.Rank1(5, 3, 400), normal(5))["u"]
    cosine = u[0] @ u[1] / (np.linalg.norm(u[0]) * np.linalg.norm(u[1]))
    assert abs(cosine) * np.sqrt(400) < 4


def test_column_theta0_is_a_vector():
    net, theta0 = gb.Rank1(5, 3, 4), normal(5)
    a, b = gb.init.balanced(net, theta0), gb.init.balanced(net, theta0[:, None].tolist())
    assert all(np.array_equal(a[name], b[name]) for name in a)


# --- Whole layers -----------------------------------------------------------------------------


@pytest.mark.parametrize("net", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("scale", [1e-100, 1.0, 1e100])
def test_chain_is_balanced_and_multiplies_to_theta0(net, scale):
    d, *hidden, k = net.chain
    rank = min(d, k, *hidden)
    theta0 = normal(d, rank) @ normal(rank, k, key=1)
    Ws = weights(net, gb.init.balanced(net, scale * theta0, key=3))
    assert [W.shape for W in Ws] == list(net.shapes().values())
    unit = [W / scale ** (1 / len(Ws)) for W in Ws]
    product = np.linalg.multi_dot(unit) if len(unit) > 1 else unit[0]
    assert relative(product, theta0) < 1e-12
    assert imbalance_error(unit) < 1e-12
    # an independent consequence: every layer has the N-th roots of theta0's singular values
    roots = np.linalg.svd(theta0, compute_uv=False)[:rank] ** (1 / len(Ws))
    for W in unit:
        s = np.linalg.svd(W, compute_uv=False)
        np.testing.assert_allclose(s[:rank], roots, rtol=1e-11)
        assert s[rank:].max(initial=0) < 1e-12 * s[0]


def test_ill_conditioned_theta0():
    theta0 = normal(6, 6) @ np.diag(10.0 ** -np.arange(0, 18, 3)) @ normal(6, 6, key=1)
    Ws = weights(gb.TwoLayer(6, 6, 9), gb.init.balanced(gb.TwoLayer(6, 6, 9), theta0))
    assert relative(Ws[0] @ Ws[1], theta0) < 1e-12
    assert imbalance_error(Ws) < 1e-12


def test_hidden_frame_is_random_and_repeatable():
    net, theta0 = gb.TwoLayer(5, 2, 6), normal(5, 2)
    one, same = gb.init.balanced(net, theta0, key=1), gb.init.balanced(net, theta0, key=1)
    other = gb.init.balanced(net, theta0, key=2)
    assert np.array_equal(one["W1"], same["W1"])
    assert relative(one["W1"], other["W1"]) > 0.1
    # what does not depend on the frame: the Gram matrices that drive the predictor
    np.testing.assert_allclose(one["W1"] @ one["W1"].T, other["W1"] @ other["W1"].T, atol=1e-12)


def test_very_deep():
    problem, theta0 = gb.Regression.mean(normal(1, 3), [1.0]), normal(3, key=1)
    net = gb.Deep([3, *[2] * 1500, 1])
    Ws = weights(net, gb.init.balanced(net, theta0, problem=problem))
    theta = Ws[-1]
    for W in reversed(Ws[:-1]):
        theta = W @ theta
    assert relative(theta[:, 0], theta0) < 1e-12
    assert imbalance_error(Ws, problem.row_space @ problem.row_space.T) < 1e-12


def test_too_narrow():
    with pytest.raises(ValueError, match=r"hidden widths of at least 3.*got 7, 2"):
        gb.init.balanced(gb.Deep([5, 7, 2, 3]), normal(5, 3))


def test_zero_is_a_saddle_but_a_legal_single_layer():
    for net in (gb.Rank1(4, 2, 3), gb.TwoLayer(4, 1, 3), gb.Deep([4, 3, 3, 1])):
        with pytest.raises(ValueError, match="theta0 must not be zero"):
            gb.init.balanced(net, np.zeros(4))
    assert not gb.init.balanced(gb.Deep([4, 1]), np.zeros(4))["W1"].any()
    assert not gb.init.balanced(gb.Rank1(4, 1, 3), np.zeros(4))["v1"].any()


@given(
    d=st.sampled_from([1, 3, 6]),
    k=st.sampled_from([1, 2, 5]),
    hidden=st.lists(st.sampled_from([1, 2, 7]), max_size=3),
    key=st.integers(0, 2**40),
    scale=st.sampled_from([1e-12, 1.0, 1e6]),
)
def test_balanced_whenever_wide_enough(d, k, hidden, key, scale):
    rank = min([d, k, *hidden])
    theta0 = scale * normal(d, rank, key=key) @ normal(rank, k, key=key + 1)
    net = gb.Deep([d, *hidden, k])
    Ws = weights(net, gb.init.balanced(net, theta0, key=key))
    product = np.linalg.multi_dot(Ws) if len(Ws) > 1 else Ws[0]
    assert relative(product, theta0) < 1e-12
    assert imbalance_error(Ws) < 1e-12


# --- Inside the row space ---------------------------------------------------------------------


def test_row_space_matches_the_sheet():
    problem, net = data(), gb.TwoLayer(10, 3, 8)
    theta0 = normal(10, 3)
    params = gb.init.balanced(net, theta0, problem=problem)
    U, V = params["W1"], params["W2"].T
    # the printed formula, by an eigendecomposition instead of a singular value decomposition
    Phi1 = np.linalg.svd(problem.X)[2][:4].T
    values, vectors = np.linalg.eigh(theta0.T @ Phi1 @ Phi1.T @ theta0)
    root = (vectors * values**0.5) @ vectors.T
    assert relative(V @ V.T, root) < 1e-12
    assert relative(U @ U.T, theta0 @ np.linalg.inv(root) @ theta0.T) < 1e-12
    assert relative(U @ V.T, theta0) < 1e-12
    # imbalance: zero in the row space, by the spectrum of the small Gram matrices, not outside
    U1 = Phi1.T @ U
    spectrum = np.linalg.eigvalsh(U1.T @ U1 - V.T @ V)
    assert np.abs(spectrum).max() < 1e-12 * np.linalg.norm(V) ** 2
    assert np.linalg.norm(U.T @ U - V.T @ V) > 0.1


@pytest.mark.parametrize("hidden", [[3], [8], [3, 5], [6, 3, 9]])
def test_row_space_at_any_depth(hidden):
    problem, net, theta0 = data(), gb.Deep([10, *hidden, 3]), normal(10, 3)
    Ws = weights(net, gb.init.balanced(net, theta0, problem=problem))
    P = problem.row_space @ problem.row_space.T
    assert relative(np.linalg.multi_dot(Ws), theta0) < 1e-12
    assert imbalance_error(Ws, P) < 1e-12
    assert imbalance_error(Ws) > 0.1


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_row_space_at_extreme_scales(scale):
    problem, net, theta0 = data(), gb.TwoLayer(10, 3, 5), normal(10, 3)
    params = gb.init.balanced(net, scale * theta0, problem=problem)
    Ws = [W / np.sqrt(scale) for W in weights(net, params)]
    assert relative(Ws[0] @ Ws[1], theta0) < 1e-12
    assert imbalance_error(Ws, problem.row_space @ problem.row_space.T) < 1e-12
    with pytest.raises(ValueError, match="no balanced factorisation"):
        gb.init.balanced(net, scale * theta0, problem=data(rank=2))


def test_full_row_space_is_the_whole_layer():
    problem = gb.Regression.mean(normal(12, 5), normal(12, 2, key=1))
    net, theta0 = gb.TwoLayer(5, 2, 4), normal(5, 2, key=2)
    with_data = gb.init.balanced(net, theta0, problem=problem)
    without = gb.init.balanced(net, theta0)
    assert relative(with_data["W1"] @ with_data["W1"].T, without["W1"] @ without["W1"].T) < 1e-12


def test_population_and_one_layer():
    sigma = np.diag([1.0, 2.0, 0.0, 0.0])
    problem = gb.Population(sigma, normal(2, 4), np.eye(2))
    theta0 = normal(4, 2)
    params = gb.init.balanced(gb.TwoLayer(4, 2, 3), theta0, problem=problem)
    P = np.diag([1.0, 1.0, 0.0, 0.0])
    assert imbalance_error([params["W1"], params["W2"]], P) < 1e-12
    assert np.array_equal(gb.init.balanced(gb.Deep([4, 2]), theta0, problem=problem)["W1"], theta0)


@pytest.mark.parametrize("unseen", [1.0, 1e3])
def test_singular_seen_part_with_the_same_kernel_is_fine(unseen):
    # two outputs of three, and fewer directions than outputs: r = 2 < k = 3
    problem = data(rank=2)
    basis = problem.row_space
    P = basis @ basis.T
    parts = P @ normal(10, 2, key=5) + unseen * (np.eye(10) - P) @ normal(10, 2, key=6)
    theta0 = parts @ normal(2, 3, key=7)
    net = gb.TwoLayer(10, 3, 2)  # h = 2 < k as well
    Ws = weights(net, gb.init.balanced(net, theta0, problem=problem))
    assert relative(Ws[0] @ Ws[1], theta0) < 1e-12
    assert imbalance_error(Ws, P) < 1e-12


def test_no_balanced_factorisation():
    net = gb.TwoLayer(10, 3, 8)
    with pytest.raises(ValueError, match=r"rank 2 \(row space: 2, outputs: 3\)"):
        gb.init.balanced(net, normal(10, 3), problem=data(rank=2))
    problem = data()
    P = problem.row_space @ problem.row_space.T
    outside = (np.eye(10) - P) @ normal(10, 3)
    with pytest.raises(ValueError, match=r"part inside has rank 0"):
        gb.init.balanced(net, outside, problem=problem)
    one_output_outside = P @ normal(10, 3) * [1, 1, 0] + outside * [0, 0, 1e-6]
    with pytest.raises(ValueError, match="no balanced factorisation"):
        gb.init.balanced(net, one_output_outside, problem=problem)
    with pytest.raises(ValueError, match="hidden widths of at least 3"):
        gb.init.balanced(gb.TwoLayer(10, 3, 2), normal(10, 3), problem=problem)


def test_nearly_singular_seen_part_is_exact_or_refused():
    # between clearly regular and singular the exact layers exist but float64 cannot hold them
    problem, net = data(), gb.TwoLayer(10, 3, 8)
    P = problem.row_space @ problem.row_space.T
    outcomes = []
    for exponent in range(0, 16):
        seen = P @ normal(10, 3) * [1, 1, 10.0**-exponent]
        theta0 = seen + (np.eye(10) - P) @ normal(10, 3)
        try:
            Ws = weights(net, gb.init.balanced(net, theta0, problem=problem))
        except ValueError as error:
            assert "no balanced factorisation" in str(error)
            outcomes.append(False)
            continue
        assert relative(Ws[0] @ Ws[1], theta0) < 1e-12
        assert imbalance_error(Ws, P) < 1e-12
        outcomes.append(True)
    assert outcomes[0] and not outcomes[-1]


# --- Bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("net", "theta0", "kwargs", "message"),
    [
        (gb.Diagonal(3), np.ones(3), {}, "Rank1, TwoLayer or Deep .* got Diagonal"),
        ("net", np.ones(3), {}, "net must be a net of gradbias, got str"),
        (gb.TwoLayer(3, 2, 4), np.ones(3), {}, r"theta0 must have 2 axes, got shape \(3,\)"),
        (gb.TwoLayer(3, 2, 4), np.ones((2, 3)), {}, r"shape \(3, 2\), got \(2, 3\)"),
        (gb.Rank1(3, 2, 4), np.ones(4), {}, r"shape \(3,\), got \(4,\)"),
        (gb.Rank1(3, 2, 4), [1, np.nan, 0], {}, "theta0 must be finite"),
        (gb.Rank1(3, 2, 4), [1.7e308] * 3, {}, "theta0 must have a norm within the range"),
        (gb.TwoLayer(3, 1, 4), [1.7e308] * 3, {}, "theta0 must have a norm within the range"),
        (gb.Rank1(3, 2, 4), "abc", {}, "theta0 must be an array"),
        (gb.Rank1(3, 2, 4), np.ones(3), {"key": -1}, "key must be a whole number"),
        (gb.Rank1(3, 2, 4), np.ones(3), {"key": 0.5}, "key must be a whole number"),
        (gb.Rank1(3, 2, 4), np.ones(3), {"signs": [1, 1]}, r"signs must have shape \(1,\)"),
        (gb.Rank1(3, 2, 4), np.ones(3), {"signs": [2]}, r"signs must be \+1 or -1, got \[2.0\]"),
        (gb.Rank1(3, 2, 4), np.ones(3), {"problem": data(d=3, k=1)}, "left out for Rank1"),
        (gb.TwoLayer(3, 1, 4), np.ones(3), {"signs": [1]}, "signs must be left out for TwoLayer"),
        (gb.TwoLayer(3, 1, 4), np.ones(3), {"problem": "X"}, "must have a row space .* got str"),
        (gb.TwoLayer(3, 1, 4), np.ones(3), {"problem": data(k=1)}, "d = 3 .* got d = 10"),
        (gb.TwoLayer(10, 1, 4), np.ones(10), {"problem": data()}, "k = 1 .* k = 3"),
    ],
)
def test_bad_input(net, theta0, kwargs, message):
    with pytest.raises(ValueError, match=message):
        gb.init.balanced(net, theta0, **kwargs)
