"""The limit against SGD at the sizes of the paper, with standard errors; minutes, not seconds."""

import runpy
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import diagonal, manifold
from limit.curves import diffused, distance, motor, on_the_ellipse, turned

pytestmark = pytest.mark.slow
ONE = gb.LabelNoise(1.0, batch_size=1)
FIT = gb.problems.TanhFit()
TANH = gb.nets.general(lambda p, X: jnp.tanh(X @ p["W1"] + p["b1"].reshape(1, -1)) @ p["W2"])


def z_of_order(found):
    """How many standard errors the order is outside 1 ± 0.15, the allowance for finite lr."""
    return max(abs(found.order - 1) - 0.15, 0.0) / found.order_error


def test_the_order_on_a_diagonal_net():
    rng = np.random.default_rng(0)
    problem = gb.Regression.half_mean(rng.standard_normal((3, 5)), rng.standard_normal(3))
    start = {"u": np.full(5, 1.0), "v": np.full(5, 0.8)}
    sgd = gb.Setup(problem, gb.Diagonal(5), start, gb.Descent(0.01, ONE))
    found = gb.weak_error(sgd, [0.02, 0.01, 0.005, 0.0025], 0.5, members=500, progress=False)
    assert (found.error > 20 * found.standard_error).all()  # z against no difference at all
    assert found.order_error < 0.02
    assert abs(found.order - 1) < 0.15
    three = gb.Setup(problem, gb.Diagonal(5), start, gb.Descent(0.01, gb.LabelNoise(1.0, 3)))
    all_samples = gb.weak_error(three, [0.01, 0.005], 0.5, members=200, progress=False)
    assert z_of_order(all_samples) < 2


def test_the_order_on_a_tanh_net():
    problem = gb.Regression.half_mean(FIT.X, FIT.Y)
    sgd = gb.Setup(problem, TANH, FIT.start(), gb.Descent(0.1, ONE))
    found = gb.weak_error(sgd, [0.05, 0.025, 0.0125], 1.0, members=1000, progress=False)
    assert (found.error > 5 * found.standard_error).all()
    assert found.order_error < 0.05
    assert abs(found.order - 1) < 0.15


def test_the_mean_of_a_diffusion():
    sgd = on_the_ellipse(gb.Descent(0.1, gb.Isotropic(1.0)))
    found = gb.weak_error(sgd, [0.1, 0.05], 0.3, members=4000, dt=0.005, progress=False)
    assert found.error[1] < 0.75 * found.error[0] + 2 * found.standard_error.max()
    with pytest.raises(ValueError, match="does not diffuse"):
        gb.weak_error(sgd, [0.1, 0.05], 0.3, "path")


def test_isotropic_histogram():
    x = diffused(4000, 0.02, np.arange(20.0, 41.0, 1.0))
    assert distance(x, -0.5) <= 0.02
    assert min(distance(x, -1.0), distance(x, 0.0)) >= 0.1


@pytest.mark.parametrize("D", [5, 8])
def test_the_motor_turns_with_its_true_speed(D):
    times = np.arange(0, 8.1, 0.5)
    run = gb.simulate(motor(D, lambda noise: gb.Limit(noise, 0.01), gb.Until(time=8), times))
    angles = turned(run.data["params_x"].values)
    np.testing.assert_allclose((angles - angles[0])[1:], (D - 2) / 8 * times[1:], rtol=1e-3)


def test_sgd_turns_the_motor_as_fast():
    lr, members, T = 0.0125, 200, 8
    steps = manifold.limit_to_steps(np.arange(0, T + 0.1, 0.5), lr)

    def build(member):
        return motor(5, lambda noise: gb.Descent(lr, noise), gb.Until(steps=steps[-1]), steps,
                     member)  # fmt: skip

    angles = turned(gb.sweep(build, {"member": range(members)}, progress=False)["params_x"].values)
    speeds = (angles[:, -1] - angles[:, 0]) / T
    error = speeds.std(ddof=1) / members**0.5
    assert error < 0.01 * 3 / 8
    assert abs(speeds.mean() - 3 / 8) < 0.02 * 3 / 8 + 2 * error


def test_minibatches_of_conflicting_labels_on_a_tanh_net():
    """Minibatches of y ± δ are label noise on y."""
    rng, h = np.random.default_rng(0), 1e-3
    clean = gb.Regression.half_mean(rng.standard_normal((4, 2)), rng.standard_normal(4))
    net = gb.MLP([2, 5, 1], "tanh")
    both = gb.problems.conflicting(clean, 0.6)
    run = gb.simulate(
        gb.Setup(
            both,
            net,
            gb.init.gaussian(net, 0.8, key=1),
            gb.Limit(gb.Minibatch(3)),
            gb.Until(time=4 * h),
            [gb.observe.params],
            np.arange(5) * h,
        )
    )
    start = {name: run.data[f"params_{name}"].values[0] for name in net.shapes()}
    c = manifold.conflicting_labels_constant(0.6, 8, 3)
    drift = manifold.label_noise_drift(start, c, residual=manifold.residuals(clean, net))
    for name in net.shapes():
        slope = np.tensordot([-25, 48, -36, 16, -3], run.data[f"params_{name}"].values, 1) / 12
        assert np.abs(slope / h - drift[name]).max() < 1e-6


@pytest.mark.parametrize(("lr", "members", "allowed"), [(1e-3, 4, 0.15), (5e-4, 2, 0.075)])
def test_the_charges_of_a_large_diagonal_net_decay_as_predicted(lr, members, allowed):
    """u∘v falls as exp(−s·t), s = (4/n) Σ_i z_ij², up to T = 5; SGD is faster by O(lr)."""
    problem, T = gb.problems.sparse(n=40, d=100, nonzero=5, key=0, loss="half_mean"), 5.0
    net = gb.Diagonal(100)
    steps = manifold.limit_to_steps(T, lr)
    log = {"log": lambda problem, net, p: jnp.log(jnp.abs(p["u"] * p["v"]))}

    def build(member):
        return gb.Setup(problem, net, gb.init.constant(net, 1.0), gb.Descent(lr, ONE),
                        gb.Until(steps=steps), log, [steps], member)  # fmt: skip

    mean = gb.sweep(build, {"member": range(members)}, progress=False)["log"].values.mean((0, 1))
    s = 4 * np.mean(np.asarray(problem.X) ** 2, axis=0)
    fell = -mean.mean() / (s.mean() * T)
    assert 1 < fell < 1 + allowed


def test_without_data_all_of_it_is_the_manifold():
    nothing, net = gb.Regression(np.zeros((3, 5)), [1.0, -1.0, 1.0], 0.5), gb.Diagonal(5)
    start = gb.init.gaussian(net, 1.0, key=0)
    still = gb.simulate(gb.Setup(nothing, net, start, gb.Limit(ONE), gb.Until(time=1)))
    assert still.status == "reached time"
    np.testing.assert_array_equal(still.final["u"], start["u"])


def test_a_sweep_is_its_members_and_a_rank_may_be_given():
    """Over the noise: c = std²/batch_size is all that counts; and with two nearly equal samples."""
    rng, net, times = np.random.default_rng(0), gb.Diagonal(5), np.array([0.0, 0.5, 2.0])
    X = rng.standard_normal((3, 5))
    X[2] = X[0] + 1e-10 * X[2]
    problem = gb.Regression.half_mean(X, X @ np.array([1.0, -0.5, 0.3, 0.2, -1.0]))
    same = gb.Regression.half_mean(X[[0, 1, 0]], problem.Y[[0, 1, 0]])
    start = gb.init.gaussian(net, 1.0, key=0)

    def build(std, rank=2):
        limit = gb.Limit(gb.LabelNoise(std, batch_size=2), rank=rank)
        return gb.Setup(problem, net, start, limit, gb.Until(time=2), None, times, int(4 * std))

    assert gb.simulate(build(1.0, None)).status == "integrator failed"
    found = gb.sweep(build, {"std": [0.0, 0.5, 1.0]}, progress=False)["theta"].values
    for std, theta in zip([0.0, 0.5, 1.0], found, strict=True):
        u, v = diagonal.limiting_flow(same, start, times, std**2 / 2)
        assert np.abs(theta - (u**2 - v**2)).max() < 1e-6
    assert np.ptp(found[0], axis=0).max() < 1e-12  # no noise: it stands still


def test_odd_sizes():
    """One sample, one input, no data to fit, more outputs than inputs."""
    for X, Y, net in [
        (np.ones((1, 1)), [0.5], gb.Diagonal(1)),
        (np.zeros((3, 2)), [1.0, -1.0, 1.0], gb.Diagonal(2)),
        (np.ones((1, 2)), np.ones((1, 3)), gb.TwoLayer(2, 3, 1)),
        (np.eye(2), [0.3, -0.4], gb.MLP([2, 1, 1], "tanh")),
    ]:
        problem, start = gb.Regression.half_mean(X, Y), gb.init.gaussian(net, 1.0, key=2)
        run = gb.simulate(gb.Setup(problem, net, start, gb.Limit(ONE), gb.Until(time=0.5)))
        assert run.status in ("reached time", "integrator failed")
        if run.status == "reached time":
            residual = manifold.residuals(problem, net)
            if np.any(X):
                assert run.data["loss"].max() < 1e-20
            drift = manifold.label_noise_drift(run.final, 1.0, residual=residual)
            assert all(np.isfinite(leaf).all() for leaf in drift.values())


def test_the_worked_example():
    path = Path(__file__).parents[2] / "examples" / "digits_after_zero_loss.py"
    rows = runpy.run_path(str(path))["main"]()
    for row in rows:
        assert row.cosine > 0.99
        assert abs(row.speed - 1) < 3 * row.standard_error + 3 * row.lr
