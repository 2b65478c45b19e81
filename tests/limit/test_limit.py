"""The limit as a dynamics where noise does not diffuse, against closed forms and formulas.

Everything here has the shapes and the rank of one problem, and shares what is compiled: three
samples of which two are equal, so that the Jacobian has fewer directions than rows.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias.noise import ParameterNoise
from gradbias.theory import diagonal

rng = np.random.default_rng(0)
X, Y = rng.standard_normal((2, 5))[[0, 1, 0]], rng.standard_normal(2)[[0, 1, 0]]
PROBLEM = gb.Regression.half_mean(X, Y)
NET = gb.Diagonal(5)
START = {"u": 0.2 + rng.standard_normal(5), "v": rng.standard_normal(5)}
ONE = gb.LabelNoise(1.0, batch_size=1)
TIMES = np.array([0.0, 0.1, 0.5, 1.0, 2.0])


def setup(dynamics, problem=PROBLEM, params=START, times=TIMES):
    until, record = gb.Until(time=times[-1]), [gb.observe.params, gb.observe.loss]
    return gb.Setup(problem, NET, params, dynamics, until, record, times)


def path(run):
    return np.concatenate([run.data["params_u"], run.data["params_v"]], axis=1)


def exact(problem=PROBLEM, start=START, c=1.0):
    return np.concatenate(diagonal.limiting_flow(problem, start, TIMES, c), axis=1)


def test_label_noise_follows_the_exact_flow_of_diagonal_nets():
    run = gb.simulate(setup(gb.Limit(ONE)))
    assert run.status == "reached time"
    assert np.abs(path(run) - exact()).max() < 1e-9  # t = 0 too: it starts from Φ
    assert run.data["loss"].max() < 1e-25
    assert run.stats["reduction"] == "none"
    assert np.abs(path(run) - exact(c=0.5)).max() > 0.1


def slope_at_start(problem, noise, h=1e-4, **options):
    """(D,) the point at t = 0, and the velocity there by five points of the path."""
    found = path(gb.simulate(setup(gb.Limit(noise, **options), problem, times=np.arange(5) * h)))
    return found[0], np.array([-25, 48, -36, 16, -3]) @ found / (12 * h)


def drift_by_hand(x, X, weight, variances):
    """−½ P T[L_H⁻¹Σ] of weight·Σ_i (x_i·(u² − v²) − y_i)², with one sample a step.

    Args:
        x: (2d,) a minimiser.
        X: (n, d).
        weight: of the loss.
        variances: (n,) E r̃_i² of the noisy residual of each sample.
    """
    signed = np.concatenate([X, -X], axis=1)
    rows, n = 2 * signed * x, len(X)
    H = 2 * weight * rows.T @ rows
    sigma = n * (2 * weight) ** 2 * (rows.T * variances) @ rows
    values, vectors = np.linalg.eigh(H)
    normal = vectors[:, values > 1e-10 * values[-1]]
    sums = values[values > 1e-10 * values[-1]]
    K = normal @ ((normal.T @ sigma @ normal) / (sums[:, None] + sums)) @ normal.T
    third = sum(
        np.sum(2 * s * np.diag(K)) * row + 4 * s * (K @ row)
        for s, row in zip(signed, rows, strict=True)
    )
    third = 2 * weight * third
    return -0.5 * (third - normal @ (normal.T @ third))


def test_labels_that_conflict_add_their_own_noise():
    """Equal samples whose labels are five apart: the misfit of ±2.5 is noise of SGD."""
    problem = gb.Regression(X, Y + np.array([0.0, 0.0, 5.0]), 0.7)
    x, slope = slope_at_start(problem, ONE)
    by_hand = drift_by_hand(x, X, 0.7, np.array([7.25, 1.0, 7.25]))
    assert np.linalg.norm(slope - by_hand) < 1e-8 * np.linalg.norm(by_hand)
    labels_alone = drift_by_hand(x, X, 0.7, np.ones(3))
    assert np.linalg.norm(slope - labels_alone) > 0.1 * np.linalg.norm(by_hand)


def test_a_start_that_reaches_no_minimum_is_flagged():
    zero = {"u": np.zeros(5), "v": np.zeros(5)}  # the saddle
    run = gb.simulate(setup(gb.Limit(ONE), params=zero))
    assert run.status == "integrator failed"
    assert np.isnan(run.data["params_u"].values[1:]).all()
    one_sign = {"u": START["u"], "v": np.zeros(5)}  # u² alone cannot be negative
    negative = gb.Regression(np.eye(3, 5)[[0, 1, 0]], [1.0, -1.0, 1.0], 0.5)
    failed = gb.simulate(setup(gb.Limit(ONE), negative, params=one_sign))
    assert failed.status == "integrator failed"


def test_a_rank_that_is_not_clear_is_flagged():
    """A direction of 1e-10 of the largest is neither zero nor normal."""
    scale = np.array([1.0, 1e-10, 1.0])
    unclear = gb.Regression(scale[:, None] * X, scale * Y, 0.5)
    assert gb.simulate(setup(gb.Limit(ONE), unclear)).status == "integrator failed"


@pytest.mark.parametrize("weight", [1e-60, 1e60])
def test_a_loss_of_any_size(weight):
    """c and H are both 2·n·weight of what they were: the path is that of another clock."""
    problem = gb.Regression(PROBLEM.X, PROBLEM.Y, weight)
    run = gb.simulate(setup(gb.Limit(ONE), problem, times=TIMES / (6 * weight) ** 2))
    assert np.abs(path(run) - exact()).max() < 1e-8


@pytest.mark.slow
def test_sgd_has_weak_order_one():
    """At half the learning rate half the error, by far more than its standard error."""
    params = {"u": np.full(5, 1.0), "v": np.full(5, 0.8)}
    sgd = gb.Setup(PROBLEM, NET, params, gb.Descent(0.01, ONE))
    found = gb.weak_error(sgd, [0.01, 0.005], 0.25, "path", members=48, points=2, progress=False)
    assert (found.standard_error < 0.1 * found.error).all()
    assert abs(found.order - 1) < 0.15 + 2 * found.order_error
    assert abs(found.path_order - 1) < 0.2 + 2 * found.path_order_error
    assert (found.path_error >= found.error).all()  # the mean of norms is above that of the mean
    assert found.steps.tolist() == [2500, 10000]
    assert found.difference.shape == (2, 5)
    assert f"order {found.order:.2f}" in str(found)


class AnyLaw(ParameterNoise):
    def draw(self, key, params):
        return params

    def factor(self, problem, net, params):
        return jnp.eye(10)


def test_what_has_no_limit_is_refused():
    samples = gb.Samples(lambda out, y: jnp.logaddexp(0.0, -y * out), PROBLEM.X, np.ones(3))
    cases = [
        (lambda: gb.Limit(None), "noise must be a law"),
        (lambda: gb.Limit(gb.Replay(np.zeros((4, 1), int))), "noise must be a law"),
        (lambda: gb.Limit(AnyLaw()), "dt must be given"),
        (lambda: gb.Limit(ONE, 0.0), "dt must be greater than 0"),
        (lambda: gb.Limit(ONE, rtol=1.0), "rtol must be less"),
        (lambda: gb.Limit(ONE, rank=-1), "rank must be"),
        (lambda: setup(gb.Limit(ONE), samples), "squared loss only"),
        (lambda: setup(gb.Limit(gb.Minibatch(1)), samples), "dt must be given on Samples"),
        (lambda: setup(gb.Limit(gb.LabelNoise(1.0, 4))), "batch_size must be"),
        (lambda: setup(gb.Limit(ONE)).replace(until=gb.Until(steps=3)), "has a time, not steps"),
        (lambda: setup(gb.Limit(ONE)).replace(until=gb.Until(gap=1e-9)), "until must name a time"),
    ]
    for make, message in cases:
        with pytest.raises(ValueError, match=message):
            make()
    net, drawn = gb.MLP([2, 3, 1]), gb.Population(np.eye(2), np.ones((1, 2)), np.eye(1))
    with pytest.raises(ValueError, match="known for linear nets only"):
        gb.Setup(drawn, net, gb.init.gaussian(net, 1.0), gb.Limit(gb.Minibatch(2)),
                 gb.Until(time=1))  # fmt: skip


def test_a_gap_never_ends_it_at_its_start():
    """The loss is at its minimum all along; that a run has arrived would be said at t = 0."""
    with pytest.raises(ValueError, match="until must name a time and no gap.*in Limit the loss"):
        setup(gb.Limit(ONE)).replace(until=gb.Until(gap=1e-9, time=2))
