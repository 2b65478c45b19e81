"""One integer key for everything: no drawing function sees the numbers of another."""

import itertools

import numpy as np
import pytest

import gradbias as gb
from gradbias.numerics.host_rng import generator

# Square layers and one size, so that a shared stream would show entry by entry.
SIZE = 120
NET = gb.TwoLayer(SIZE, SIZE, SIZE)
RANK1 = gb.Rank1(SIZE, SIZE + 1, SIZE)
ZERO = gb.init.constant(NET, 0.0)


def data(name):
    return lambda key: generator(key, name).standard_normal((SIZE, SIZE))


DRAWS = {
    "balanced": lambda key: gb.init.balanced(NET, np.eye(SIZE), key=key)["W1"],
    "balanced rank-1": lambda key: gb.init.balanced(RANK1, np.ones(SIZE), key=key)["u"],
    "orthogonal": lambda key: gb.init.orthogonal(NET, 1.0, key=key)["W1"],
    "gaussian": lambda key: gb.init.gaussian(NET, 1.0, key=key)["W1"],
    "gaussian rank-1": lambda key: gb.init.gaussian(RANK1, 1.0, key=key)["u"],
    "inverse_width": lambda key: gb.init.inverse_width(NET, 0.5, key=key)["W1"],
    "xavier": lambda key: gb.init.xavier(NET, key=key)["W1"],
    "xavier uniform": lambda key: gb.init.xavier(NET, key=key, uniform=True)["W1"],
    "kaiming": lambda key: gb.init.kaiming(NET, key=key)["W1"],
    "kaiming uniform": lambda key: gb.init.kaiming(NET, key=key, uniform=True)["W1"],
    "jitter": lambda key: gb.init.jitter(NET, ZERO, 1.0, key=key)["W1"],
    "gaussian data": lambda key: gb.problems.gaussian(SIZE, SIZE, key=key).X,
    "teacher": lambda key: gb.problems.gaussian_teacher(SIZE, SIZE, key=key),
    "whitened data": lambda key: gb.problems.whitened(SIZE, SIZE, key=key).X,
    "orthogonal data": lambda key: gb.problems.orthogonal(SIZE, key=key).X,
    "sparse data": lambda key: gb.problems.sparse(SIZE, SIZE, 3, "gaussian", key=key).X,
    "relu data": lambda key: gb.problems.relu_teacher(SIZE, SIZE, key=key).X,
    "Population": lambda key: gb.Population(np.eye(SIZE), np.eye(SIZE), np.eye(SIZE)).sample(
        SIZE, key=key
    )[0],
}
# Two shapes or laws of one function may share its stream; two functions may not.
SAME_FUNCTION = [
    {"balanced", "balanced rank-1"},
    {"gaussian", "gaussian rank-1"},
    {"xavier", "xavier uniform"},
    {"kaiming", "kaiming uniform"},
]


def z_of_correlation(a, b):
    """In standard errors: the correlation of n independent pairs has variance 1/n."""
    a, b = a.ravel() - a.mean(), b.ravel() - b.mean()
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b))) * np.sqrt(a.size)


@pytest.mark.parametrize("key", [0, 7])
def test_every_pair_of_drawing_functions_is_uncorrelated(key):
    samples = {name: draw(key) for name, draw in DRAWS.items()}
    for a, b in itertools.combinations(samples, 2):
        if {a, b} not in SAME_FUNCTION:
            assert abs(z_of_correlation(samples[a], samples[b])) < 4, (a, b)


def test_the_check_sees_a_shared_stream():
    assert z_of_correlation(data("a")(0), data("a")(0)) > 100


@pytest.mark.parametrize("name", [name for name in DRAWS if "data" not in name])
def test_keys_repeat_and_differ(name):
    draw = DRAWS[name]
    assert np.array_equal(draw(3), draw(3))
    assert abs(z_of_correlation(draw(3), draw(4))) < 4


def test_the_same_key_for_data_and_init_leaves_v1_outside_the_row_space():
    problem = gb.problems.gaussian(n=40, d=100, key=0)
    net = gb.Rank1(100, 3, 100)
    v1 = gb.init.gaussian(net, 0.1, key=0)["v1"]
    outside = v1 - problem.row_space @ (problem.row_space.T @ v1)
    assert np.linalg.norm(outside) / np.linalg.norm(v1) > 0.5
