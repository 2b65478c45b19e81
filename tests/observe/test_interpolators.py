"""Dimensions of the set of interpolators, counted in other ways."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.observe import _interpolators

rng = np.random.default_rng(19)


def low_rank(rows, columns, rank):
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))


@pytest.mark.parametrize("n, d, k, width", [(3, 6, 2, 8), (5, 3, 2, 2), (1, 4, 6, 1), (4, 4, 1, 9)])
@pytest.mark.parametrize("first, second", [(9, 9), (1, 1), (0, 1), (1, 0), (0, 0)])
def test_two_layer_in_closed_form(n, d, k, width, first, second, measure):
    # the image of (dA, dW2) ↦ dA·W2 + A·dW2 misses (r − rank A)(k − rank W2) directions
    W1, W2 = low_rank(d, width, first), low_rank(width, k, second)
    problem = gb.Regression.mean(rng.standard_normal((n, d)), rng.standard_normal((n, k)))
    r = problem.rank
    a, b = min(r, width, first), min(width, k, second)
    want = (d + k) * width - (r * k - (r - a) * (k - b))
    net = gb.TwoLayer(d, k, width)
    value = measure(gb.observe.interpolator_dimension, problem, net, {"W1": W1, "W2": W2})
    assert value == want


def numpy_rank(problem, net, params, forward):
    names = sorted(params)
    flat = np.concatenate([params[n].ravel() for n in names])
    cuts = np.cumsum([params[n].size for n in names])[:-1]
    columns = []
    for e in np.eye(flat.size):
        parts = np.split(flat + 1e-30j * e, cuts)
        p = {n: a.reshape(params[n].shape) for n, a in zip(names, parts, strict=True)}
        columns.append(forward(net, p, problem.X).imag.ravel() / 1e-30)
    return flat.size - np.linalg.matrix_rank(np.stack(columns, axis=1))


NETS = [
    gb.Deep([5, 3, 4, 2]),
    gb.Deep([5, 2]),
    gb.MLP([5, 3, 2], "tanh"),
    gb.MLP([5, 1, 2], "tanh", bias=False),
    gb.NormalisedA(5, 2, 3),
]
SCALARS = [gb.Rank1(5, 3, 4), gb.Rank1(5, 1, 4), gb.Rank1(5, 2, 1), gb.Diagonal(5)]


@pytest.mark.parametrize("net", NETS + SCALARS, ids=repr)
@pytest.mark.parametrize("n", [1, 3, 9])
def test_against_complex_steps(net, n, measure, draw, numpy_outputs):
    X = low_rank(n, 5, min(n, 2))
    Y = rng.standard_normal((n, 1 if net in SCALARS else 2))
    params = draw(net)
    for problem in (gb.Regression.mean(X, Y), gb.Samples(lambda o, y: (o - y).sum(), X, Y)):
        value = measure(gb.observe.interpolator_dimension, problem, net, params)
        assert value == numpy_rank(problem, net, params, numpy_outputs)


def test_conditioning_of_the_data_does_not_change_the_count(measure, draw):
    X = np.diag([1.0, 1e-7, 1e-14]) @ rng.standard_normal((3, 6))
    net = gb.TwoLayer(6, 1, 4)
    params = draw(net)
    params["W2"] *= 1e-4
    problem = gb.Regression.mean(X, np.ones(3))
    assert problem.rank == 3
    value = measure(gb.observe.interpolator_dimension, problem, net, params)
    assert value == 7 * 4 - 3


def test_population_and_data_without_any_direction(measure, draw):
    net = gb.TwoLayer(4, 2, 3)
    population = gb.Population(np.diag([1.0, 2, 0, 0]), np.ones((2, 4)), np.eye(2))
    assert measure(gb.observe.interpolator_dimension, population, net, draw(net)) == 18 - 4
    nothing = gb.Regression.mean(np.zeros((3, 4)), np.ones((3, 2)))
    assert measure(gb.observe.interpolator_dimension, nothing, net, draw(net)) == 18
    assert (
        measure(gb.observe.interpolator_dimension, nothing, gb.Diagonal(4), draw(gb.Diagonal(4)))
        == 8
    )


def test_widths_that_no_dense_jacobian_would_survive(measure, draw):
    net = gb.TwoLayer(40, 3, 20_000)
    problem = gb.Regression.mean(rng.standard_normal((10, 40)), rng.standard_normal((10, 3)))
    value = measure(gb.observe.interpolator_dimension, problem, net, draw(net))
    assert value == 43 * 20_000 - 30


def test_a_jacobian_too_large_is_refused_before_it_is_made(measure, draw, monkeypatch):
    monkeypatch.setattr(_interpolators, "_LARGEST", 100)
    problem = gb.Regression.mean(rng.standard_normal((10, 4)), rng.standard_normal((10, 3)))
    net = gb.MLP([4, 5, 3])
    with pytest.raises(ValueError, match=r"interpolator_dimension.*Jacobian of"):
        measure(gb.observe.interpolator_dimension, problem, net, draw(net))
