"""The closure of losses that are not squares: reduced, in full, and by a loop in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from reference import deep_gradient, deep_predictor

STEPS = 200
D, N = 9, 6


def data(loss):
    rng = np.random.default_rng(0)
    return rng.normal(size=(N, D)), np.arange(N) % (3 if loss == "cross_entropy" else 2)


def by_hand(problem, params, indices, steps, lr, momentum=0.0, decay=0.0):
    """SGD in NumPy, from the definition of the loss."""
    params = {name: value.copy() for name, value in params.items()}
    velocity = {name: np.zeros_like(value) for name, value in params.items()}
    for step in range(steps):
        rows = np.arange(problem.n) if indices is None else indices[step]
        X, Y = problem.X[rows], problem.Y[rows]
        F = X @ deep_predictor(params)
        if problem.loss_name == "logistic":
            R = (-Y / (1 + np.exp(Y * F[:, 0])))[:, None]
        elif problem.loss_name == "exponential":
            R = (-Y * np.exp(-Y * F[:, 0]))[:, None]
        else:
            S = np.exp(F)
            R = S / S.sum(axis=1, keepdims=True) - Y
        grads = deep_gradient(params, X.T @ R / len(rows))
        for name in params:
            velocity[name] = momentum * velocity[name] + grads[name] + 2 * decay * params[name]
            params[name] = params[name] - lr * velocity[name]
    return params


@pytest.mark.parametrize(
    ("loss", "hidden", "kind"),
    [
        ("logistic", [30], "all"),
        pytest.param("exponential", [12, 7], "gd", marks=pytest.mark.slow),
        ("cross_entropy", [], "all"),
        ("cross_entropy", [30], "gd"),
    ],
)
def test_classification(loss, hidden, kind):
    X, y = data(loss)
    problem = gb.Classification(X, y, loss)
    net = gb.Deep([D, *hidden, problem.k])
    params = gb.init.gaussian(net, 0.3, key=1)
    indices = None if kind == "gd" else np.random.default_rng(2).integers(0, N, (STEPS, 2))
    extra = {} if kind == "gd" else {"momentum": 0.5, "weight_decay": 0.01}
    noise = None if kind == "gd" else gb.Replay(indices)
    setup = gb.Setup(
        problem, net, params, gb.Descent(0.05, noise, **extra), gb.Until(steps=STEPS),
        record=[gb.observe.loss, gb.observe.theta, gb.observe.params], save_at=[0, 1, 50, STEPS],
    )  # fmt: skip
    small, full = gb.simulate(setup), gb.simulate(setup, reduce=False)
    assert small.stats["reduction"] != "none", small.stats["reason"]
    assert full.stats["reduction"] == "none"
    hand = by_hand(
        problem,
        params,
        indices,
        STEPS,
        0.05,
        extra.get("momentum", 0),
        extra.get("weight_decay", 0),
    )
    for name in params:
        np.testing.assert_allclose(small.final[name], hand[name], rtol=0, atol=1e-10)
        np.testing.assert_allclose(full.final[name], hand[name], rtol=0, atol=1e-10)
    for name in full.data:
        np.testing.assert_allclose(small.data[name], full.data[name], rtol=0, atol=1e-10)
    assert float(small.data["loss"][-1]) == pytest.approx(problem.loss(small.theta), rel=1e-12)


@pytest.mark.parametrize(
    "dynamics",
    [
        gb.Flow(rtol=1e-11),
        pytest.param(gb.Diffusion(0.01, gb.Minibatch(2), dt=0.01), marks=pytest.mark.slow),
    ],
)
def test_flow_and_diffusion(dynamics):
    X, y = data("logistic")
    problem, net = gb.Classification(X, y), gb.TwoLayer(D, 1, 20)
    params = gb.init.gaussian(net, 0.3)
    setup = gb.Setup(problem, net, params, dynamics, gb.Until(time=3.0))
    small, full = gb.simulate(setup), gb.simulate(setup, reduce=False)
    assert small.stats["reduction"] == "9-20-1 to 6-7-1"
    np.testing.assert_allclose(small.theta, full.theta, rtol=0, atol=1e-10)


def squares(output, y):
    return jnp.sum((output - y) ** 2)


def test_a_loss_of_the_users_own():
    """Any loss of XΘ closes; squares as a user writes them move as Regression does."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(N, D)), rng.normal(size=(N, 2))
    net = gb.TwoLayer(D, 2, 25)
    params = gb.init.gaussian(net, 0.3)
    runs = [
        gb.simulate(gb.Setup(p, net, params, gb.Descent(0.02), gb.Until(steps=STEPS)))
        for p in (gb.Samples(squares, X, Y), gb.Regression.mean(X, Y))
    ]
    assert runs[0].stats["reduction"] == runs[1].stats["reduction"] == "9-25-2 to 6-8-2"
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=0, atol=1e-12)


def test_near_a_saddle_an_unknown_loss_is_run_in_full():
    """Bounds on rounding need a convex loss, and nobody knows whether a user's is."""
    rng = np.random.default_rng(0)
    problem = gb.Samples(squares, rng.normal(size=(N, D)), rng.normal(size=(N, 1)))
    net = gb.TwoLayer(D, 1, 25)
    params = {"W1": np.zeros((D, 25)), "W2": rng.normal(size=(25, 1))}
    setup = gb.Setup(problem, net, params, gb.Descent(0.01), gb.Until(steps=10))
    assert "not convex" in gb.simulate(setup).stats["reason"]


def test_a_sweep_over_starts_is_each_run_by_itself():
    X, y = data("cross_entropy")
    problem, net = gb.Classification(X, y, "cross_entropy"), gb.TwoLayer(D, 3, 15)

    def build(seed):
        start = gb.init.gaussian(net, 0.1 * (1 + seed), key=seed)
        return gb.Setup(problem, net, start, gb.Descent(0.05), gb.Until(steps=50))

    swept = gb.sweep(build, {"seed": range(3)}, progress=False)
    for seed in range(3):
        alone = gb.simulate(build(seed))
        np.testing.assert_allclose(
            swept["theta"].sel(seed=seed)[-1], alone.theta, rtol=0, atol=1e-12
        )


def test_a_small_loss_is_no_reason_to_stop():
    X, y = data("logistic")
    problem, net = gb.Classification(X, y), gb.Deep([D, 1])
    start = {"W1": np.zeros((D, 1))}
    assert gb.Setup(problem, net, start, gb.Descent(0.1)).until.gap is None
    flow = gb.Setup(problem, net, start, gb.Flow())
    assert flow.until.gap is None and flow.until.time == 1e4
    run = gb.simulate(gb.Setup(problem, net, start, gb.Flow(), gb.Until(time=1e20)))
    assert run.status == "reached time"
    assert float(run.data["loss"][-1]) < 1e-18
