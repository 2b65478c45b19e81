"""Flow against an independent integrator and closed forms, down to the smallest inits."""

import itertools

import numpy as np
import pytest
import scipy.integrate

import gradbias as gb
from cases import NETS, case, data
from reference import linear_gradient

TIMES = np.array([0.0, 0.3, 1.0, 4.0, 10.0])


def oracle(kind, params, problem, times):
    """DOP853, segment by segment: its dense output is good for nine digits only."""
    names = list(params)
    shapes = [params[name].shape for name in names]
    cuts = np.cumsum([params[name].size for name in names])[:-1]
    X, Y = problem.X, problem.Y.reshape(len(problem.X), -1)

    def unpack(y):
        parts = zip(names, shapes, np.split(y, cuts), strict=True)
        return {name: part.reshape(shape) for name, shape, part in parts}

    def field(t, y):
        grads = linear_gradient(kind, unpack(y), X, Y, float(problem.weight))
        return -np.concatenate([grads[name].ravel() for name in names])

    y = np.concatenate([params[name].ravel() for name in names])
    scales = [np.sqrt(np.mean(p**2)) for p in params.values() if p.size and p.any()]
    states = [unpack(y)]
    for start, stop in itertools.pairwise(times):
        y = scipy.integrate.solve_ivp(
            field, (start, stop), y, "DOP853", rtol=1e-12, atol=1e-11 * min(scales)
        ).y[:, -1]
        states.append(unpack(y))
    return states


def assert_matches(problem, net, params, times=TIMES, reduce=True):
    setup = gb.Setup(
        problem, net, params, gb.Flow(), gb.Until(time=times[-1]),
        record=[gb.observe.params], save_at=times,
    )  # fmt: skip
    run = gb.simulate(setup, reduce=reduce)
    for row, state in enumerate(oracle(type(net).__name__, params, problem, times)):
        for name, value in state.items():
            got = run.data[f"params_{name}"].values[row]
            np.testing.assert_allclose(got, value, rtol=0, atol=1e-8)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("name", NETS)
def test_products_of_matrices(name, reduce):
    assert_matches(*case(name), reduce=reduce)


def test_diagonal():
    X, Y = data(k=1)
    net = gb.Diagonal(9)
    assert_matches(gb.Regression.half_mean(X, Y[:, 0]), net, gb.init.gaussian(net, 0.4, key=3))


@pytest.mark.parametrize("gamma", [1.0, 1e-4, 1e-8, 1e-12])
def test_orthogonal_init_of_any_size(gamma):
    problem, _, _ = case("two layers")
    net = gb.TwoLayer(9, 2, 12)
    assert_matches(problem, net, gb.init.orthogonal(net, gamma), np.linspace(0, 20, 6))


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 10.0])
def test_balanced_init_of_any_size(scale):
    X, Y = data(k=1)
    problem = gb.Regression.mean(X, Y[:, 0])
    net = gb.Rank1(9, 3, 4)
    theta0 = scale * np.ones(9) / 3
    times = np.linspace(0, 40 if scale < 1 else 0.5, 5)
    assert_matches(problem, net, gb.init.balanced(net, theta0), times)


def test_one_layer_in_closed_form():
    """θ(t) = θ* + e^{−2w XᵀX t}(θ(0) − θ*) on the row space."""
    problem, net, params = case("one layer")
    _, s, Vt = problem.svd
    setup = gb.Setup(problem, net, params, gb.Flow(), gb.Until(time=3.0), save_at=[0.0, 1.0, 3.0])
    run = gb.simulate(setup)
    for t, theta in zip([0.0, 1.0, 3.0], run.data["theta"].values, strict=True):
        away = params["W1"] - problem.min_norm
        decay = np.expm1(-2 * float(problem.weight) * s**2 * t)[:, None]
        wanted = params["W1"] + Vt.T @ (decay * (Vt @ away))
        np.testing.assert_allclose(theta, wanted, rtol=0, atol=1e-10)


def test_weight_decay_in_closed_form():
    """Outside the row space only e^{−2γt} acts."""
    problem, net, params = case("two layers")
    setup = gb.Setup(problem, net, params, gb.Flow(weight_decay=0.1), gb.Until(time=2.0))
    run = gb.simulate(setup)
    basis = problem.row_space
    outside = np.eye(9) - basis @ basis.T
    np.testing.assert_allclose(
        outside @ run.final["W1"], np.exp(-0.4) * outside @ params["W1"], rtol=0, atol=1e-10
    )


def test_a_smaller_tolerance_is_a_smaller_error():
    problem, net, params = case("deep")
    exact = oracle("Deep", params, problem, np.array([0.0, 5.0]))[-1]
    errors = []
    for rtol in (1e-4, 1e-7, 1e-10):
        flow = gb.Flow(rtol=rtol, atol=rtol / 10)
        run = gb.simulate(gb.Setup(problem, net, params, flow, gb.Until(time=5.0)))
        errors.append(max(np.abs(run.final[k] - exact[k]).max() for k in exact))
    assert errors[0] > 10 * errors[1] > 100 * errors[2]


def test_it_never_hovers():
    """Below its floor an explicit solver would take some 400 000 steps to time 10⁴."""
    problem, net, params = case("two layers")
    setup = gb.Setup(problem, net, params, gb.Flow(), gb.Until(gap=1e-300, time=1e4))
    run = gb.simulate(setup)
    assert run.status == "converged to tolerance"
    assert run.status.at < 1000
    assert np.isfinite(run.data["theta"]).all()
    np.testing.assert_allclose(run.data["theta"][-1], run.theta, rtol=0, atol=1e-14)


def test_a_converged_flow_is_filled_with_its_final_state():
    problem, net, params = case("deep")
    run = gb.simulate(gb.Setup(problem, net, params, gb.Flow(), gb.Until(gap=1e-8, time=1e4)))
    assert run.status == "converged"
    excess = run.data["loss"].values[-1] - problem.min_loss
    assert 0 < excess <= 1.001e-8
    assert np.isfinite(run.data["theta"]).all()


def test_saves_are_on_the_times_asked_for():
    problem, net, params = case("one layer")
    setup = gb.Setup(problem, net, params, gb.Flow(), gb.Until(time=5.0))
    asked = [0.0, 0.1, 1 / 3, 2.0, 5.0]
    dense = gb.simulate(setup.replace(save_at=np.union1d(np.linspace(0, 5, 40), asked)))
    few = gb.simulate(setup.replace(save_at=asked))
    np.testing.assert_array_equal(few.data["time"], asked)
    np.testing.assert_allclose(
        few.data["theta"], dense.data["theta"].sel(time=asked), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("scale", [20.0, 100.0])
def test_a_first_step_that_overflows_is_made_smaller(scale):
    """Far too long for a steep start, and nothing on the way at which it has to end."""
    net, problem = gb.Diagonal(6), gb.Regression.mean(*data(3, 6, 1))
    start = {"u": np.full(6, scale), "v": np.full(6, scale)}
    setup = gb.Setup(problem, net, start, gb.Flow(), gb.Until(time=0.25), save_at=[0, 0.25])
    at_once, slowly = gb.simulate(setup), gb.simulate(setup.replace(save_at=[0, 1e-9, 1e-6, 0.25]))
    assert at_once.status == "converged to tolerance"
    np.testing.assert_allclose(at_once.theta, slowly.theta, atol=1e-9 * scale**2)


@pytest.mark.parametrize("eps", [1e-9, 3e-14, 1e-150])
def test_a_tiny_unit_beside_large_ones_is_learned_on_time(eps):
    """Two independent modes; the small one is a logistic curve in closed form."""
    X = np.diag([0.1, 1.0])
    middle = np.log(1 / eps)
    times = middle + np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    exact = 1 / (1 + np.exp(2 * (middle - times)) * (1 - eps**2))
    net, layer = gb.TwoLayer(2, 2, 2), np.diag([0.9, eps])
    setup = gb.Setup(
        gb.Regression.half_sum(X, X), net, {"W1": layer, "W2": layer}, gb.Flow(),
        gb.Until(time=times[-1]), save_at=times,
    )  # fmt: skip
    got = gb.simulate(setup, reduce=False).data["theta"].values[:, 1, 1]
    np.testing.assert_allclose(got, exact, rtol=0, atol=1e-9)


def test_a_unit_that_shrinks_for_ever_does_not_keep_a_run_from_its_end():
    """The second mode is weaker than the decay: it falls like e^(−0.09 t) for ever."""
    X, net, layer = np.diag([1.0, 0.1]), gb.TwoLayer(2, 2, 2), np.diag([0.3, 0.1])
    setup = gb.Setup(
        gb.Regression.half_sum(X, X), net, {"W1": layer, "W2": layer},
        gb.Flow(weight_decay=0.05), gb.Until(gap=1e-8, time=1e4),
    )  # fmt: skip
    run = gb.simulate(setup, reduce=False)
    assert run.status == "stationary"
    assert run.status.at < 1000
    np.testing.assert_allclose(run.theta, np.diag([0.9, 0.0]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("eps", [1e-12, 1e-100])
def test_a_tiny_parameter_of_a_diagonal_net_is_learned_on_time(eps):
    """u' = 2u(1 − u²) for X = I: a logistic curve in u²."""
    X, net = np.diag([0.1, 1.0]), gb.Diagonal(2)
    middle = np.log(1 / eps) / 2
    times = middle + np.array([-0.5, 0.0, 0.5])
    start = {"u": np.array([0.9, eps]), "v": np.zeros(2)}
    problem = gb.Regression.half_sum(X, X @ np.ones(2))
    setup = gb.Setup(
        problem, net, start, gb.Flow(), gb.Until(time=times[-1]), save_at=times
    )  # fmt: skip
    exact = 1 / (1 + np.exp(4 * (middle - times)) * (1 - eps**2))
    got = gb.simulate(setup).data["theta"].values[:, 1]
    np.testing.assert_allclose(got, exact, rtol=0, atol=1e-9)


def test_units_that_are_zero_or_rounding_do_not_shorten_steps():
    """A unit of exact zeros stays; one of 1e-17 is followed, and costs no more than a large one."""
    problem, _, _ = case("two layers")
    net = gb.TwoLayer(9, 2, 3)
    params = gb.init.gaussian(net, 0.5, key=0)
    scales = np.array([1.0, 0.0, 1e-17])
    params = {"W1": params["W1"] * scales, "W2": params["W2"] * scales[:, None]}
    assert_matches(problem, net, params, reduce=False)
