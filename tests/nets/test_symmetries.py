"""The nets' own symmetries: what they leave unchanged, what they conserve, what they move."""

import jax
import numpy as np
import pytest
import scipy.integrate
import scipy.linalg

import gradbias as gb
from gradbias import symmetry
from symmetry.small_nets import EACH, NETS, D, N, data, gradient, outputs, point, ravel, unravel


def amounts(family, params, seed=0):
    """Random coefficients of a family, a number for a single generator."""
    shape = np.shape(family.charge(params))
    drawn = 0.4 * np.random.default_rng(seed).normal(size=shape)
    return (drawn + drawn.T) / 2 if drawn.ndim == 2 else drawn[()]


def contracted(A, weights):
    return np.tensordot(weights, A, axes=np.ndim(weights)) if np.ndim(weights) else weights * A


def test_charges_are_the_papers():
    p = point(gb.TwoLayer(D, 2, 5))
    (pair,) = gb.TwoLayer(D, 2, 5).symmetries().values()
    np.testing.assert_allclose(
        pair.charge(p), p["W1"].T @ p["W1"] - p["W2"] @ p["W2"].T, rtol=1e-14
    )
    p = point(gb.Rank1(D, 3, 3))
    found = gb.Rank1(D, 3, 3).symmetries()
    assert list(found) == ["v1-u[0]", "u[0]-v[0]", "v1-u[1]", "u[1]-v[1]"]
    gap = p["v1"] @ p["v1"] - p["u"][1] @ p["u"][1]
    np.testing.assert_allclose(found["v1-u[1]"].charge(p), gap, rtol=1e-14)
    u, v = p["u"][1], p["v"][1]
    matrix = np.outer(u, u) - np.outer(v, v)
    np.testing.assert_allclose(found["u[1]-v[1]"].charge(p), matrix, rtol=1e-13)
    p = point(gb.Diagonal(D))
    np.testing.assert_array_equal(gb.Diagonal(D).symmetries()["u-v"].charge(p), 2 * p["u"] * p["v"])
    p = point(gb.MLP([D, 4, 2]))
    into, out = (p["W1"] ** 2).sum(0) + p["b1"] ** 2, (p["W2"] ** 2).sum(1)
    np.testing.assert_allclose(
        gb.MLP([D, 4, 2]).symmetries()["hidden1"].charge(p), into - out, rtol=1e-13
    )


def test_nets_without_a_symmetry_list_none():
    assert gb.Deep([D, 2]).symmetries() == {}
    assert gb.Rank1(D, 1, 3).symmetries() == {}
    assert gb.MLP([D, 2], "relu").symmetries() == {}
    for activation in ("tanh", "swish"):
        assert gb.MLP([D, 4, 2], activation).symmetries() == {}
    assert gb.nets.linear(lambda p: p["w"]).symmetries() == {}


@pytest.mark.parametrize("net, name", EACH)
def test_gradients_of_samples_are_orthogonal(net, name):
    family = NETS[net]().symmetries()[name]
    for seed in range(3):
        p = point(NETS[net](), seed)
        for row in range(N):
            g = gradient(net)(p, np.array([row]))
            scale = np.linalg.norm(ravel(g)) * np.max(family.lengths(p))
            assert np.abs(family.form(g, p)).max() <= 1e-14 * scale


@pytest.mark.parametrize("net, name", EACH)
def test_every_method_agrees_with_the_dense_matrix(net, name):
    family, p, x = NETS[net]().symmetries()[name], point(NETS[net]()), point(NETS[net](), 5)
    A, weights = family.dense(p), amounts(family, p)
    flat, other = ravel(p), ravel(x)
    assert A.shape == (*np.shape(family.charge(p)), flat.size, flat.size)
    np.testing.assert_array_equal(A, np.swapaxes(A, -1, -2))
    np.testing.assert_allclose(family.charge(p), A @ flat @ flat, atol=1e-14)
    np.testing.assert_allclose(family.form(p, x), A @ other @ flat, atol=1e-14)
    np.testing.assert_allclose(family.lengths(p), np.linalg.norm(A @ flat, axis=-1), atol=1e-14)
    both = contracted(A, weights)
    np.testing.assert_allclose(ravel(family.apply(p, weights)), both @ flat, atol=1e-14)
    moved = scipy.linalg.expm(both) @ flat
    np.testing.assert_allclose(ravel(family.move(p, weights)), moved, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("net, name", EACH)
def test_a_move_keeps_the_function(net, name):
    model = NETS[net]()
    family, p = model.symmetries()[name], point(model)
    X, _ = data(outputs(model))
    with jax.enable_x64(True):
        before = np.asarray(model(p, X))
        for lam in (amounts(family, p), 0.6):
            moved = family.move(p, lam)
            after = np.asarray(model(moved, X))
            np.testing.assert_allclose(after, before, rtol=0, atol=1e-12 * np.abs(before).max())
            assert np.abs(ravel(moved) - ravel(p)).max() > 1e-2
            assert all(leaf.dtype == np.float64 for leaf in moved.values())


def test_dense_matrices_by_hand():
    p = point(gb.Diagonal(2))
    A = gb.Diagonal(2).symmetries()["u-v"].dense(p)
    np.testing.assert_array_equal(A[1], [[0] * 4, [0, 0, 0, 1], [0] * 4, [0, 1, 0, 0]])
    p = {"W1": np.ones((2, 2)), "W2": np.ones((2, 1))}
    A = symmetry.pair("W1", "W2").dense(p)
    B = np.array([[0, 0.5], [0.5, 0]])  # the generator of the entry (0, 1)
    np.testing.assert_array_equal(A[0, 1], scipy.linalg.block_diag(np.kron(np.eye(2), B), -B))
    A = symmetry.pair("W1", "W2", [[2, 1], [1, 0]]).dense(p)
    B = np.array([[2.0, 1], [1, 0]])
    np.testing.assert_array_equal(A, scipy.linalg.block_diag(np.kron(np.eye(2), B), -B))
    A = symmetry.rescaling(("W1", (slice(None), 1)), "W2").dense(p)
    np.testing.assert_array_equal(np.diag(A), [0, 1, 0, 1, -1, -1])
    A = symmetry.neurons({"W1": 1}, {"W2": 0}).dense(p)
    np.testing.assert_array_equal(np.diag(A[0]), [1, 0, 1, 0, -1, 0])


@pytest.mark.parametrize("net", NETS)
def test_an_independent_flow_conserves_the_charges(net):
    # From other starts the ReLU net slides along a kink, where no integrator of order 8 gets on.
    model, start = NETS[net](), point(NETS[net](), seed=3)
    every = np.arange(N)

    def velocity(_, flat):
        return -ravel(gradient(net)(unravel(flat, start), every))

    path = scipy.integrate.solve_ivp(
        velocity, (0, 0.4), ravel(start), method="DOP853", rtol=1e-11, atol=1e-12
    )
    end = unravel(path.y[:, -1], start)
    assert np.abs(ravel(end) - ravel(start)).max() > 0.03
    for name, family in model.symmetries().items():
        drift = np.abs(family.charge(end) - family.charge(start)).max()
        assert drift <= 1e-9, name


def test_numbers_stay_numpy_and_jax_stays_jax():
    for net, name in EACH:
        family, p = NETS[net]().symmetries()[name], point(NETS[net]())
        plain = family.charge(p)
        assert isinstance(plain, (np.ndarray, np.floating))
        with jax.enable_x64(True):
            traced = jax.jit(lambda s, q: (s.charge(q), s.move(q, 0.3), s.apply(q), s.lengths(q)))
            charge, moved, applied, lengths = traced(family, p)
            static = jax.jit(lambda s, q: s.charge(q), static_argnums=0)(family, p)
        np.testing.assert_allclose(charge, plain, atol=1e-14)
        np.testing.assert_allclose(static, plain, atol=1e-14)
        np.testing.assert_allclose(ravel(moved), ravel(family.move(p, 0.3)), rtol=1e-13)
        np.testing.assert_allclose(ravel(applied), ravel(family.apply(p)), atol=1e-14)
        np.testing.assert_allclose(lengths, family.lengths(p), rtol=1e-13)


def test_a_matrix_move_can_be_differentiated_where_eigenvalues_are_equal():
    pair, p = symmetry.pair("W1", "W2"), point(gb.TwoLayer(D, 2, 3))
    with jax.enable_x64(True):
        slope = jax.grad(lambda lam: pair.move(p, lam)["W1"].sum())(jax.numpy.zeros((3, 3)))
    total = p["W1"].sum(axis=0)
    np.testing.assert_allclose(slope, (total[:, None] + total) / 2, atol=1e-14)


def test_symmetries_are_values():
    assert gb.Rank1(3, 3, 2).symmetries() == gb.Rank1(3, 3, 2).symmetries()
    assert hash(symmetry.general(np.eye(2), ["a"])) == hash(symmetry.general(np.eye(2), ["a"]))
    assert symmetry.general(np.eye(2)) != symmetry.general(2 * np.eye(2))
    assert symmetry.rescaling("a", "b") != symmetry.rescaling("b", "a")
    assert symmetry.pair("a", "b") != symmetry.pair("a", "b", np.eye(2))
    assert symmetry.rescaling(("a", slice(0, 2)), "b") == symmetry.rescaling(
        ("a", slice(0, 2)), "b"
    )


def test_a_general_generator_follows_names_or_ravel_order():
    p = {"b": np.array([1.0, 2.0]), "a": np.array([[3.0]])}
    A = np.diag([1.0, 10.0, 100.0])
    assert symmetry.general(A).charge(p) == 9 + 10 + 400
    assert symmetry.general(A, ["b", "a"]).charge(p) == 1 + 40 + 900
    part = symmetry.general([[0, 1], [1, 0]], ["b"])
    assert part.charge(p) == 4
    moved = part.move(p, 0.3)
    c, s = np.cosh(0.3), np.sinh(0.3)
    np.testing.assert_allclose(moved["b"], [c + 2 * s, 2 * c + s], rtol=1e-14)
    np.testing.assert_array_equal(moved["a"], p["a"])
    np.testing.assert_array_equal(part.apply(p)["b"], [2, 1])
    np.testing.assert_array_equal(part.apply(p)["a"], [[0]])
    tree = {"layers": [np.ones(2), np.ones(1)]}
    assert symmetry.general(A).charge(tree) == 111
    np.testing.assert_array_equal(symmetry.general(A).apply(tree)["layers"][1], [100])


def test_extreme_sizes():
    family = symmetry.hyperbolic("u", "v")
    moved = family.move({"u": np.array([1e-150]), "v": np.array([1e-150])}, 300.0)
    np.testing.assert_allclose(moved["u"], 1e-150 * np.exp(300.0), rtol=1e-13)
    wide = {"W1": np.ones((2, 3000)), "W2": np.ones((3000, 1))}
    B = np.eye(3000)
    np.testing.assert_allclose(symmetry.pair("W1", "W2", B).charge(wide), 3000)


@pytest.mark.parametrize(
    "make, sentence",
    [
        (lambda: symmetry.general([[0, 1], [-1, 0]]), "A must be symmetric.*asymmetry of 2"),
        (lambda: symmetry.general([[1, 2]]), "A must be square"),
        (lambda: symmetry.general([[np.nan]]), "A must be finite"),
        (lambda: symmetry.general(np.eye(2), "ab"), "names must be a list"),
        (lambda: symmetry.general(np.eye(2), ["a", "a"]), "names must all be different"),
        (lambda: symmetry.pair("a", "b", [[0, 1], [0, 0]]), "B must be symmetric"),
        (lambda: symmetry.rescaling([], "b"), "plus must name at least one"),
        (lambda: symmetry.rescaling(3, "b"), "plus must be a parameter's name"),
        (lambda: symmetry.rescaling(("a", 1.5), "b"), "whole numbers or slices"),
        (lambda: symmetry.neurons({"a": -1}, {"b": 0}), "plus\\['a'\\] must be a whole number"),
        (lambda: symmetry.neurons({"a": 0}, {"a": 1}), "different parameters"),
        (lambda: symmetry.neurons([], {"a": 1}), "plus must be {name: axis}"),
    ],
)
def test_a_wrong_generator_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    "family, sentence",
    [
        (symmetry.scaling("W9"), "acts on 'W9', but the parameters are \\['W1', 'W2'\\]"),
        (symmetry.scaling(("W1", 9)), "acts on 'W1' at \\(9,\\)"),
        (symmetry.rescaling("W1", ("W1", 0)), "must not overlap"),
        (symmetry.pair("W1", "W1"), "must not overlap"),
        (symmetry.pair("W2", "W1"), "needs layers"),
        (symmetry.pair("W1", "W2", np.eye(7)), "B must be of the layers' size 5"),
        (symmetry.hyperbolic("W1", "W2"), "one shape"),
        (symmetry.neurons({"W1": 2}, {"W2": 0}), "axis 2 of 'W1'"),
        (symmetry.neurons({"W1": 0}, {"W2": 0}), "same number everywhere"),
        (symmetry.general(np.eye(3)), "A is of size 3, but all parameters together have 30"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(family, sentence):
    p = point(gb.TwoLayer(D, 2, 5))
    for method in (family.charge, lambda q: family.move(q, 0.1), family.apply):
        with pytest.raises(ValueError, match=sentence):
            method(p)


def test_wrong_amounts_are_refused():
    p = point(gb.TwoLayer(D, 2, 5))
    pair, units = symmetry.pair("W1", "W2"), symmetry.neurons({"W1": 1}, {"W2": 0})
    for call, sentence in [
        (lambda: pair.move(p, np.triu(np.ones((5, 5)))), "lam must be symmetric"),
        (lambda: pair.move(p, np.eye(4)), "lam must have shape \\(5, 5\\)"),
        (lambda: units.move(p, np.ones(4)), "lam must have shape \\(5,\\)"),
        (lambda: symmetry.scaling("W1").move(p, [1.0, 2.0]), "lam must be a number"),
        (lambda: units.charge([1, 2]), "the parameters are list"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()
