"""Imbalances against the matrices that define them."""

import numpy as np
import pytest

import gradbias as gb

rng = np.random.default_rng(11)


def problem(d, k, n=3):
    # rank deficient: the last row is the sum of the others
    X = rng.standard_normal((n, d))
    X[-1] = X[:-1].sum(0)
    return gb.Regression.half_sum(X, rng.standard_normal((n, k)))


def non_zero_spectrum(left, right):
    values = np.linalg.eigvalsh(left.T @ left - right @ right.T)[::-1]
    size = min(len(values), left.shape[0] + right.shape[1])
    keep = np.sort(np.argsort(-np.abs(values), kind="stable")[:size])
    return values[keep]


@pytest.mark.parametrize("d, k, width", [(5, 2, 30), (5, 2, 7), (5, 2, 3), (2, 5, 9), (4, 1, 1)])
def test_two_layer_spectrum_and_matrix(d, k, width, measure, draw):
    data, net = problem(d, k), gb.TwoLayer(d, k, width)
    params = draw(net)
    W1, W2 = params["W1"], params["W2"]
    value = measure(gb.observe.imbalance, data, net, params)
    assert value.shape == (min(width, d + k),)
    np.testing.assert_allclose(value, non_zero_spectrum(W1, W2), atol=1e-12)
    matrix = measure(gb.observe.imbalance_of(matrix=True), data, net, params)
    np.testing.assert_allclose(matrix, W1.T @ W1 - W2 @ W2.T, atol=1e-13)


def test_row_space_sees_only_what_the_data_see(measure, draw):
    data, net = problem(6, 2), gb.TwoLayer(6, 2, 20)
    params = draw(net)
    assert data.rank == 2
    U1 = np.linalg.pinv(data.X) @ data.X @ params["W1"]
    Lambda = U1.T @ U1 - params["W2"] @ params["W2"].T
    value = measure(gb.observe.imbalance_of(row_space=True), data, net, params)
    assert value.shape == (4,)
    want = np.linalg.eigvalsh(Lambda)
    np.testing.assert_allclose(value, np.r_[want[-2:][::-1], want[:2][::-1]], atol=1e-12)
    matrix = measure(gb.observe.imbalance_of(matrix=True, row_space=True), data, net, params)
    np.testing.assert_allclose(matrix, Lambda, atol=1e-12)


def test_deep_nets_give_every_pair(measure, draw):
    data, net = problem(4, 2), gb.Deep([4, 9, 3, 2])
    params = draw(net)
    value = measure(gb.observe.imbalance, data, net, params)
    assert sorted(value) == ["1", "2"]
    for pair in (1, 2):
        want = non_zero_spectrum(params[f"W{pair}"], params[f"W{pair + 1}"])
        np.testing.assert_allclose(value[str(pair)], want, atol=1e-12)
        alone = measure(gb.observe.imbalance_of(pair), data, net, params)
        np.testing.assert_allclose(alone, value[str(pair)], rtol=1e-14)
    two = gb.Deep([4, 3, 2])
    assert list(measure(gb.observe.imbalance, data, two, draw(two))) == ["1"]


def test_rank1_gap_is_the_imbalance_of_its_chain(measure, draw):
    data, net = problem(4, 1), gb.Rank1(4, 3, 5)
    params = draw(net)
    gap = measure(gb.observe.gap, data, net, params)
    want = params["v1"] @ params["v1"] - np.sum(params["u"] ** 2, axis=1)
    np.testing.assert_allclose(gap, want, atol=1e-13)
    assert gb.observe.gap.dims(data, net) == ("pair",)
    chain = measure(gb.observe.imbalance, data, net, params)
    np.testing.assert_allclose(chain["1"], gap[:1], atol=1e-13)
    assert sorted(chain) == ["1", "2", "3", "4"]


def test_pair_imbalance_after_a_rescaling(measure, draw):
    # u[k] = e, v[k] = (1 + ε)e: every term is (1 + ε)² − 1
    net = gb.Rank1(4, 4, 5)
    params = draw(net)
    params["v"] = 1.3 * params["u"]
    value = measure(gb.observe.pair_imbalance, problem(4, 1), net, params)
    np.testing.assert_allclose(value, 3 * (1.3**2 - 1) / 7, rtol=1e-13)


def test_depth_one_and_zero_parameters(measure, draw):
    data, net = problem(4, 1), gb.Rank1(4, 1, 5)
    params = draw(net)
    assert measure(gb.observe.gap, data, net, params).shape == (0,)
    assert measure(gb.observe.pair_imbalance, data, net, params) == 0
    deep = gb.Rank1(4, 2, 5)
    zero = draw(deep, scale=0.0)
    assert np.isnan(measure(gb.observe.pair_imbalance, data, deep, zero))
    two = gb.TwoLayer(4, 1, 9)
    np.testing.assert_array_equal(
        measure(gb.observe.imbalance, data, two, draw(two, scale=0.0)), np.zeros(5)
    )


@pytest.mark.parametrize("name", ["gap", "pair_imbalance"])
def test_rank1_only(name):
    with pytest.raises(ValueError, match=f"{name}.*Rank1 net, got TwoLayer"):
        getattr(gb.observe, name).bind(problem(4, 1), gb.TwoLayer(4, 1, 2))


def test_settings_that_do_not_fit():
    data, net = problem(4, 1), gb.TwoLayer(4, 1, 2)
    for bad in (gb.Diagonal(4), gb.MLP([4, 2, 1]), gb.Deep([4, 1]), gb.Rank1(4, 1, 2)):
        with pytest.raises(ValueError, match=f"imbalance.*two factors, got {type(bad).__name__}"):
            gb.observe.imbalance.bind(data, bad)
    with pytest.raises(ValueError, match=r"imbalance_2.*at most 1"):
        gb.observe.imbalance_of(2).bind(data, net)
    with pytest.raises(ValueError, match="row space, got Samples"):
        samples = gb.Samples(lambda output, y: output[0], np.eye(4), np.ones((4, 1)))
        gb.observe.imbalance_of(row_space=True).bind(samples, net)
    for settings in ({"pair": 0}, {"pair": 1.0}, {"matrix": 1}, {"row_space": "yes"}):
        with pytest.raises(ValueError, match=next(iter(settings))):
            gb.observe.imbalance_of(**settings)
