"""Random inits: variances by z-score, names, biases, and what is refused."""

import math

import numpy as np
import pytest

import gradbias as gb

BIG = gb.TwoLayer(300, 200, 400)


def z_of_variance(sample, variance, kurtosis=3.0):
    """How many standard errors the mean square is from `variance`."""
    error = variance * math.sqrt((kurtosis - 1) / sample.size)
    return (np.mean(sample**2) - variance) / error


def z_of_mean(sample, variance):
    return np.mean(sample) * math.sqrt(sample.size / variance)


@pytest.mark.parametrize("std", [1e-100, 0.1, 30.0])
def test_gaussian_std(std):
    for draw in gb.init.gaussian(BIG, std).values():
        assert abs(z_of_variance(draw / std, 1)) < 4
        assert abs(z_of_mean(draw / std, 1)) < 4
        assert abs(z_of_mean((draw / std) ** 3, 15)) < 4


def test_gaussian_by_name_and_the_imbalance_figures():
    net = gb.TwoLayer(40, 1, 50)
    cases = [(0.1, 0.1), (0.5, 0.02), (0.05, 0.2)]
    runs = [gb.init.gaussian(net, {"W1": a, "W2": b}, key=3) for a, b in cases]
    theta = runs[0]["W1"] @ runs[0]["W2"]
    for run in runs[1:]:
        np.testing.assert_allclose(run["W1"] @ run["W2"], theta, rtol=1e-12)
    assert not gb.init.gaussian(net, {"W1": 1, "W2": 0})["W2"].any()


def test_layers_are_independent():
    a, b = gb.init.gaussian(gb.Deep([200, 200, 200]), 1.0).values()
    assert abs(np.sum(a * b)) / 200 < 4


def test_biases_are_zero_unless_named_and_leave_the_weights_alone():
    with_bias, without = gb.MLP([4, 5, 2]), gb.MLP([4, 5, 2], bias=False)
    params, bare = gb.init.gaussian(with_bias, 0.5), gb.init.gaussian(without, 0.5)
    assert list(params) == ["W1", "b1", "W2", "b2"]
    assert not params["b1"].any() and not np.signbit(params["b2"]).any()
    assert all(np.array_equal(params[name], bare[name]) for name in bare)
    named = gb.init.gaussian(with_bias, {"W1": 0.5, "W2": 0.5, "b2": 1.0})
    assert named["b2"].all() and not named["b1"].any()
    assert np.array_equal(named["W2"], params["W2"])


@pytest.mark.parametrize(
    "net",
    [
        gb.Rank1(6, 1, 3),
        gb.Rank1(6, 4, 1),
        gb.Diagonal(5),
        gb.NormalisedA(4, 2, 3),
        gb.NormalisedB(4, 2, 3),
        gb.MLP([3, 2]),
        gb.nets.linear(lambda p: p["w"], shapes={"w": (4,)}),
    ],
    ids=lambda net: type(net).__name__,
)
def test_gaussian_and_constant_fit_every_net(net):
    for params in (gb.init.gaussian(net, 1.0), gb.init.constant(net, 2.0)):
        assert {name: value.shape for name, value in params.items()} == net.shapes()
        assert all(value.dtype == np.float64 for value in params.values())


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
def test_inverse_width(alpha):
    for net in (BIG, gb.Deep(BIG.chain)):
        for draw in gb.init.inverse_width(net, alpha).values():
            assert abs(z_of_variance(draw, 400 ** (-2 * alpha))) < 4


def test_inverse_width_keeps_the_imbalance_level():
    # Lemma 1: with alpha = 1/2 the level c is of order one, whatever the width (about 1.8)
    for width in (200, 3200):
        params = gb.init.inverse_width(gb.TwoLayer(6, 2, width), 0.5)
        U1, V = params["W1"][:3], params["W2"].T
        level = np.linalg.eigvalsh(U1 @ U1.T)[0] + np.linalg.eigvalsh(V @ V.T)[0]
        assert 1 < level < 2.5


FANS = [
    (BIG, {"W1": (300, 400), "W2": (400, 200)}),
    (gb.Deep([200, 300, 100, 200]), {"W1": (200, 300), "W2": (300, 100), "W3": (100, 200)}),
    (gb.MLP([300, 100, 200]), {"W1": (300, 100), "W2": (100, 200)}),
    (gb.NormalisedA(300, 50, 200), {"u": (200, 50), "w": (300, 200)}),
    (gb.NormalisedB(300, 50, 200), {"u": (200, 50), "w": (300, 200)}),
    (gb.Rank1(30000, 11, 2000), {"v1": (30000, 1), "u": (1, 2000), "v": (2000, 1)}),
]


@pytest.mark.parametrize(("net", "fans"), FANS, ids=lambda case: type(case).__name__)
@pytest.mark.parametrize("uniform", [False, True])
def test_xavier_and_kaiming_variances(net, fans, uniform):
    kurtosis = 1.8 if uniform else 3.0
    glorot = gb.init.xavier(net, uniform=uniform)
    half = gb.init.glorot(net, uniform=uniform, gain=math.sqrt(0.5))
    he = gb.init.kaiming(net, uniform=uniform)
    plain = gb.init.kaiming(net, uniform=uniform, gain=1.0)
    for name, (i, o) in fans.items():
        for params, variance in (
            (glorot, 2 / (i + o)),
            (half, 1 / (i + o)),
            (he, 2 / i),
            (plain, 1 / i),
        ):
            assert abs(z_of_variance(params[name], variance, kurtosis)) < 4
            assert abs(z_of_mean(params[name], variance)) < 4
            if uniform:
                assert np.abs(params[name]).max() <= math.sqrt(3 * variance)
    for name in set(net.shapes()) - set(fans):
        assert not he[name].any() and not glorot[name].any()


def test_kaiming_with_gain_1_keeps_the_scale_of_a_linear_net():
    net = gb.Deep([50, 2000, 2000, 50])
    params = gb.init.kaiming(net, gain=1.0, key=1)
    theta = params["W1"] @ params["W2"] @ params["W3"]
    assert 0.9 < np.mean(np.sum(theta**2, axis=0)) < 1.1  # = E of an output's square


def test_constant():
    params = gb.init.constant(gb.Diagonal(4), {"u": 2.0, "v": -1})
    assert np.array_equal(params["u"], [2.0] * 4) and np.array_equal(params["v"], [-1.0] * 4)
    assert not gb.init.constant(gb.MLP([3, 2]), 1.0)["b1"].any()


NO_SHAPES = gb.nets.linear(lambda p: p["w"])
WITH_SHAPES = gb.nets.linear(lambda p: p["w"], shapes={"w": (4, 2)})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gb.init.gaussian(3, 1.0), "net must be a net of gradbias, got int 3"),
        (lambda: gb.init.gaussian(NO_SHAPES, 1.0), "must know the shapes .* FunctionLinear"),
        (lambda: gb.init.gaussian(BIG, -1), "std must be at least 0, got -1"),
        (lambda: gb.init.gaussian(BIG, math.nan), "std must be"),
        (lambda: gb.init.gaussian(BIG, "a"), "std must be a number, got str"),
        (lambda: gb.init.gaussian(BIG, [0.1, 0.2]), "std must be a number, got list"),
        (lambda: gb.init.gaussian(BIG, {"W1": 1}), "std lacks parameters 'W2': .* 'W1', 'W2'"),
        (lambda: gb.init.gaussian(BIG, {"w1": 1, "W2": 1}), "unknown parameters 'w1'.*'W1', 'W2'"),
        (lambda: gb.init.gaussian(BIG, {"W1": -1, "W2": 1}), r"std\['W1'\] must be at least 0"),
        (lambda: gb.init.gaussian(BIG, 1.0, key=-3), "key must be a whole number"),
        (lambda: gb.init.gaussian(BIG, 1.0, key=True), "key must be a whole number"),
        (lambda: gb.init.inverse_width(gb.MLP([2, 2, 1]), 0.5), "must be TwoLayer.* got MLP"),
        (lambda: gb.init.inverse_width(gb.Deep([2, 1]), 0.5), r"got Deep\(\[2, 1\]\)"),
        (lambda: gb.init.inverse_width(BIG, -0.5), "alpha must be at least 0"),
        (lambda: gb.init.xavier(gb.Diagonal(3)), "layers with a fan-in .*xavier, got Diagonal"),
        (lambda: gb.init.kaiming(WITH_SHAPES), "layers with a fan-in .*kaiming, got FunctionLin"),
        (lambda: gb.init.kaiming("net"), "net must be a net"),
        (lambda: gb.init.xavier(BIG, gain=-1), "gain must be at least 0"),
        (lambda: gb.init.xavier(BIG, uniform="yes"), "uniform must be True or False, got 'yes'"),
        (lambda: gb.init.constant(BIG, math.inf), "value must be finite"),
        (lambda: gb.init.constant(BIG, {"u": 1.0}), "value has unknown parameters 'u'"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
