"""What a limit that cannot be computed, or does not move, says of itself."""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias._manifold.target import target_at
from gradbias.limit._kinks import jumps
from limit.curves import on_the_ellipse
from limit.test_limit import ONE, PROBLEM, START, X, Y, path, setup

TIMES = np.array([0.0, 0.5, 1.0])


def said(problem, net, params, dynamics, time=1.0):
    return gb.simulate(gb.Setup(problem, net, params, dynamics, gb.Until(time=time))).status


@pytest.mark.parametrize("dt", [None, pytest.param(0.01, marks=pytest.mark.slow)])
def test_where_the_noise_vanishes_it_stays(dt):
    """Minibatches of samples that are all fitted: no noise is left on the manifold."""
    run = gb.simulate(setup(gb.Limit(gb.Minibatch(1), dt), times=TIMES))
    assert run.status == "reached time"
    assert "at rest" in run.status.sentence
    assert run.status.at == 1.0
    np.testing.assert_array_equal(path(run), path(run)[[0, 0, 0]])
    assert run.data["loss"].max() < 1e-25


def test_noise_that_does_not_vanish_is_not_at_rest():
    """The same samples with labels in conflict: with dt as by the adaptive method."""
    problem = gb.Regression.half_mean(X, Y + np.array([0.0, 0.0, 0.5]))
    moved = [gb.simulate(setup(gb.Limit(gb.Minibatch(1), dt), problem, times=TIMES))
             for dt in (None, 0.01)]  # fmt: skip
    for run in moved:
        assert "at rest" not in run.status.sentence
    way = np.linalg.norm(path(moved[0])[-1] - path(moved[0])[0])
    assert np.linalg.norm(path(moved[0])[-1] - path(moved[1])[-1]) < 0.01 * way


def test_a_saddle_and_a_net_that_cannot_fit():
    zero = {"u": np.zeros(5), "v": np.zeros(5)}
    one_sign = {"u": START["u"], "v": np.zeros(5)}
    negative = gb.Regression(np.eye(3, 5)[[0, 1, 0]], [1.0, -1.0, 1.0], 0.5)
    for problem, params in [(PROBLEM, zero), (negative, one_sign)]:
        status = gb.simulate(setup(gb.Limit(ONE), problem, params)).status
        assert status == "integrator failed"
        assert "the data are not fitted" in status.sentence


def test_a_rank_that_is_not_clear():
    scale = np.array([1.0, 1e-10, 1.0])
    unclear = gb.Regression(scale[:, None] * X, scale * Y, 0.5)
    status = gb.simulate(setup(gb.Limit(ONE), unclear)).status
    assert "number of normal directions is not clear" in status.sentence


def test_a_reason_is_saved_with_the_run(tmp_path):
    run = gb.simulate(setup(gb.Limit(gb.Minibatch(1)), times=TIMES))
    run.save(tmp_path / "run.nc")
    assert gb.load(tmp_path / "run.nc").status.sentence == run.status.sentence


@pytest.mark.slow
def test_a_kink_on_the_way():
    """tr H jumps where a relu unit switches: the limit must not step across without a word."""
    data = np.random.default_rng(0)
    problem = gb.Regression.half_mean(data.standard_normal((3, 5)), data.standard_normal(3))
    net = gb.MLP([5, 6, 1], "relu")
    for key in range(3):
        status = said(problem, net, gb.init.gaussian(net, 1.0, key=key), gb.Limit(ONE), 5.0)
        assert status == "integrator failed"
        assert status.at < 5
        assert "the net has a kink" in status.sentence


def test_a_kink_is_refused_where_noise_diffuses():
    net = gb.MLP([5, 6, 1], "relu")
    with pytest.raises(ValueError, match=r"net: noise that diffuses.*needs a smooth net"):
        said(PROBLEM, net, gb.init.gaussian(net, 1.0, key=0), gb.Limit(gb.Isotropic(1.0)))


@pytest.mark.slow
def test_a_step_that_is_too_large():
    ends = [
        gb.simulate(on_the_ellipse(gb.Limit(gb.Isotropic(1.0), 5.0), gb.Until(time=200), key=key))
        for key in range(4)
    ]
    failed = [run.status for run in ends if run.status == "integrator failed"]
    assert failed
    assert all("dt is too large" in status.sentence for status in failed)


def test_a_jump_of_the_hessian_is_told_from_a_steep_slope():
    def found(function, a, b):
        with gb.float64():
            target, flat = target_at(np.array(a), lambda x: jnp.sum(function(x)), None)
            return bool(jumps(target, jnp.asarray(flat), jnp.asarray(b)))

    assert found(lambda x: jnp.maximum(x, 0.0) ** 2 + 1e-2 * x**2, [-0.3, 1.0], [0.4, 1.0])
    assert not found(lambda x: jnp.maximum(x, 0.0) ** 2 + 1e-2 * x**2, [0.1, 1.0], [0.4, 1.0])
    assert not found(lambda x: jnp.tanh(1e3 * x) ** 2 + x**2, [-0.3, 1.0], [0.4, 1.0])
