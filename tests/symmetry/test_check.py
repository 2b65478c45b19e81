"""A claimed symmetry, looked at sample by sample."""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias import symmetry
from symmetry.small_nets import NETS, D, K, data, outputs, point


def problem(net):
    X, Y = data(outputs(net))
    return gb.Regression.mean(X, Y[:, 0] if Y.shape[1] == 1 else Y)


def square(params, x, y):
    return (params["u"] @ x * params["w"] - y) ** 2


@pytest.mark.parametrize("net", NETS)
def test_the_symmetries_of_the_nets_hold(net):
    found = symmetry.check_all(problem(NETS[net]()), NETS[net](), point(NETS[net]()))
    assert list(found) == list(NETS[net]().symmetries())
    assert max(found.values()) < 1e-14


def test_a_false_symmetry_is_seen():
    net = gb.MLP([D, 3, K], "tanh")
    false = {"hidden1": symmetry.neurons({"W1": 1, "b1": 0}, {"W2": 0})}
    assert symmetry.check_all(problem(net), net, point(net), false)["hidden1"] > 1e-2


def test_one_point_can_hide_a_false_symmetry():
    """At u = w = 0 nothing moves, and every claim looks true."""
    X, y = data(1)
    zero = {"u": np.zeros(D), "w": np.zeros(())}
    assert symmetry.check(square, zero, (X, y[:, 0]), symmetry.scaling("u")) > 1e-2
    assert symmetry.check(square, zero, (X, y[:, 0]), symmetry.rescaling("u", "w")) < 1e-14


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e80])
def test_scale_does_not_matter(scale):
    X, y = data(1)
    p = {"u": scale * np.arange(1.0, D + 1), "w": np.array(1 / scale)}
    for claim, holds in [(symmetry.rescaling("u", "w"), True), (symmetry.scaling("w"), False)]:
        assert (symmetry.check(square, p, (X, y[:, 0]), claim) < 1e-13) == holds


def test_an_approximate_symmetry_is_reported_as_such():
    def normalised(params, x):
        return jnp.tanh(params["w"] @ x / jnp.sqrt(params["w"] @ params["w"] + 1e-5))

    found = symmetry.check(normalised, {"w": np.ones(D)}, data(1)[0], symmetry.scaling("w"))
    assert 1e-9 < found < 1e-3


def test_other_problems():
    net = gb.TwoLayer(D, K, 3)
    population = gb.Population(np.eye(D), np.ones((K, D)), np.eye(K))
    X, Y = data()
    samples = gb.Samples(lambda f, y: jnp.sum(jnp.cosh(f - y)), X, Y)
    for task in (population, samples, gb.Regression.mean(X[:1], Y[:1])):
        assert symmetry.check_all(task, net, point(net))["W1-W2"] < 1e-14


def test_bad_input():
    X, y = data(1)
    p = {"u": np.ones(D), "w": np.ones(())}
    for call, sentence in [
        (lambda: symmetry.check(3, p, X, symmetry.scaling("u")), "loss must be a function"),
        (lambda: symmetry.check(square, p, (X, y[:2, 0]), symmetry.scaling("u")), "data must hold"),
        (lambda: symmetry.check(square, p, X[:0], symmetry.scaling("u")), "data must hold"),
        (lambda: symmetry.check(square, p, 3.0, symmetry.scaling("u")), "data must hold"),
        (lambda: symmetry.check(square, p, (X, y[:, 0]), "u"), "symmetry must be made by"),
        (lambda: symmetry.check(square, p, (X, y[:, 0]), symmetry.scaling("q")), "acts on 'q'"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()
