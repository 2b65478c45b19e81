"""Diagonal symmetries, found by numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias import symmetry

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(24, 4)), RNG.normal(size=(24, 2))


def sampler(shapes):
    def draw(i):
        rng = np.random.default_rng(100 + i)
        return {name: rng.normal(size=shape) * 0.8 for name, shape in shapes.items()}

    return draw


def loss_of(net):
    return lambda params, x, y: jnp.sum((net(params, x[None])[0] - y) ** 2)


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@pytest.mark.parametrize(
    "activation, dims, count",
    [
        ("relu", [4, 5, 4, 2], 9),
        ("leaky", [4, 5, 2], 5),
        ("tanh", [4, 5, 2], 0),
        ("swish", [4, 3, 2], 0),
    ],
)
def test_units_are_found(activation, dims, count):
    net = gb.MLP(dims, activation)
    found = symmetry.detect(loss_of(net), sampler(net.shapes()), (X, Y))
    assert len(found.symmetries) == count
    assert not found.approximate
    assert max(found.size.values(), default=0.0) < 1e-12
    if count:
        # The generators of single units, each up to its sign.
        point = sampler(net.shapes())(0)
        wanted = set()
        for family in net.symmetries().values():
            for unit in np.eye(family.charge(point).size):
                diagonal = family.apply({k: np.ones_like(v) for k, v in point.items()}, unit)
                wanted |= {tuple(np.round(flat(diagonal), 6) + 0.0)}
        got = {tuple(np.round(flat(s.mu), 6) + 0.0) for s in found.symmetries.values()}
        assert all(mu in got or tuple(-np.array(mu) + 0.0) in got for mu in wanted)
        symmetry.check(loss_of(net), point, (X, Y), found.symmetries["1"])


def test_squared_activation():
    def loss(params, x, y):
        return jnp.sum(((x @ params["W1"]) ** 2 @ params["W2"] - y) ** 2)

    found = symmetry.detect(loss, sampler({"W1": (4, 3), "W2": (3, 2)}), (X, Y))
    assert len(found.symmetries) == 3
    for one in found.symmetries.values():
        values = np.unique(np.round(flat(one.mu), 9))
        np.testing.assert_allclose(values / values[np.argmax(np.abs(values))], [-0.5, 0, 1])


def test_layer_norm_is_approximate():
    def loss(params, x, y):
        z = x @ params["W1"] + params["b1"]
        z = (z - jnp.mean(z)) / jnp.sqrt(jnp.var(z) + 1e-5)
        return jnp.sum((jnp.tanh(z) @ params["W2"] - y) ** 2)

    shapes = {"W1": (4, 5), "b1": (5,), "W2": (5, 2)}
    found = symmetry.detect(loss, sampler(shapes), (X, Y))
    assert not found.symmetries and list(found.approximate) == ["~1"]
    assert 1e-8 < found.size["~1"] < 1e-3
    mu = found.approximate["~1"].mu
    np.testing.assert_allclose(np.concatenate([mu["W1"].ravel(), mu["b1"]]), 1.0, atol=1e-3)
    np.testing.assert_allclose(mu["W2"], 0.0, atol=1e-3)
    assert not symmetry.detect(loss, sampler(shapes), (X, Y), approximate=0.0).approximate
    assert "approximate: ~1" in repr(found)


def test_one_point_would_show_too_many():
    """A linear net has tangents at one point that are symmetries at no other."""
    net = gb.TwoLayer(4, 3, 5)
    labels = RNG.normal(size=(24, 3))
    fixed = sampler(net.shapes())(0)
    many = symmetry.detect(loss_of(net), lambda i: fixed, (X, labels))
    true = symmetry.detect(loss_of(net), sampler(net.shapes()), (X, labels))
    assert (len(many.symmetries), len(true.symmetries)) == (35 - 12, 5)


def test_any_tree_and_what_is_found_can_be_used():
    def loss(params, x):
        first, (second,) = params
        return (jnp.sum(first * x) * second - 1.0) ** 2

    def draw(i):
        rng = np.random.default_rng(i)
        return [rng.normal(size=4), (rng.normal(),)]

    found = symmetry.detect(loss, draw, X)
    (one,) = found.symmetries.values()
    point = draw(7)
    assert symmetry.check(loss, point, X, one) < 1e-14
    moved = one.move(point, 0.3)
    np.testing.assert_allclose(
        np.asarray(moved[0]) * moved[1][0], point[0] * point[1][0], rtol=1e-13
    )
    jump = symmetry.equilibrate(point, found.symmetries, loss, X)
    assert jump.ratio_after["1"] == pytest.approx(1, abs=1e-10) and jump.change < 1e-12
    dense = one.dense(point)
    np.testing.assert_allclose(dense, np.diag(flat(one.mu)))
    assert one.charge(point) == pytest.approx(flat(point) @ dense @ flat(point))
    np.testing.assert_allclose(flat(one.apply(point)), dense @ flat(point))
    assert one.lengths(point) == pytest.approx(np.linalg.norm(dense @ flat(point)))


def test_a_loss_that_knows_nothing_of_its_parameters():
    found = symmetry.detect(
        lambda p, x: jnp.sum(x) + 0.0 * p["a"][0], sampler({"a": (2,)}), X[:, 0]
    )
    assert len(found.symmetries) == 2


def test_bad_input():
    net = gb.MLP([4, 3, 2])
    draw, loss = sampler(net.shapes()), loss_of(net)

    def large(params, x):
        return jnp.sum(params["a"]) * x[0]

    for call, sentence in [
        (lambda: symmetry.detect(3, draw, (X, Y)), "loss must be a function"),
        (lambda: symmetry.detect(loss, draw(0), (X, Y)), "params_sampler must be a function"),
        (lambda: symmetry.detect(loss, draw, (X, Y[:3])), "data must hold"),
        (lambda: symmetry.detect(lambda p, x, y: y, draw, (X, Y)), "one number for a sample"),
        (lambda: symmetry.detect(large, lambda i: {"a": np.zeros(4001)}, X), "at most 4000"),
        (lambda: symmetry.weighted({"a": [1.0]}).charge({"a": [1.0, 2.0]}), "acts on"),
        (lambda: symmetry.weighted({"a": [1.0]}).charge({"b": [1.0]}), "acts on"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()
