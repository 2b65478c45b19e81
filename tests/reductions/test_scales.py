"""Scales that differ inside a layer: what training would make grow is never dropped."""

import itertools

import numpy as np
import pytest

import gradbias as gb
from fuzz.kinds import closure, descent
from gradbias.reductions import reduce
from reference import loop

EYE = gb.Regression.half_sum(np.eye(2), np.eye(2))


def end_of(setup, **options):
    return gb.simulate(setup, progress=False, **options)


@pytest.mark.parametrize("small", [1e-10, 5e-14, 8e-15, 1e-16, 1e-20, 1e-150])
def test_a_unit_far_smaller_than_its_layer_grows(small):
    """In every direction by itself the step is a − 0.1·a(a² − 1)."""
    a = np.array([0.9, small])
    steps = 1000 if small > 1e-100 else 5000
    start = {"W1": np.diag(a), "W2": np.diag(a)}
    net = gb.TwoLayer(2, 2, 2)
    setup = gb.Setup(EYE, net, start, gb.Descent(0.1), gb.Until(steps=steps), save_at=[steps])
    for _ in range(steps):
        a = a - 0.1 * a * (a * a - 1)
    run = end_of(setup)
    np.testing.assert_allclose(np.diag(run.theta), a**2, rtol=1e-10)
    np.testing.assert_allclose(run.theta, end_of(setup, reduce=False).theta, atol=1e-10)


def test_flow_lets_a_small_unit_grow():
    """Two layers that are equal: θ' = 2θ(1 − θ), a logistic curve."""
    a, time = np.array([0.9, 1e-20]), 46.5
    start = {"W1": np.diag(a), "W2": np.diag(a)}
    setup = gb.Setup(
        EYE, gb.TwoLayer(2, 2, 2), start, gb.Flow(), gb.Until(time=time), save_at=[time]
    )
    theta = 1 / (1 + (1 / a**2 - 1) * np.exp(-2 * time))
    assert 0.1 < theta[1] < 0.9
    np.testing.assert_allclose(np.diag(end_of(setup).theta), theta, rtol=1e-8)


def graded(seed, d=3, k=3, width=12, large=2, small=1e-12):
    """A wide net of which only a few units are of order one."""
    rng = np.random.default_rng(seed)
    X = np.linalg.qr(rng.normal(size=(d + 1, d)))[0]
    Y = X @ np.diag([2.0, 1.5, 1.0])
    units = np.where(np.arange(width) < large, 0.5, small)
    W1, W2 = rng.normal(size=(d, width)) * units, units[:, None] * rng.normal(size=(width, k))
    return gb.Regression.half_sum(X, Y), gb.TwoLayer(d, k, width), {"W1": W1, "W2": W2}


@pytest.mark.parametrize("small", [1e-6, 1e-12, 1e-20])
def test_units_that_alone_show_a_direction_are_not_mixed_with_large_ones(small):
    """Reduced, they would have the digits of the large ones: off by 1e-4 at 1e-12."""
    problem, net, start = graded(0, small=small)
    setup = gb.Setup(problem, net, start, gb.Descent(0.1), gb.Until(steps=2000), save_at=[2000])
    run = end_of(setup)
    assert run.stats["reduction"] == "none" and "may grow" in run.stats["reason"]
    by_hand = loop("TwoLayer", start, problem.X, problem.Y, 0.5, 2000, 0.1)
    assert np.linalg.matrix_rank(run.theta, 1e-3) == 3  # the small units did grow
    np.testing.assert_allclose(run.theta, by_hand["W1"] @ by_hand["W2"], atol=1e-10)


def test_small_units_that_bring_nothing_of_their_own_do_not_hinder():
    problem, net, start = graded(0, width=40, large=30, small=1e-20)
    found = reduce(problem, net, start)
    assert not isinstance(found, str) and found.net.dims == (3, 6, 3)
    setup = gb.Setup(problem, net, start, gb.Descent(0.01), gb.Until(steps=300), save_at=[300])
    small, full = end_of(setup), end_of(setup, reduce=False)
    np.testing.assert_allclose(small.theta, full.theta, atol=1e-12)


@pytest.mark.parametrize("row", [1e-10, 1e-20, 1e-100])
def test_inputs_of_different_scale_reduce_where_the_data_keep_them_apart(row):
    """X = I: the second row of W1 and column of W2 count by their own scale."""
    rng = np.random.default_rng(0)
    scales = np.array([0.5, row])
    net, problem = gb.TwoLayer(2, 2, 30), EYE
    W1 = scales[:, None] * rng.normal(size=(2, 30)) / 5
    W2 = rng.normal(size=(30, 2)) / 5 * scales
    W1[:, :15], W2[15:] = 0, 0  # two halves, which meet only through the step
    W1[0, :3], W2[25:, 0] = 0.3, 0.3
    setup = gb.Setup(
        problem, net, {"W1": W1, "W2": W2}, gb.Descent(0.1), gb.Until(steps=4000), save_at=[4000]
    )
    found = reduce(problem, net, setup.params)
    assert not isinstance(found, str) and tuple(found.net.dims) == (2, 4, 2)
    run, full = end_of(setup), end_of(setup, reduce=False)
    assert "might have grown" in run.stats["reason"]  # by 1/row: exact zeros are near a saddle
    np.testing.assert_array_equal(run.theta, full.theta)


def test_equal_blocks_of_data_do_not_mix_their_inputs():
    """Equal singular values: any basis of theirs is one, and most of them mix the blocks."""
    block = np.array([[1.0, 0.4], [0.2, 1.0]])
    X = np.kron(np.eye(2), block)
    problem = gb.Regression.half_sum(X, X)
    scale = np.array([0.5, 0.5, 1e-18, 1e-18])
    rng = np.random.default_rng(1)
    half = np.kron(np.eye(2), np.ones((2, 6)))  # each block of inputs has its own units
    W1 = scale[:, None] * half * rng.normal(size=(4, 12))
    W2 = (scale[:, None] * half * rng.normal(size=(4, 12))).T
    setup = gb.Setup(
        problem, gb.TwoLayer(4, 4, 12), {"W1": W1, "W2": W2}, gb.Descent(0.05),
        gb.Until(steps=3000), save_at=[3000],
    )  # fmt: skip
    run = end_of(setup)
    by_hand = loop("TwoLayer", {"W1": W1, "W2": W2}, X, X, 0.5, 3000, 0.05)
    np.testing.assert_allclose(run.theta, by_hand["W1"] @ by_hand["W2"], atol=1e-10)


@pytest.mark.parametrize("axis", ["input", "sample"])
def test_data_below_the_rank_threshold_that_labels_make_matter(axis):
    """1e-20 times a parameter or label of 1e20 is of order one."""
    X = np.diag([1.0, 1e-20])
    Y = np.diag([1.0, 1e20] if axis == "sample" else [1.0, 1.0])
    start = {"W1": np.diag([0.5, 1e10 if axis == "input" else 0.5]), "W2": np.diag([0.5, 1e10])}
    if axis == "sample":
        start["W2"] = np.diag([0.5, 0.5])
    setup = gb.Setup(
        gb.Regression.half_sum(X, Y), gb.TwoLayer(2, 2, 2), start, gb.Descent(0.1),
        gb.Until(steps=20), save_at=[20],
    )  # fmt: skip
    run = end_of(setup)
    assert "row space" in run.stats["reason"]
    by_hand = loop("TwoLayer", start, X, Y, 0.5, 20, 0.1)
    for name, value in by_hand.items():
        np.testing.assert_allclose(run.final[name], value, rtol=1e-10)


def test_data_that_are_dependent_up_to_rounding_are_reduced():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 6))
    problem = gb.Regression.mean(X, rng.normal(size=(30, 2)))
    net = gb.TwoLayer(6, 2, 20)
    found = reduce(problem, net, gb.init.gaussian(net, 0.2))
    assert not isinstance(found, str) and found.net.dims == (3, 5, 2)


def test_entries_that_one_unit_cannot_hold_are_run_in_full():
    start = {"W1": np.diag([1e150, 1e-300]), "W2": np.diag([1e-150, 1e-20])}
    assert "orders of magnitude" in reduce(EYE, gb.TwoLayer(2, 2, 2), start)


ZERO_LAYERS = [
    (dims, zero)
    for dims in ((3, 2, 2), (3, 1, 1, 2), (3, 4, 4, 4, 2))
    for count in range(1, len(dims))
    for zero in itertools.combinations(range(1, len(dims)), count)
]


@pytest.mark.parametrize(("dims", "zero"), ZERO_LAYERS)
def test_any_layers_may_be_zero(dims, zero):
    rng = np.random.default_rng(0)
    net = gb.Deep(dims)
    X, Y = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))
    start = {
        name: 0.5 * rng.normal(size=shape) * (int(name[1:]) not in zero)
        for name, shape in net.shapes().items()
    }
    setup = gb.Setup(
        gb.Regression(X, Y, 0.5), net, start, gb.Descent(0.01), gb.Until(steps=30), save_at=[30]
    )
    run, by_hand = end_of(setup), loop("Deep", start, X, Y, 0.5, 30, 0.01)
    for name, value in by_hand.items():
        np.testing.assert_allclose(run.final[name], value, atol=1e-12)


@pytest.mark.parametrize(
    "seeds", [range(80), pytest.param(range(80, 2000), marks=pytest.mark.slow)]
)
def test_random_scales_in_plain_numpy(seeds):
    """Layers, rows, columns and units from 1e-300 to 1e150: the small run and the full one."""
    notes = [closure(seed).note for seed in seeds]
    assert notes.count("reduced") > len(seeds) / 4


@pytest.mark.parametrize("seed", [996478124, 996480227])
def test_random_scales_that_once_lost_digits(seed):
    """Singular values of a layer ten decades apart: 8.9e-9 and 2.7e-8 instead of 1e-10."""
    assert closure(seed).note == "errors may grow"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(0, 64 * 150, 16))
def test_random_scales_reduced_full_and_numpy(seed):
    assert descent(seed).worst <= 1
