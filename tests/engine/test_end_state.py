"""The word for how a run ended is true, whatever the loss."""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
ONES = X[:3] @ np.ones(3)
NET = gb.nets.linear(lambda p: p["a"])
START = {"a": np.zeros(3)}


def run(problem, dynamics, until=None, net=NET, params=START):
    return gb.simulate(gb.Setup(problem, net, params, dynamics, until), progress=False)


def nll(output, y, s=1e-2):
    """Of a normal law: its minimum is log s, far below zero."""
    return 0.5 * ((output - y) / s) ** 2 + jnp.log(s)


def square(output, y):
    return 0.5 * ((output - y) / 1e-2) ** 2


def logistic(output, y):
    return jnp.logaddexp(0.0, -y * output)


MOVES = [
    gb.Descent(1e-5),
    pytest.param(gb.Descent(1e-5, momentum=0.5), marks=pytest.mark.slow),
    pytest.param(gb.Flow(), marks=pytest.mark.slow),
]


@pytest.mark.parametrize("moves", MOVES)
def test_a_loss_below_zero_is_not_taken_for_a_gap(moves):
    found = run(gb.Samples(nll, X[:3], ONES), moves)
    assert found.status in ("converged", "converged to tolerance")
    np.testing.assert_allclose(found.final["a"], 1, rtol=0, atol=1e-6)


def test_a_constant_in_the_loss_does_not_change_where_a_run_stops():
    ways = (nll, square, lambda o, y: square(o, y) + 3.0)
    stops = [run(gb.Samples(f, X[:3], ONES), gb.Descent(1e-5)).status for f in ways]
    assert all(stop == "converged" for stop in stops)
    assert max(stop.at for stop in stops) - min(stop.at for stop in stops) <= 100


def test_a_minimum_that_is_said_is_used():
    said = gb.Samples(square, X[:3], ONES, minimum=0.0)
    exact = gb.Regression(X[:3], ONES, 0.5e4 / 3)
    runs = [run(problem, gb.Descent(1e-5)) for problem in (said, exact)]
    assert runs[0].status == runs[1].status == "converged"
    assert runs[0].status.at == runs[1].status.at
    low = run(gb.Samples(nll, X[:3], ONES, minimum=np.log(1e-2)), gb.Descent(1e-5))
    assert low.status == "converged"
    assert abs(low.status.at - runs[1].status.at) <= 100


def test_a_minimum_that_is_wrong_never_means_converged():
    wrong = gb.Samples(nll, X[:3], ONES, minimum=0.0)
    until = gb.Until(gap=1e-12, steps=20_000)
    assert run(wrong, gb.Descent(1e-5), until).status != "converged"
    with pytest.raises(ValueError, match="minimum"):
        gb.Samples(nll, X, X[:, 0], minimum=np.inf)


@pytest.mark.parametrize(
    "moves", [gb.Descent(0.1), pytest.param(gb.Flow(), marks=pytest.mark.slow)]
)
def test_a_loss_that_is_not_a_number_never_means_converged(moves):
    problem = gb.Samples(
        lambda o, y: (o - y) ** 2 + jnp.where(o > 1e9, 0.0, jnp.nan) * 0, X, X[:, 0]
    )
    limit = {"steps": 500} if moves.axis == "step" else {"time": 50.0}
    assert run(problem, moves, gb.Until(gap=1e-12, **limit)).status != "converged"


def test_a_small_start_near_a_saddle_has_not_converged():
    net, y = gb.TwoLayer(3, 1, 2), X[:3] @ np.ones(3)
    problem = gb.Samples(lambda o, y: 0.5 * (o - y) ** 2, X[:3], y)
    params = gb.init.gaussian(net, 1e-9, key=0)
    found = run(problem, gb.Descent(0.1), gb.Until(gap=1e-12, steps=200_000), net, params)
    assert found.status == "converged"
    np.testing.assert_allclose(found.theta, 1, rtol=0, atol=1e-3)


@pytest.mark.slow
def test_separable_classes_converge_as_slowly_as_they_do():
    problem = gb.Samples(logistic, X, np.sign(X[:, 0]))
    found = run(problem, gb.Flow(), gb.Until(gap=1e-6))
    assert found.status == "converged"
    assert 1e5 < found.status.at < 1e8
    assert 0 < problem.loss(found.theta) < 1e-5


@pytest.mark.slow
def test_classes_that_overlap_have_a_minimum_above_zero():
    labels = np.array([1.0, -1.0, 1.0, -1.0])
    inputs = np.array([[1.0], [1.0], [2.0], [-1.0]])
    found = run(gb.Samples(logistic, inputs, labels), gb.Descent(0.5), params={"a": np.zeros(1)})
    assert found.status == "converged"
    slope = np.sum(-labels * inputs[:, 0] / (1 + np.exp(labels * inputs[:, 0] * found.theta[0])))
    assert abs(slope) < 1e-6


SPREAD = gb.Regression.half_sum(np.eye(2), np.diag([1.0, 0.5]))


@pytest.mark.parametrize("sign", [1.0, 1e-3])
def test_steps_below_rounding_are_not_a_vanishing_gradient(sign):
    net = gb.TwoLayer(2, 2, 3)
    params = gb.init.gaussian(net, 0.1 * sign, key=0)
    found = run(SPREAD, gb.Descent(1e-18), None, net, params)
    assert found.status == "steps too small"
    assert "larger learning rate" in found.status.sentence


@pytest.mark.parametrize("moves", [gb.Descent(0.1), gb.Flow()])
def test_a_narrow_net_at_its_own_minimum_is_at_no_saddle(moves):
    net = gb.TwoLayer(2, 2, 1)
    found = run(SPREAD, moves, None, net, gb.init.gaussian(net, 0.1, key=0))
    np.testing.assert_allclose(found.theta, np.diag([1.0, 0.0]), rtol=0, atol=1e-5)
    assert found.status == "stationary"
    assert "narrower than the rank" in found.status.sentence


def test_a_narrow_net_at_a_saddle_of_its_own_is_stuck():
    net = gb.TwoLayer(2, 2, 1)
    params = {"W1": np.array([[0.0], [0.5]]), "W2": np.array([[0.0, 0.5]])}  # never sees the first
    assert run(SPREAD, gb.Descent(0.1), None, net, params).status == "stuck at a saddle"
