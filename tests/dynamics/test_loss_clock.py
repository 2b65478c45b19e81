"""The flow by the clock of its loss: against the flow in time, its own clock, and closed forms."""

import numpy as np
import pytest

import gradbias as gb


def data(seed=4, n=5, d=10):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(n, d))
    y = np.where(np.arange(n) % 2, 1, -1)
    return (X * np.sign(X @ w)[:, None] + w) * y[:, None], y


def setup_of(problem, net, params, until, **more):
    return gb.Setup(problem, net, params, gb.Flow(clock="loss", rtol=1e-12), until, **more)


@pytest.mark.parametrize(("loss", "hidden"), [("logistic", []), ("cross_entropy", [6])])
def test_it_is_the_flow_in_time(loss, hidden):
    X, y = data()
    problem = gb.Classification(X, y, loss)
    net = gb.Deep([10, *hidden, problem.k])
    params = gb.init.gaussian(net, 0.3)
    times = np.array([1e-3, 0.3, 2.0, 50.0])
    by_loss = setup_of(problem, net, params, gb.Until(log_time=np.log(50.0)), save_at=np.log(times))
    by_time = gb.Setup(
        problem, net, params, gb.Flow(rtol=1e-12), gb.Until(time=50.0), save_at=times
    )
    ours, theirs = gb.simulate(by_loss), gb.simulate(by_time)
    np.testing.assert_allclose(ours.data["theta"], theirs.data["theta"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(ours.data["time"], times, rtol=1e-12)
    np.testing.assert_array_equal(ours.data["log_time"], np.log(times))
    assert ours.data["loss"].dims == ("log_time",)
    assert ours.status == "reached time"
    assert ours.status.at == pytest.approx(np.log(50.0), rel=1e-12)
    assert ours.stats["clock_error"] < 1e-9


def test_two_samples_in_closed_form():
    """z = ±e_1·c: dw/dt = c e^{−cw}, so that e^{cw} = e^{cw_0} + c²t, to t = e^300."""
    problem = gb.Classification([[3.0, 0.0], [-3.0, 0.0]], [1, -1], "exponential")
    setup = setup_of(
        problem, gb.Deep([2, 1]), {"W1": np.array([[0.5], [7.0]])}, gb.Until(log_time=300),
        save_at=[-5.0, 0.0, 10.0, 100.0, 300.0],
    )  # fmt: skip
    run = gb.simulate(setup)
    at = run.data["log_time"].values
    exact = np.logaddexp(1.5, 2 * np.log(3.0) + at) / 3
    np.testing.assert_allclose(run.data["theta"][:, 0], exact, rtol=1e-11)
    np.testing.assert_array_equal(run.data["theta"][:, 1], 7.0)
    assert run.stats["evaluations"] <= 2000
    assert run.stats["clock_error"] <= 1e-9


def test_the_loss_ends_a_run():
    X, y = data()
    problem, net = gb.Classification(X, y), gb.Deep([10, 1])
    start = {"W1": np.zeros((10, 1))}
    until = gb.Until(loss=1e-40, log_time=300)
    run = gb.simulate(setup_of(problem, net, start, until))
    assert run.status == "converged"
    assert np.log(1e-40) - 10 < problem.log_loss(run.theta) <= np.log(1e-40)
    assert 80 < run.status.at < 120
    descent = gb.Setup(problem, net, start, gb.Descent(0.1), gb.Until(loss=0.2, steps=10**5))
    assert gb.simulate(descent).end["loss"] <= 0.2
    rng = np.random.default_rng(0)
    noisy = gb.Regression.mean(rng.normal(size=(6, 2)), rng.normal(size=6))
    target = 1.01 * noisy.min_loss
    fitted = gb.Setup(
        noisy, gb.Deep([2, 1]), {"W1": np.zeros((2, 1))}, gb.Flow(), gb.Until(loss=target, time=1e3)
    )
    assert noisy.loss(gb.simulate(fitted).theta) <= target * (1 + 1e-9)


def test_log_time_is_a_time_elsewhere():
    X, y = data()
    problem, net = gb.Classification(X, y), gb.Deep([10, 1])
    start = {"W1": np.zeros((10, 1))}
    flow = gb.Setup(problem, net, start, gb.Flow(), gb.Until(log_time=2.0))
    assert flow.limit == pytest.approx(np.exp(2.0))
    descent = gb.Setup(problem, net, start, gb.Descent(0.1), gb.Until(log_time=2.0))
    assert descent.limit == 74


def test_defaults_and_files(tmp_path):
    X, y = data()
    problem, net = gb.Classification(X, y), gb.Deep([10, 1])
    setup = gb.Setup(problem, net, {"W1": np.zeros((10, 1))}, gb.Flow(clock="loss"))
    assert setup.until.log_time == 100
    run = gb.simulate(setup)
    assert run.data.sizes["log_time"] == 51
    run.save(tmp_path / "run.nc")
    again = gb.load(tmp_path / "run.nc")
    assert again.setup.dynamics == setup.dynamics
    np.testing.assert_array_equal(again.data["theta"], run.data["theta"])
    assert "clock='loss'" in str(run)


def test_a_sweep_keeps_the_axis():
    X, y = data()
    problem, net = gb.Classification(X, y), gb.Deep([10, 1])
    saves = np.array([0.0, 20.0])

    def build(scale):
        start = {"W1": np.full((10, 1), float(scale))}
        return setup_of(problem, net, start, gb.Until(log_time=20), save_at=saves)

    swept = gb.sweep(build, {"scale": [0, 1]}, progress=False)
    assert swept["theta"].dims == ("scale", "log_time", "feature")
    alone = gb.simulate(build(1)).theta
    np.testing.assert_allclose(swept["theta"].sel(scale=1)[-1], alone, rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p, n, s: gb.Flow(clock="log"), "clock must be one of 'time', 'loss'"),
        (lambda p, n, s: gb.Flow(clock="loss", solver="implicit"), "solver must be explicit"),
        (
            lambda p, n, s: gb.Setup(p, n, s, gb.Flow(clock="loss", weight_decay=0.1)),
            "weight_decay must be 0 with clock",
        ),
        (
            lambda p, n, s: gb.Setup(
                gb.Regression.mean(np.eye(10), np.ones(10)), n, s, gb.Flow(clock="loss")
            ),
            "falls for ever.*got Regression",
        ),
        (
            lambda p, n, s: setup_of(p, n, s, gb.Until(log_time=5), save_at=[2.0, 1.0]),
            "save_at must hold increasing values of log t",
        ),
        (
            lambda p, n, s: setup_of(p, n, s, gb.Until(log_time=5), save_at=[6.0]),
            r"got log t = 6 but it ends at 5",
        ),
        (lambda p, n, s: setup_of(p, n, s, gb.Until(steps=5)), "has a time, not steps"),
        (lambda p, n, s: gb.Until(), "log_time= or loss=, got none"),
    ],
)
def test_what_has_no_such_clock_is_said(make, words):
    X, y = data()
    with pytest.raises(ValueError, match=words):
        make(gb.Classification(X, y), gb.Deep([10, 1]), {"W1": np.zeros((10, 1))})
