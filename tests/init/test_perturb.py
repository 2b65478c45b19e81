"""The imbalance Δ of rank-1 nets, and random noise around a start."""

import numpy as np
import pytest

import gradbias as gb


def pair_imbalance(params):
    u2, v2 = np.sum(params["u"] ** 2, axis=1), np.sum(params["v"] ** 2, axis=1)
    return np.sum((v2 - u2) / u2) / (2 * len(u2) + 1)


def predictor(params):
    return np.sum(params["u"] * params["v"], axis=1).prod() * params["v1"]


STARTS = [
    (gb.Rank1(8, 3, 5), "balanced"),
    (gb.Rank1(8, 2, 1), "balanced"),
    (gb.Rank1(8, 6, 4), "gaussian"),
]


@pytest.mark.parametrize(("net", "kind"), STARTS)
@pytest.mark.parametrize("delta", [-0.333, -0.204, 0.0, 0.084, 1.2, 1e3])
def test_delta_is_hit_and_the_predictor_stays(net, kind, delta):
    theta0 = np.linspace(-1, 2, 8)
    start = (
        gb.init.balanced(net, theta0) if kind == "balanced" else gb.init.gaussian(net, 0.7, key=1)
    )
    moved = gb.init.perturb(net, start, delta)
    assert abs(pair_imbalance(moved) - delta) < 1e-12 * max(1, delta)
    kept = predictor(start)
    assert np.linalg.norm(predictor(moved) - kept) < 1e-12 * np.linalg.norm(kept)
    np.testing.assert_allclose(moved["u"] / start["u"], (moved["v1"] / start["v1"])[0], rtol=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.084), (0.3, 0.276), (-0.3, -0.204)])
def test_the_papers_epsilon(epsilon, delta):
    # L = 3: v ← (1 + ε)v gives these Δ; v/u is free of the common rescaling
    net = gb.Rank1(5, 3, 4)
    start = gb.init.balanced(net, np.ones(5))
    moved = gb.init.perturb(net, start, delta)
    np.testing.assert_allclose(moved["v"] / moved["u"], 1 + epsilon, rtol=1e-12)


def test_zero_delta_leaves_a_balanced_start():
    net = gb.Rank1(5, 4, 3)
    start = gb.init.balanced(net, np.ones(5), signs=[1, -1, 1])
    moved = gb.init.perturb(net, start, 0.0)
    assert all(np.allclose(moved[n], start[n], rtol=1e-14, atol=0) for n in start)


def test_tiny_parameters():
    net = gb.Rank1(3, 2, 2)
    start = {name: 1e-180 * value for name, value in gb.init.gaussian(net, 1.0).items()}
    moved = gb.init.perturb(net, start, 0.5)
    assert abs(pair_imbalance({n: 1e180 * moved[n] for n in "uv"}) - 0.5) < 1e-12


def test_jitter():
    net = gb.TwoLayer(200, 100, 300)
    start = gb.init.constant(net, 1.0)
    noisy = gb.init.jitter(net, start, 0.01, key=2)
    for value in noisy.values():
        z = (np.mean(((value - 1) / 0.01) ** 2) - 1) / np.sqrt(2 / value.size)
        assert abs(z) < 4
    only = gb.init.jitter(net, start, {"W2": 0.01}, key=2)
    assert np.array_equal(only["W1"], start["W1"]) and np.array_equal(only["W2"], noisy["W2"])
    mlp = gb.MLP([2, 3])
    assert gb.init.jitter(mlp, gb.init.constant(mlp, 1.0), 1.0)["b1"].all()


NET = gb.Rank1(4, 3, 2)
START = gb.init.gaussian(NET, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gb.init.perturb(gb.TwoLayer(2, 2, 2), {}, 0.1), "must be Rank1.* got TwoLayer"),
        (lambda: gb.init.perturb(gb.Rank1(4, 1, 2), {}, 0.1), "depth of at least 2 .* got depth 1"),
        (lambda: gb.init.perturb(NET, START, -0.4), "delta must be greater than -0.4, got -0.4"),
        (lambda: gb.init.perturb(NET, START, "x"), "delta must be a number"),
        (lambda: gb.init.perturb(NET, START | {"u": np.zeros((2, 2))}, 0.1), "no zero row in u"),
        (lambda: gb.init.perturb(NET, START | {"v": np.zeros((2, 2))}, 0.1), "not all of v zero"),
        (
            lambda: gb.init.perturb(NET, {"v1": START["v1"]}, 0.1),
            "params lacks parameters 'u', 'v'",
        ),
        (lambda: gb.init.jitter(NET, START, -1.0), "std must be at least 0"),
        (lambda: gb.init.jitter(NET, START, {"w": 1.0}), "std has unknown parameters 'w'"),
        (lambda: gb.init.jitter(NET, START | {"v1": np.full(4, np.nan)}, 1.0), "must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
