"""Scale moved between layers at a fixed predictor."""

import numpy as np
import pytest

import gradbias as gb

NET = gb.TwoLayer(6, 2, 9)
START = gb.init.gaussian(NET, 0.1)


@pytest.mark.parametrize("factor", [1e-50, 0.5, 1.0, 5.0, 1e50])
def test_product_stays(factor):
    moved = gb.init.imbalanced(NET, START, factor)
    theta = START["W1"] @ START["W2"]
    assert np.linalg.norm(moved["W1"] @ moved["W2"] - theta) < 1e-12 * np.linalg.norm(theta)
    np.testing.assert_allclose(moved["W1"], factor * START["W1"], rtol=1e-15)


@pytest.mark.parametrize(("factor", "stds"), [(5, (0.5, 0.02)), (0.5, (0.05, 0.2))])
def test_the_pairs_of_the_imbalance_figures(factor, stds):
    moved = gb.init.imbalanced(NET, START, factor)
    direct = gb.init.gaussian(NET, dict(zip(("W1", "W2"), stds, strict=True)))
    for name in moved:
        np.testing.assert_allclose(moved[name], direct[name], rtol=1e-14)


def test_imbalance_of_a_balanced_start_is_exact():
    # from W1ᵀW1 = W2W2ᵀ = G the imbalance becomes (a² − 1/a²) G
    net = gb.TwoLayer(6, 2, 9)
    base = gb.init.balanced(net, np.arange(12.0).reshape(6, 2))
    gram = base["W1"].T @ base["W1"]
    moved = gb.init.imbalanced(net, base, 3.0)
    imbalance = moved["W1"].T @ moved["W1"] - moved["W2"] @ moved["W2"].T
    assert np.linalg.norm(imbalance - (9 - 1 / 9) * gram) < 1e-12 * np.linalg.norm(gram)


def test_any_pair_of_a_deep_net_and_the_start_is_not_touched():
    net = gb.Deep([3, 4, 5, 2])
    start = gb.init.gaussian(net, 1.0)
    before = {name: value.copy() for name, value in start.items()}
    moved = gb.init.imbalanced(net, start, 4.0, layer=2)
    assert np.array_equal(moved["W1"], start["W1"])
    assert np.array_equal(moved["W2"], 4 * start["W2"])
    assert np.array_equal(moved["W3"], start["W3"] / 4)
    moved["W1"][:] = 0
    assert all(np.array_equal(start[name], before[name]) for name in start)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gb.init.imbalanced(gb.Rank1(3, 2, 2), {}, 2.0), "must be TwoLayer.* got Rank1"),
        (lambda: gb.init.imbalanced(gb.Deep([3, 2]), {}, 2.0), "at least two layers"),
        (lambda: gb.init.imbalanced(NET, START, 0.0), "factor must be greater than 0"),
        (lambda: gb.init.imbalanced(NET, START, -2.0), "factor must be greater than 0"),
        (lambda: gb.init.imbalanced(NET, START, 1e308), "range of float64, got 1e\\+308"),
        (lambda: gb.init.imbalanced(NET, START, 2.0, layer=2), "less than the 2 layers .* got 2"),
        (lambda: gb.init.imbalanced(NET, START, 2.0, layer=0), "layer must be a whole number"),
        (lambda: gb.init.imbalanced(NET, [1], 2.0), "params must be a dict of arrays by name"),
        (lambda: gb.init.imbalanced(NET, {"W1": START["W1"]}, 2.0), "params lacks parameters 'W2'"),
        (lambda: gb.init.imbalanced(NET, START | {"b": 1}, 2.0), "unknown parameters 'b'"),
        (
            lambda: gb.init.imbalanced(NET, START | {"W2": np.ones((2, 9))}, 2.0),
            r"params\['W2'\] must have shape \(9, 2\), got \(2, 9\)",
        ),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
