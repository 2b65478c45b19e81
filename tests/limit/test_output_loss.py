"""Losses other than squares: the Hessian as JᵀBJ, against the dense one and against squares."""

import resource

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import gradbias as gb
from gradbias._manifold.target import target_at
from gradbias.limit._drifts import tangent_drift
from gradbias.limit._fit_manifold import AnyLoss, refuse_wide
from gradbias.limit._landing import land
from gradbias.limit._output_loss import OutputLoss
from gradbias.limit._rank import directions, space_of
from gradbias.limit._reasons import NO_MINIMUM, NOT_FITTED
from gradbias.theory.manifold import Factor


def cross_entropy(outputs, y):
    return -jnp.sum(y * jax.nn.log_softmax(outputs))


def on_a_hyperbola(outputs, y):
    """Minimal on a curve of outputs: B is singular, and its kernel turns along the manifold."""
    return 0.5 * (outputs[0] * outputs[1] - y[0]) ** 2 * (1.0 + outputs[1] ** 2)


def small(loss, n=4, k=3, width=4):
    """A tanh net without noise, its samples and a start: 2-width-k."""
    rng = np.random.default_rng(1)
    problem = gb.Samples(loss, rng.standard_normal((n, 2)), rng.dirichlet(np.full(k, 5.0), n))
    net = gb.MLP([2, width, k], "tanh")
    return problem, net, gb.init.gaussian(net, 1.0, key=3)


@eqx.filter_jit
def _landed(target, flat, rank):
    return land(target, flat, rank)


@eqx.filter_jit
def _directions(target, flat):
    return directions(space_of(target, flat))


@eqx.filter_jit
def _there(target, flat, rank, sigma):
    space = space_of(target, flat, rank)
    return space.tangent(sigma.T), tangent_drift(target, flat, space, Factor(sigma))


CASES = [(cross_entropy, 8), pytest.param(on_a_hyperbola, 4, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("loss", "rank"), CASES)  # n(k − 1), and one for every sample
def test_normal_space_and_drift_are_those_of_the_dense_hessian(loss, rank):
    """Noise along, across and correlated; the gradient of one number against nested derivatives."""
    problem, net, params = small(loss)
    with gb.float64():
        outputs = net(params, jnp.asarray(problem.X))
        # Labels that the start fits: it is a point of the manifold.
        fitted = jax.nn.softmax(outputs) if loss is cross_entropy else outputs * outputs[:, 1:2]
        problem = gb.Samples(loss, problem.X, np.asarray(fitted))
        fast, flat = target_at(params, OutputLoss(problem, net), None)
        dense, _ = target_at(params, AnyLoss(problem, net), None)
        flat = jnp.asarray(flat)
        assert int(_directions(fast, flat)) == rank
        sigma = jnp.asarray(np.random.default_rng(0).standard_normal((flat.size, 3)))
        kick, drift = _there(fast, flat, rank, sigma)
        same, by_hand = _there(dense, flat, rank, sigma)
    np.testing.assert_allclose(kick, same, atol=1e-7)
    np.testing.assert_allclose(drift, by_hand, atol=1e-6 * np.abs(by_hand).max())
    assert np.abs(by_hand).max() > 1e-3


def test_reasons_of_cross_entropy():
    """Separable data have no minimum; without hidden units the labels are not fitted."""
    soft, net, params = small(cross_entropy)
    hard = gb.Samples(cross_entropy, soft.X, np.eye(3)[[0, 1, 2, 0]])
    nothing = {name: np.zeros_like(value) for name, value in params.items()}
    for problem, start, reason in [(hard, params, NO_MINIMUM), (soft, nothing, NOT_FITTED)]:
        with gb.float64():
            target, flat = target_at(start, OutputLoss(problem, net), None)
            landed = _landed(target, jnp.asarray(flat), None)
        assert int(landed.code) == reason
        assert np.isfinite(landed.point).all()


def test_sizes_that_are_refused_before_anything_is_made():
    net = gb.MLP([10, 300, 3], "tanh")
    problem = gb.Samples(cross_entropy, np.ones((4, 10)), np.full((4, 3), 1 / 3))
    dense = gb.Limit(gb.Isotropic(0.1), 0.01, dense=True)
    setup = gb.Setup(problem, net, gb.init.gaussian(net, 1.0, key=0), dense, gb.Until(time=1))
    with pytest.raises(ValueError, match="whole Hessian, for up to 2000 parameters, got 4203"):
        gb.simulate(setup)
    with pytest.raises(ValueError, match="Jacobian of all outputs, 20000 × 100000 numbers"):
        refuse_wide(20_000, 100_000)
    with pytest.raises(ValueError, match="dense must be False under squared loss"):
        setup.replace(problem=gb.Regression.half_mean(problem.X, problem.Y))


@pytest.mark.slow
@pytest.mark.parametrize("width", [100, 7142])
def test_cross_entropy_of_many_parameters(width):
    """1403 and 99 991 parameters: a dense Hessian of the latter would take 80 GB."""
    rng = np.random.default_rng(0)
    problem = gb.Samples(
        cross_entropy, rng.standard_normal((16, 10)), rng.dirichlet(np.full(3, 5.0), 16)
    )
    net = gb.MLP([10, width, 3], "tanh")
    drawn = gb.init.gaussian(net, 1.0, key=0)
    params = {name: value / len(value) ** 0.5 for name, value in drawn.items()}
    limit = gb.Limit(gb.Isotropic(0.1), 0.01)
    run = gb.simulate(gb.Setup(problem, net, params, limit, gb.Until(time=0.05)))
    assert run.status == "reached time"
    entropy = -np.mean(np.sum(problem.Y * np.log(problem.Y), axis=1))  # the least loss there is
    assert np.abs(run.data["loss"] - entropy).max() < 1e-12
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**21  # in kB


@pytest.mark.slow
def test_squares_as_a_loss_of_samples_move_as_a_regression():
    """½‖f − y‖² given as a function takes the way of any loss, and gives the same path."""
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((4, 6)), rng.standard_normal((4, 2))
    net = gb.MLP([6, 23, 2], "tanh")
    params = gb.init.gaussian(net, 0.5, key=0)
    ends = []
    for problem in (
        gb.Regression.half_mean(X, Y),
        gb.Samples(lambda f, y: 0.5 * jnp.sum((f - y) ** 2), X, Y),
    ):
        setup = gb.Setup(
            problem, net, params, gb.Limit(gb.Isotropic(0.3), 0.01), gb.Until(time=0.05)
        )
        run = gb.simulate(setup)
        assert run.status == "reached time"
        ends.append(ravel_pytree(run.final)[0])
    moved = np.linalg.norm(ends[0] - ravel_pytree(params)[0])
    assert np.linalg.norm(ends[0] - ends[1]) < 1e-8 * moved
