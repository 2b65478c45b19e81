"""Descent against a plain NumPy loop with gradients written by hand."""

import numpy as np
import pytest

import gradbias as gb
from cases import DESCENTS, LR, PAIRS, case, data, dynamics, label_noise, minibatches
from reference import loop

STEPS = 200
SETTINGS = {
    "gd": {"lr": LR},
    "minibatch": {"lr": LR, "indices": minibatches()},
    "label noise": {"lr": LR, "noise": "all"},
    "momentum": {"lr": LR / 5, "momentum": 0.9},
    "weight decay": {"lr": LR, "decay": 0.05},
    "all together": {
        "lr": LR / 5,
        "indices": minibatches(),
        "noise": "batch",
        "momentum": 0.9,
        "decay": 0.05,
    },
    "schedule": {"lr": lambda k: LR / 3 if k < 100 else LR},
}


def settings(descent, k):
    chosen = dict(SETTINGS[descent])
    if "noise" in chosen:
        chosen["noise"] = label_noise(6 if chosen["noise"] == "all" else 2, k)
    return chosen


def assert_matches(problem, net, params, descent, reduce):
    X, Y = problem.X, problem.Y.reshape(len(problem.X), -1)
    kind, weight = type(net).__name__, float(problem.weight)
    wanted = loop(kind, params, X, Y, weight, STEPS, **settings(descent, problem.k))
    setup = gb.Setup(
        problem, net, params, dynamics(descent, problem.k), gb.Until(steps=STEPS), save_at=[STEPS]
    )
    run = gb.simulate(setup, reduce=reduce)
    assert run.status == "reached steps"
    for name, value in wanted.items():
        np.testing.assert_allclose(run.final[name], value, rtol=0, atol=1e-12)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize(("name", "descent"), PAIRS)
def test_products_of_matrices(name, descent, reduce):
    assert_matches(*case(name), descent, reduce)


@pytest.mark.parametrize("descent", DESCENTS)
@pytest.mark.parametrize("kind", ["diagonal", "mlp"])
def test_other_nets(kind, descent):
    k = 1 if kind == "diagonal" else 2
    X, Y = data(k=k)
    net = gb.Diagonal(9) if kind == "diagonal" else gb.MLP([9, 5, 2], "tanh")
    params = gb.init.gaussian(net, 0.3, key=4)
    assert_matches(gb.Regression.half_mean(X, Y), net, params, descent, True)


def test_any_function_of_the_step():
    """A function that takes arrays, one that does not, and the table of both are one schedule."""
    problem, net, params = case("two layers")
    schedules = [
        gb.dynamics.piecewise({0: 0.01, 60: 0.02}),
        lambda k: 0.01 if k < 60 else 0.02,
        lambda k: np.where(k < 60, 0.01, 0.02),
    ]
    runs = [
        gb.simulate(gb.Setup(problem, net, params, gb.Descent(lr), gb.Until(steps=100)))
        for lr in schedules
    ]
    for run in runs[1:]:
        np.testing.assert_array_equal(run.theta, runs[0].theta)
        np.testing.assert_array_equal(run.data["time"], runs[0].data["time"])
    assert float(runs[0].data["time"][-1]) == pytest.approx(0.6 + 0.8)


def test_schedule_longer_than_a_table():
    problem, net, params = case("one layer")
    decaying = gb.Descent(lambda k: 0.1 / (1 + k / 1000))
    run = gb.simulate(
        gb.Setup(problem, net, params, decaying, gb.Until(steps=10_000), save_at=[10_000])
    )
    X, Y = problem.X, problem.Y
    wanted = loop(
        "Deep", params, X, Y, float(problem.weight), 10_000, lambda k: 0.1 / (1 + k / 1000)
    )
    np.testing.assert_allclose(run.final["W1"], wanted["W1"], rtol=0, atol=1e-12)


def test_descent_approaches_flow_at_order_one():
    problem, net, params = case("deep")
    flow = gb.simulate(gb.Setup(problem, net, params, gb.Flow(), gb.Until(time=2.0)))
    errors = []
    for lr in (0.02, 0.01, 0.005, 0.0025):
        run = gb.simulate(gb.Setup(problem, net, params, gb.Descent(lr), gb.Until(time=2.0)))
        assert run.status.at == round(2 / lr)
        errors.append(np.linalg.norm(run.theta - flow.theta))
    slopes = np.diff(np.log(errors)) / np.log(0.5)
    np.testing.assert_allclose(slopes[-1], 1.0, atol=0.05)


def test_full_batch_replayed_is_gradient_descent():
    problem, net, params = case("two layers")
    everything = np.tile(np.arange(6), (50, 1))
    runs = [
        gb.simulate(gb.Setup(problem, net, params, gb.Descent(LR, noise), gb.Until(steps=50)))
        for noise in (None, gb.Replay(everything))
    ]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=0, atol=1e-13)
