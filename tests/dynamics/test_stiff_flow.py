"""Flow on data whose directions are learned at very different rates, against SciPy's Radau."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
from jax.flatten_util import ravel_pytree

import gradbias as gb
from gradbias._engine import host_loop
from gradbias._engine.prepare import start_of
from gradbias._engine.stiff_scales import unequal_scales
from gradbias.dynamics._hessian_solve import shifted_solver, why_explicit
from gradbias.dynamics._implicit_steps import ORDER, implicit_step
from reference import linear_gradient

SCALES = np.array([1.0, 10.0, 1000.0])


def table(k=1):
    """A small table whose features are not standardised."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3)) * SCALES
    return X, X @ (rng.normal(size=(3, k)) / SCALES[:, None]) + 0.1 * rng.normal(size=(12, k))


def setup_of(solver="auto", scale=1.0, k=1, **changes):
    X, Y = table(k)
    net = gb.TwoLayer(3, k, 4)
    params = gb.init.gaussian(net, 0.3, key=0)
    changes = {"until": gb.Until(time=100.0), "save_at": [0.0, 1.0, 100.0]} | changes
    problem = gb.Regression.half_mean(X * (scale * SCALES.max() / 1000), Y)
    return gb.Setup(problem, net, params, gb.Flow(solver=solver), **changes)


def radau(setup, times):
    """The layers at these times, in full coordinates and by NumPy's gradient."""
    names, problem = ["W1", "W2"], setup.problem
    shapes = [setup.params[name].shape for name in names]
    cut = setup.params["W1"].size

    def unpack(y):
        return {"W1": y[:cut].reshape(shapes[0]), "W2": y[cut:].reshape(shapes[1])}

    def field(t, y):
        grads = linear_gradient("TwoLayer", unpack(y), problem.X, problem.Y, float(problem.weight))
        return -np.concatenate([grads[name].ravel() for name in names])

    y = np.concatenate([setup.params[name].ravel() for name in names])
    states = []
    for start, stop in zip([0.0, *times[:-1]], times, strict=True):
        if stop > start:
            y = scipy.integrate.solve_ivp(
                field, (start, stop), y, "Radau", rtol=1e-12, atol=1e-15
            ).y[:, -1]
        states.append(unpack(y))
    return states


@pytest.mark.parametrize("solver", ["implicit", pytest.param("auto", marks=pytest.mark.slow)])
def test_features_of_unequal_scale_against_radau(solver):
    """An explicit method needs some 10⁸ steps: the fastest rate is 10⁶, the time 100."""
    setup = setup_of(solver, record=[gb.observe.params])
    run = gb.simulate(setup)
    assert run.status == "reached time"
    for row, state in enumerate(radau(setup, [0.0, 1.0, 100.0])):
        for name, value in state.items():
            got = run.data[f"params_{name}"].values[row]
            np.testing.assert_allclose(got, value, rtol=0, atol=1e-10)


@pytest.mark.slow
def test_members_that_are_stiff_and_others_are_what_they_are_alone(monkeypatch):
    def build(scale):
        return setup_of(scale=scale)

    data = gb.sweep(build, {"scale": [1e-3, 1.0]})
    for scale in (1e-3, 1.0):
        alone = gb.simulate(build(scale))
        assert alone.status.ending == data["status"].sel(scale=scale)
        np.testing.assert_allclose(
            data["theta"].sel(scale=scale), alone.data["theta"], rtol=0, atol=1e-10
        )
    monkeypatch.setattr(host_loop, "_next_calls", lambda calls, seconds: 77)
    assert gb.sweep(build, {"scale": [1e-3, 1.0]}).identical(data)


@pytest.mark.slow
def test_a_first_save_far_away():
    at_once = gb.simulate(setup_of(save_at=[0.0, 100.0]))
    slowly = gb.simulate(setup_of(save_at=[0.0, 1e-9, 1e-6, 1e-3, 1.0, 100.0]))
    assert at_once.status == slowly.status == "reached time"
    np.testing.assert_allclose(at_once.theta, slowly.theta, rtol=0, atol=1e-10)


@pytest.mark.parametrize("eps", [1e-9, 1e-50, 1e-150])
def test_a_tiny_unit_is_learned_on_time_by_implicit_steps(eps):
    X = np.diag([30.0, 1.0])
    middle = np.log(1 / eps)
    times = middle + np.array([-2.0, 0.0, 2.0])
    exact = 1 / (1 + np.exp(2 * (middle - times)) * (1 - eps**2))
    net, layer = gb.TwoLayer(2, 2, 2), np.diag([0.9, eps])
    setup = gb.Setup(
        gb.Regression.half_sum(X, X), net, {"W1": layer, "W2": layer}, gb.Flow(solver="implicit"),
        gb.Until(time=times[-1]), save_at=times,
    )  # fmt: skip
    got = gb.simulate(setup, reduce=False).data["theta"].values[:, 1, 1]
    np.testing.assert_allclose(got, exact, rtol=0, atol=1e-9)


def parts(weight_decay=None, k=2):
    setup = setup_of(k=k, scale=1e-3)
    start = start_of(setup.replace(dynamics=gb.Flow(weight_decay=weight_decay or 0.0)), True)
    system, params = start.system, start.params
    shaped = ravel_pytree(params)[1]

    def flat(point):
        return ravel_pytree(start.stepper._field(system, shaped(point)))[0]

    return start, flat, ravel_pytree(params)[0]


def test_the_order_of_a_step():
    """Of an error h^(order + 1), halving the step leaves 2^−(order + 1)."""
    with gb.float64():
        start, flat, point = parts()
        field = lambda p: start.stepper._field(start.system, p)  # noqa: E731

        def error(size):
            got, estimate = implicit_step(start.system, field, None, start.params, size)
            exact = scipy.integrate.solve_ivp(
                jax.jit(lambda t, y: flat(y)), (0, size), point, "DOP853", rtol=1e-13, atol=1e-16
            ).y[:, -1]
            got = ravel_pytree(got)[0]
            return np.abs(got - exact).max(), np.abs(ravel_pytree(estimate)[0]).max()

        (large, guess), (small, _) = error(2.0), error(1.0)
    assert 0.5 < np.log2(large / small) / (ORDER + 1) < 1.5
    assert large < 10 * guess


@pytest.mark.parametrize("weight_decay", [None, 0.3])
def test_the_first_layer_is_eliminated_exactly(weight_decay):
    with gb.float64():
        start, flat, point = parts(weight_decay)
        decay = start.stepper.weight_decay
        assert "rest" in start.params  # else there was no closure, and this tests nothing
        hessian = -jax.jacfwd(flat)(point)
        b = jnp.linspace(-1, 2, point.size)
        shift = 5.0
        solve = shifted_solver(start.system, flat, decay, start.params)(shift)
        wanted = jnp.linalg.solve(hessian + shift * jnp.eye(point.size), b)
        np.testing.assert_allclose(solve(b), wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("until", [gb.Until(gap=1e-12, time=1e6), gb.Until(gap=1e-12)])
def test_a_net_that_cannot_fit_is_called_stuck(until):
    """θ = a³ stays positive: what should be negative goes to zero like a power of time."""
    X = np.random.default_rng(0).normal(size=(20, 4))
    problem = gb.Regression.half_mean(X, X @ np.array([1.0, -0.03, 0.5, -0.02]))
    least = scipy.optimize.nnls(X, problem.Y.ravel())[1] ** 2 / 40
    net = gb.nets.linear(lambda p: p["a"] ** 3)
    began = time.process_time()
    run = gb.simulate(gb.Setup(problem, net, {"a": np.full(4, 0.3)}, gb.Flow(), until))
    assert time.process_time() - began < 30
    assert run.status == "stuck at a saddle"
    assert run.data["loss"].values[-1] == pytest.approx(least, rel=1e-6)
    assert f"excess loss is {least:.4g}" in run.status.sentence
    assert "of what it was at the start" in run.status.sentence


def test_what_cannot_be_implicit_says_why():
    with pytest.raises(ValueError, match=r"solver must be one of .*got 'stiff'"):
        gb.Flow(solver="stiff")
    net = gb.MLP([3, 4, 1], activation="relu")
    setup = setup_of("implicit").replace(net=net, params=gb.init.kaiming(net, key=0))
    with pytest.raises(ValueError, match="kinks of relu"):
        gb.simulate(setup)
    with gb.float64():
        start, _, _ = parts()
        large = {"W1": np.zeros((3, 3000)), "W2": np.zeros((3000, 2))}
        assert "too large" in why_explicit(start.system, large)


def test_words_name_the_features_that_are_stiff():
    words = unequal_scales(setup_of().problem)
    assert "feature 2 has the size" in words
    assert "Standardise" in words
    X, Y = table()
    assert unequal_scales(gb.Regression.half_mean(X / SCALES, Y)) == ""


@pytest.mark.slow
def test_a_start_of_1e_150_moves_and_data_of_1e_150_do_not_reach_their_time():
    net = gb.MLP([2, 3, 1], activation="tanh")
    params = {name: 1e-150 * p for name, p in gb.init.kaiming(net, key=0).items()}
    problem = gb.Regression.half_sum(np.eye(2), np.ones(2))
    run = gb.simulate(gb.Setup(problem, net, params, gb.Flow(), gb.Until(time=10.0)))
    assert run.status == "reached time"
    np.testing.assert_allclose(run.final["b2"], 1 - np.exp(-20.0), rtol=1e-9)
    net = gb.TwoLayer(9, 2, 4)
    tiny = gb.Regression.half_sum(1e-150 * np.eye(9), np.ones((9, 2)))
    params = gb.init.gaussian(net, 1.0, key=0)
    run = gb.simulate(gb.Setup(tiny, net, params, gb.Flow(), gb.Until(time=10.0)))
    assert run.status == "steps too small"
    assert "data in larger units" in run.status.sentence
    np.testing.assert_array_equal(run.final["W1"], params["W1"])
