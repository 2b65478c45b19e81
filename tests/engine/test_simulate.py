"""The engine: where runs stop, what they save, how often they compile."""

import os
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import gradbias as gb
from cases import case, data


def setup(name="two layers", dynamics=None, **changes):
    problem, net, params = case(name)
    return gb.Setup(problem, net, params, dynamics or gb.Descent(0.03), **changes)


def excess(problem, theta):
    """The gap from first principles: least squares by another route."""
    best = np.linalg.lstsq(problem.X, problem.Y, rcond=None)[0]
    return float(problem.weight) * np.sum((problem.X @ (theta - best)) ** 2)


@pytest.mark.smoke
@pytest.mark.parametrize("reduce", [True, False])
def test_stops_at_the_first_check_below_the_gap(reduce):
    run = gb.simulate(setup(until=gb.Until(gap=1e-6), save_at=np.arange(0, 5001, 100)), reduce)
    problem, stopped = run.setup.problem, int(run.status.at)
    assert run.status == "converged"
    assert stopped % 100 == 0
    gaps = [excess(problem, theta) for theta in run.data["theta"].values[: stopped // 100 + 1]]
    assert gaps[-1] <= 1e-6 < gaps[-2]
    assert np.isnan(run.data["theta"].values[stopped // 100 + 1 :]).all()
    assert np.isnan(run.data["loss"].values[stopped // 100 + 1 :]).all()


@pytest.mark.parametrize("every", [1, 7, 100, 1000])
def test_check_every(every):
    run = gb.simulate(setup(until=gb.Until(gap=1e-6, steps=10_000, check_every=every)))
    exact = gb.simulate(setup(until=gb.Until(gap=1e-6, steps=10_000, check_every=1)))
    assert run.status.at == -(-int(exact.status.at) // every) * every


def test_the_stop_does_not_depend_on_how_the_run_is_cut(monkeypatch):
    wanted = gb.simulate(setup(until=gb.Until(gap=1e-9)))
    monkeypatch.setattr("gradbias._engine.host_loop._next_calls", lambda calls, seconds: 37)
    cut = gb.simulate(setup(until=gb.Until(gap=1e-9)))
    assert cut.status.at == wanted.status.at
    np.testing.assert_array_equal(cut.theta, wanted.theta)
    np.testing.assert_array_equal(cut.data["theta"], wanted.data["theta"])


def test_the_first_named_limit_ends_the_run():
    assert gb.simulate(setup(until=gb.Until(steps=50))).status == "reached steps"
    assert gb.simulate(setup(until=gb.Until(steps=50, time=0.9))).status.at == 30
    assert gb.simulate(setup(until=gb.Until(steps=20, time=0.9))).status.at == 20
    run = gb.simulate(setup(dynamics=gb.Flow(), until=gb.Until(time=0.5)))
    assert run.status == "reached time"
    assert run.status.at == 0.5


def test_a_start_at_the_minimum_has_converged():
    problem, net, _ = case("one layer")
    run = gb.simulate(gb.Setup(problem, net, {"W1": problem.min_norm}, gb.Descent(0.1)))
    assert run.status == "converged"
    assert run.status.at == 0


def test_divergence_is_an_answer():
    run = gb.simulate(setup(dynamics=gb.Descent(5.0), until=gb.Until(steps=10_000)))
    assert run.status == "diverged"
    step = int(run.status.at)
    assert str(run.status) == f"diverged at step {step}"
    assert all(np.isfinite(value).all() for value in run.final.values())
    # The same run, one step less and one step more.
    before = gb.simulate(setup(dynamics=gb.Descent(5.0), until=gb.Until(steps=step - 1)))
    assert before.status == "reached steps"
    after = gb.simulate(setup(dynamics=gb.Descent(5.0), until=gb.Until(steps=step)))
    assert after.status == "diverged"


@pytest.mark.parametrize("dynamics", [gb.Descent(0.1), gb.Flow()])
def test_a_zero_start_is_a_saddle(dynamics):
    problem, net, params = case("two layers")
    zero = {name: np.zeros_like(value) for name, value in params.items()}
    run = gb.simulate(gb.Setup(problem, net, zero, dynamics))
    assert run.status == "stuck at a saddle"
    assert np.isfinite(run.data["loss"]).all()


def test_flow_into_a_saddle():
    """m = r, balanced, det of the start and of the target of opposite sign: ‖E‖ → σ_min(B)."""
    target = np.diag([2.0, 0.7])
    problem = gb.Regression.half_sum(np.eye(2), target)
    net = gb.TwoLayer(2, 2, 3)
    params = gb.init.balanced(net, np.diag([1.0, -0.5]))
    run = gb.simulate(gb.Setup(problem, net, params, gb.Flow()))
    assert run.status == "stuck at a saddle"
    assert np.linalg.norm(run.theta - target) == pytest.approx(0.7, abs=1e-6)


def test_weight_decay_ends_where_the_objective_is_stationary():
    run = gb.simulate(setup(dynamics=gb.Flow(weight_decay=0.01)))
    assert run.status == "stationary"
    problem, net = run.setup.problem, run.setup.net
    with gb.float64():
        grads = gb.dynamics.gradient(problem, net, jax.tree.map(jax.numpy.asarray, run.final))
    for name, value in run.final.items():
        np.testing.assert_allclose(grads[name], -0.02 * value, rtol=0, atol=1e-8)


def test_descent_that_only_a_gap_could_end_ends_at_its_floor():
    run = gb.simulate(setup(until=gb.Until(gap=1e-60)))
    assert run.status == "converged to tolerance"


@pytest.mark.smoke
def test_one_compilation_for_all_numbers_of_a_shape():
    """Learning rates, stop values, momenta, decays and save schedules of one length."""
    first = setup(
        dynamics=gb.Descent(0.01, momentum=0.5, weight_decay=0.1),
        until=gb.Until(gap=1e-7, steps=400), save_at=[0, 10, 400],
    )  # fmt: skip
    gb.simulate(first)
    variants = [
        first.replace(dynamics=gb.Descent(lr, momentum=beta, weight_decay=gamma))
        for lr, beta, gamma in [(0.02, 0.5, 0.1), (0.03, 0.8, 0.01), (0.05, 0.1, 0.2)]
    ]
    variants += [first.replace(until=gb.Until(gap=gap, steps=400)) for gap in (1e-3, 1e-5, 1e-9)]
    variants += [first.replace(save_at=saves) for saves in ([0, 1, 2], [7, 100, 399], [1, 2, 300])]
    for variant in variants:
        assert gb.simulate(variant).stats["compilations"] == 0
    flow = setup(dynamics=gb.Flow(), until=gb.Until(time=1.0), save_at=[0.0, 0.5, 1.0])
    gb.simulate(flow)
    for variant in (
        flow.replace(save_at=[0.1, 0.2, 0.9]),
        flow.replace(until=gb.Until(time=2.0)),
        flow.replace(dynamics=gb.Flow(rtol=1e-8)),
    ):
        assert gb.simulate(variant).stats["compilations"] == 0


def test_saves_default_to_two_hundred_log_spaced():
    run = gb.simulate(setup(until=gb.Until(steps=5000)))
    steps = run.data["step"].values
    assert len(steps) == 200
    assert steps[0] == 0
    assert steps[-1] == 5000
    assert np.all(np.diff(steps) > 0)
    np.testing.assert_allclose(run.data["time"], 0.03 * steps)
    short = gb.simulate(setup(until=gb.Until(steps=30)))
    np.testing.assert_array_equal(short.data["step"], np.arange(31))


def test_labels_as_a_vector_give_predictors_as_a_vector():
    X, Y = data(k=1)
    net = gb.TwoLayer(9, 1, 4)
    params = gb.init.gaussian(net, 0.3)
    vector = gb.simulate(gb.Setup(gb.Regression.mean(X, Y[:, 0]), net, params, gb.Descent(0.01),
                                  gb.Until(steps=10)))  # fmt: skip
    matrix = gb.simulate(gb.Setup(gb.Regression.mean(X, Y), net, params, gb.Descent(0.01),
                                  gb.Until(steps=10)))  # fmt: skip
    assert vector.theta.shape == (9,)
    assert matrix.theta.shape == (9, 1)
    assert vector.data["theta"].dims == ("step", "feature")
    assert matrix.data["theta"].dims == ("step", "feature", "output")
    np.testing.assert_array_equal(vector.theta, matrix.theta[:, 0])


def test_any_per_sample_loss():
    """The squared loss as a user would write it gives the same run as Regression."""
    X, Y = data(k=2)
    net = gb.MLP([9, 6, 2], "swish")
    params = gb.init.gaussian(net, 0.4)
    samples = gb.Samples(lambda output, y: jax.numpy.sum((output - y) ** 2), X, Y)
    runs = [
        gb.simulate(gb.Setup(problem, net, params, gb.Descent(0.02), gb.Until(steps=100)))
        for problem in (samples, gb.Regression.mean(X, Y))
    ]
    for name in params:
        np.testing.assert_allclose(runs[0].final[name], runs[1].final[name], rtol=0, atol=1e-12)


def test_logistic_loss_runs_and_falls():
    X, _ = data(k=1)
    labels = np.sign(X[:, 0])
    problem = gb.Samples(lambda f, y: jax.numpy.logaddexp(0.0, -y * f), X, labels)
    for net in (gb.Deep([9, 4, 1]), gb.Diagonal(9)):
        run = gb.simulate(
            gb.Setup(problem, net, gb.init.gaussian(net, 0.3), gb.Descent(0.1), gb.Until(steps=500))
        )
        loss = run.data["loss"].values
        assert loss[-1] < 0.5 * loss[0]


def test_own_observables_traced_or_not():
    def norm(problem, net, params):
        return jax.numpy.linalg.norm(net.predictor(params))

    def rank(problem, net, params):
        return np.linalg.matrix_rank(np.asarray(net.predictor(params)))

    def excess_loss(problem, net, params):
        return problem.loss(net.predictor(params)) - 1.0

    run = gb.simulate(
        setup(until=gb.Until(steps=300), record=[norm, rank, excess_loss, gb.observe.loss])
    )
    assert float(run.data["rank"][-1]) == 2
    assert float(run.data["norm"][-1]) == pytest.approx(np.linalg.norm(run.theta))
    np.testing.assert_allclose(run.data["excess_loss"], run.data["loss"] - 1, rtol=0, atol=1e-14)


def test_own_nets():
    """With a class, with a function; linear and general; the same trajectory."""
    X, Y = data(k=1)
    problem = gb.Regression.mean(X, Y[:, 0])

    class Cubic(gb.LinearNet):
        def predictor(self, params):
            return params["w"] ** 3

    params = {"w": np.linspace(0.2, 0.6, 9)}
    nets = [
        Cubic(),
        gb.nets.linear(lambda p: p["w"] ** 3),
        gb.nets.general(lambda p, X: X @ p["w"] ** 3),
    ]
    runs = [
        gb.simulate(gb.Setup(problem, net, params, gb.Descent(0.01), gb.Until(steps=50)))
        for net in nets
    ]
    for run in runs[1:]:
        np.testing.assert_allclose(run.final["w"], runs[0].final["w"], rtol=0, atol=1e-13)
    assert runs[2].theta is None


@pytest.mark.smoke
def test_the_users_precision_is_left_alone():
    before = jax.config.jax_enable_x64
    run = gb.simulate(setup(until=gb.Until(steps=10)))
    assert jax.config.jax_enable_x64 == before
    assert run.theta.dtype == np.float64
    for value in run.final.values():
        assert isinstance(value, np.ndarray)
        assert value.dtype == np.float64
    expected = np.float64 if before else np.float32
    assert jax.numpy.zeros(3).dtype == expected


def test_the_same_setup_gives_the_same_bits():
    runs = [gb.simulate(setup(until=gb.Until(gap=1e-6))) for _ in range(2)]
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta)


def test_a_large_record_warns_before_it_starts():
    problem, net, params = case("two layers")
    many = gb.Setup(
        problem, net, params, gb.Descent(0.01), gb.Until(steps=2_000_000),
        record=[gb.observe.params], save_at=np.arange(600_000),
    )  # fmt: skip
    with pytest.warns(UserWarning, match="GiB"):
        from gradbias._engine.recorder import Recorder

        with gb.float64():
            Recorder([many], [None])


INTERRUPTED = """
import signal
import numpy as np, gradbias as gb
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for background jobs
rng = np.random.default_rng(0)
problem = gb.Regression.mean(rng.normal(size=(20, 60)), rng.normal(size=20))
net = gb.Deep([60, 60, 60, 1])
setup = gb.Setup(problem, net, gb.init.gaussian(net, .05), gb.Descent(1e-7), gb.Until(steps=10**9))
gb.simulate(setup.replace(until=gb.Until(steps=64)))  # compiled from here on
print("ready", flush=True)
try:
    gb.simulate(setup)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_is_raised_soon():
    """Not a timed assertion: it only must not need the 10⁹ steps."""
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={**os.environ},
    ) as process:  # fmt: skip
        assert process.stdout.readline().strip() == "ready"
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert out.strip() == "interrupted", err
