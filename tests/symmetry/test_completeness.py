"""Does the number of undecided directions say what it should, and when is it refused?"""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.integrate

import gradbias as gb
from gradbias import symmetry
from gradbias.reductions import reduce
from gradbias.symmetry._run_coordinates import coordinates
from reference import linear_gradient
from symmetry.small_nets import ravel, unravel


def regression(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    return gb.Regression.mean(rng.normal(size=(n, d)), rng.normal(size=(n, k)))


def count(problem, net, params):
    return symmetry.completeness(SimpleNamespace(problem=problem, net=net, params=params))


ONE, TWO = regression(4, 7, 1), regression(4, 7, 2)

COMPLETE = {
    "rank one": (ONE, gb.Rank1(7, 3, 5), lambda net: gb.init.gaussian(net, 0.6, key=2)),
    "rank one, two layers": (ONE, gb.Rank1(7, 2, 5), lambda net: gb.init.gaussian(net, 0.6)),
    "rank one, one layer": (ONE, gb.Rank1(7, 1, 5), lambda net: gb.init.gaussian(net, 0.6)),
    "rank one, balanced": (ONE, gb.Rank1(7, 3, 5), lambda net: gb.init.balanced(net, np.ones(7))),
    "rank one, small": (ONE, gb.Rank1(7, 3, 5), lambda net: gb.init.gaussian(net, 1e-6, key=2)),
    "rank one, large": (ONE, gb.Rank1(7, 3, 5), lambda net: gb.init.gaussian(net, 1e6, key=2)),
    "diagonal": (ONE, gb.Diagonal(7), lambda net: gb.init.gaussian(net, 0.6)),
    "diagonal, equal": (ONE, gb.Diagonal(7), lambda net: gb.init.constant(net, 0.1)),
    "diagonal, dead ends": (
        ONE,
        gb.Diagonal(7),
        lambda net: {
            "u": np.array([1.0, 1, 0, 1, 1, 1, 1]),
            "v": np.array([1.0, 0, 1, 1, 2, 1, 1]),
        },
    ),
    "balanced": (ONE, gb.TwoLayer(7, 1, 6), lambda net: gb.init.balanced(net, np.ones(7))),
    "balanced in the row space": (
        ONE,
        gb.TwoLayer(7, 1, 6),
        lambda net: gb.init.balanced(net, np.ones(7), problem=ONE),
    ),
    "balanced, deep": (ONE, gb.Deep([7, 5, 5, 1]), lambda net: gb.init.balanced(net, np.ones(7))),
    "orthogonal": (ONE, gb.TwoLayer(7, 1, 9), lambda net: gb.init.orthogonal(net, 0.5)),
    "orthogonal, outputs": (TWO, gb.TwoLayer(7, 2, 9), lambda net: gb.init.orthogonal(net, 1e-4)),
    "orthogonal, tiny": (TWO, gb.TwoLayer(7, 2, 9), lambda net: gb.init.orthogonal(net, 1e-100)),
    "one weight": (
        regression(1, 1, 1),
        gb.TwoLayer(1, 1, 1),
        lambda net: {"W1": np.array([[0.5]]), "W2": np.array([[0.7]])},
    ),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", COMPLETE)
def test_complete_nets(name):
    problem, net, make = COMPLETE[name]
    found = count(problem, net, make(net))
    assert found == found.undecided == 0
    assert found.gap > 1e4
    assert found.distance < 1e-8


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    "n, d, m, width",
    [
        (2, 4, 1, 6),
        (3, 5, 2, 7),
        (2, 4, 3, 6),
        (4, 6, 1, 8),
        (1, 3, 2, 5),
        (3, 3, 3, 8),
        (6, 3, 2, 4),
        (1, 2, 5, 9),
    ],
)
def test_generic_two_layer_nets(n, d, m, width):
    problem, net = regression(n, d, m), gb.TwoLayer(d, m, width)
    r = problem.rank
    found = count(problem, net, gb.init.gaussian(net, 0.5, key=1))
    assert found == m * (m - 1) // 2 + r * (r - 1) // 2
    assert found.rotations == 0
    assert found.manifold - found.constants == found
    assert "directions undecided" in repr(found)


def test_sizes_of_start_labels_and_data_do_not_matter():
    net = gb.TwoLayer(7, 2, 9)
    params = gb.init.gaussian(net, 1.0, key=3)
    X = TWO.X * np.array([1, 1e-4, 1e-7, 1e2])[:, None]
    for problem, first, second in [
        (TWO, 1e-6, 1e-6),
        (TWO, 1e6, 1e6),
        (TWO, 1e5, 1e-5),
        (gb.Regression.mean(X, 1e8 * TWO.Y), 1.0, 1.0),
        (gb.Regression.mean(TWO.X, 0 * TWO.Y), 1.0, 1.0),
    ]:
        start = {"W1": first * params["W1"], "W2": second * params["W2"]}
        assert count(problem, net, start) == 7


def test_other_problems_and_nets():
    rng = np.random.default_rng(0)
    population = gb.Population(np.diag([1.0, 2, 0, 1]), rng.normal(size=(2, 4)), np.eye(2))
    net = gb.TwoLayer(4, 2, 8)
    assert count(population, net, gb.init.gaussian(net, 0.5)) == 1 + 3
    doubled = gb.Regression.mean(np.vstack([TWO.X[:2], TWO.X[:2]]), TWO.Y)  # rank 2, not fittable
    net = gb.TwoLayer(7, 2, 9)
    assert count(doubled, net, gb.init.gaussian(net, 0.5)) == 1 + 1
    narrow = gb.TwoLayer(7, 2, 1)  # cannot fit: its minimisers are of rank one
    assert count(TWO, narrow, gb.init.gaussian(narrow, 0.6, key=3)) == 0
    several = gb.TwoLayer(7, 2, 6)  # balanced, with two outputs: one rotation changes Θ …
    assert count(TWO, several, gb.init.balanced(several, rng.normal(size=(7, 2)))) == 1
    full = regression(9, 4, 2)  # … unless nothing lies outside the row space
    several = gb.TwoLayer(4, 2, 6)
    found = count(full, several, gb.init.balanced(several, rng.normal(size=(4, 2))))
    assert (found, found.rotations) == (0, 1)


def test_fully_connected_nets():
    linear, chain = gb.MLP([7, 6, 2], "linear", bias=False), gb.TwoLayer(7, 2, 6)
    params = gb.init.gaussian(chain, 0.6, key=3)
    assert count(TWO, linear, params) == count(TWO, chain, params) == 7
    biased = gb.MLP([7, 6, 2], "linear")
    found = count(TWO, biased, gb.init.gaussian(biased, 0.6, key=3))
    assert (found.coordinates, found.constants) == (6 * 4 + 6 + 12 + 2, 21)
    tanh = gb.MLP([7, 6, 2], "tanh")
    found = count(TWO, tanh, gb.init.gaussian(tanh, 0.6, key=3))
    assert (found, found.constants) == (found.coordinates - 8, 0)
    relu = gb.MLP([7, 6, 2], "leaky", bias=False)
    found = count(TWO, relu, gb.init.gaussian(relu, 0.6, key=3))
    assert (found, found.constants) == (found.coordinates - 8 - 6, 6)


@pytest.mark.parametrize(
    "net, make",
    [
        (gb.TwoLayer(7, 1, 30), gb.init.kaiming),
        (gb.Deep([7, 6, 5, 1]), gb.init.kaiming),
        (gb.Deep([7, 5, 5, 1]), lambda net: gb.init.balanced(net, np.ones(7))),
        (gb.Rank1(7, 3, 5), gb.init.kaiming),
    ],
)
def test_coordinates_are_those_of_the_closure(net, make):
    params = make(net)
    assert coordinates(ONE, net, params).net.dims == reduce(ONE, net, params).net.dims


def limit(net, X, Y, params):
    """Where gradient flow ends, by scipy and gradients by hand."""
    kind = type(net).__name__

    def velocity(_, flat):
        return -ravel(linear_gradient(kind, unravel(flat, params), X, Y, 0.5))

    def fitted(t, flat):
        return np.linalg.norm(velocity(t, flat)) - 1e-9

    fitted.terminal = True
    path = scipy.integrate.solve_ivp(
        velocity, (0, 1e3), ravel(params), method="LSODA", events=fitted, rtol=1e-10, atol=1e-12
    )
    end = unravel(path.y[:, -1], params)
    return np.asarray(gb_predictor(net, end))


def gb_predictor(net, p):
    if isinstance(net, gb.Diagonal):
        return (p["u"] ** 2 - p["v"] ** 2)[:, None]
    return np.linalg.multi_dot(net.factors(p))


@pytest.mark.parametrize(
    "name", ["rank one", "diagonal", "balanced", "orthogonal, outputs", "generic"]
)
def test_the_number_means_what_it_says(name):
    """Mixing the samples changes the path, but neither minimisers nor constants.

    Then a complete net ends at the same predictor, and a generic one does not.
    """
    if name == "generic":
        problem, net = TWO, gb.TwoLayer(7, 2, 9)
        params = gb.init.gaussian(net, 0.5, key=1)
    else:
        problem, net, make = COMPLETE[name]
        params = make(net)
        if name == "orthogonal, outputs":
            params = gb.init.orthogonal(net, 0.5)
    mix = np.diag([1.0, 2.0, 0.7, 1.5]) + 0.2
    plain = limit(net, problem.X, problem.labels, params)
    mixed = limit(net, mix @ problem.X, mix @ problem.labels, params)
    np.testing.assert_allclose(problem.X @ mixed, problem.labels, atol=1e-6)
    change = np.abs(plain - mixed).max()
    if name == "generic":
        assert change > 1e-3
    else:
        assert change < 1e-6


def test_a_degenerate_start_is_refused_not_guessed():
    net = gb.Deep([7, 6, 6, 1])
    balanced = gb.init.balanced(net, np.ones(7))
    rng = np.random.default_rng(0)
    for size in (1e-11, 1e-7, 1e-5):
        near = {k: v + size * rng.normal(size=v.shape) for k, v in balanced.items()}
        with pytest.raises(ValueError, match="not clear"):
            count(ONE, net, near)
    net = gb.TwoLayer(7, 2, 9)
    for size in (1e-14, 1e-9):
        near = gb.init.orthogonal(net, 0.1)
        near = {k: v + size * rng.normal(size=v.shape) for k, v in near.items()}
        with pytest.raises(ValueError, match="not clear"):
            count(TWO, net, near)


def test_what_has_no_answer_says_why():
    one = gb.TwoLayer(1, 1, 1)
    task = gb.Regression.mean(np.ones((1, 1)), np.ones(1))
    saddle = {"W1": np.array([[-0.5]]), "W2": np.array([[0.5]])}
    zero = {"W1": np.zeros((1, 1)), "W2": np.zeros((1, 1))}
    tanh = gb.NormalisedB(7, 2, 3)
    samples = gb.Samples(lambda f, y: ((f - y) ** 2).sum(), TWO.X, TWO.Y)
    population = gb.Population(np.eye(7), np.ones((2, 7)), np.eye(2))
    wide = gb.TwoLayer(7, 2, 9)
    nothing = gb.Regression.mean(np.zeros((2, 7)), np.ones((2, 2)))
    for problem, net, params, sentence in [
        (task, one, saddle, "no minimiser.*saddle"),
        (task, one, zero, "cut off"),
        (ONE, gb.Diagonal(7), gb.init.constant(gb.Diagonal(7), 0.0), "stationary point"),
        (TWO, tanh, gb.init.gaussian(tanh, 0.5), "cannot fit the data"),
        (population, tanh, gb.init.gaussian(tanh, 0.5), "needs finite data"),
        (samples, wide, gb.init.gaussian(wide, 0.5), "needs a squared loss"),
        (nothing, wide, gb.init.gaussian(wide, 0.5), "data that are not zero"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            count(problem, net, params)


def test_an_own_net_with_a_false_symmetry_is_refused():
    class Own(gb.LinearNet):
        def predictor(self, params):
            return params["a"][:, None] * params["b"]

        def symmetries(self):
            return {"a": symmetry.scaling("a")}

    with pytest.raises(ValueError, match="'a'.*does not hold"):
        count(ONE, Own(), {"a": np.ones(7), "b": np.ones((7, 1))})


def test_an_own_linear_net_is_counted_with_all_its_parameters():
    class Own(gb.LinearNet):
        def predictor(self, params):
            return params["a"][:, None] * params["b"]

        def symmetries(self):
            return {"ab": symmetry.neurons({"a": 0}, {"b": 0})}

    rng = np.random.default_rng(0)
    found = count(ONE, Own(), {"a": rng.normal(size=7), "b": rng.normal(size=(7, 1))})
    # 14 parameters, 4 equations, 7 charges; what is frozen outside the row space is not known
    assert (found.coordinates, found.manifold, found.constants, found) == (14, 10, 7, 3)
