"""A loss without a minimum is told by a proof; where there is none, what was seen is told."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import gradbias as gb
from gradbias.limit._escape import has_no_minimum
from gradbias.limit._fit_manifold import ground
from gradbias.limit._landing import land
from gradbias.limit._reasons import NO_MINIMUM, OUTWARDS, REASONS

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 5))
SIDES = np.sign(X @ RNG.standard_normal(5))[:, None]
MIXED = SIDES * np.where(np.arange(20) % 3 == 0, -1.0, 1.0)[:, None]  # no line separates these
CLASSES = np.eye(3)[RNG.integers(0, 3, 6)]


def logistic(output, y):
    return jnp.sum(jax.nn.softplus(-output * y))


def exponential(output, y):
    return jnp.sum(jnp.exp(-output * y))


def cross_entropy(output, y):
    return -jnp.sum(y * jax.nn.log_softmax(output))


def hinge(output, y):
    return jnp.sum(jnp.maximum(1 - output * y, 0.0))


def squared_hinge(output, y):
    return hinge(output, y) ** 2


def squares(output, y):
    return 0.5 * jnp.sum((output - y) ** 2)


def gaussian_nll(output, y):
    """Of a mean and the logarithm of a variance, which is not bounded below."""
    return 0.5 * (output[1] + (output[0] - y[0]) ** 2 * jnp.exp(-output[1]))


def kinked(params, X):
    return jnp.maximum(X @ params["A"] + params["a"][None, :], 0.0) @ params["B"]


def bounded(params, X):
    return jnp.tanh(X @ params["A"])


LINE = gb.Deep([5, 1])
TANH = gb.MLP([5, 20, 3], "tanh")
OWN = gb.nets.general(kinked, {"A": (5, 8), "a": (8,), "B": (8, 1)})
BOUNDED = gb.nets.general(bounded, {"A": (5, 1)})
SMOOTH = 0.9 * CLASSES + 0.1 / 3

NONE = {
    "logistic regression": (logistic, SIDES, LINE),
    "exponential loss": (exponential, SIDES, gb.TwoLayer(5, 1, 4)),
    "cross-entropy": (cross_entropy, CLASSES, TANH),
    "relu": (logistic, SIDES, gb.MLP([5, 8, 1], "relu")),
    "own relu": (logistic, SIDES, OWN),
    "below its minimum": (lambda f, y: 2.0 + logistic(f, y), SIDES, LINE, 2.0),
}
SOME = {
    "not separable": (logistic, MIXED, LINE),
    "hinge": (hinge, SIDES, LINE),
    "squared hinge": (squared_hinge, SIDES, LINE),
    "squares": (squares, SIDES, LINE),
    "regression of a tanh net": (squares, CLASSES, TANH),
    "smooth labels": (cross_entropy, SMOOTH, TANH),
    "soft labels": (cross_entropy, RNG.dirichlet(np.full(3, 5.0), 6), TANH),
    "not bounded below": (gaussian_nll, np.hstack([SIDES, SIDES]), gb.Deep([5, 2])),
    "outputs that do not scale": (logistic, SIDES, BOUNDED),
    "a minimum that is not reached": (logistic, SIDES, LINE, -1.0),
}


def case(loss, Y, net, minimum=None):
    problem = gb.Samples(loss, X[: len(Y)], Y, minimum)
    params = gb.init.gaussian(net, 0.5, key=0)
    flat = jnp.concatenate([jnp.ravel(params[name]) for name in sorted(params)])
    return ground(problem, net).target(problem, net, params), flat


# Each compiles; others of the quick set take the same ways.
DEAR = {"exponential loss", "relu", "regression of a tanh net", "below its minimum"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in DEAR else n for n in (*NONE, *SOME)],
)
def test_a_loss_without_a_minimum_is_proved_and_no_other_is(name):
    with gb.float64():
        found = eqx.filter_jit(has_no_minimum)(*case(*(NONE | SOME)[name]))
    assert bool(found) == (name in NONE)


def test_by_linear_programming():
    """Logistic regression on random labels: of a line that separates them, HiGHS knows."""
    found, there = [], []
    for seed in range(40):
        y = np.sign(np.random.default_rng(seed).standard_normal((10, 1)))
        with gb.float64():
            found.append(bool(eqx.filter_jit(has_no_minimum)(*case(logistic, y, LINE))))
        there.append(separable(X[:10], y))
    assert found == there
    assert 10 < sum(there) < 30
    assert separable(X, SIDES) and not separable(X, MIXED)


def separable(inputs, y):
    """Is there a w with y_i·(x_i·w) ≥ 1 for every sample?"""
    ones = np.ones(len(y))
    free = scipy.optimize.linprog(np.zeros(5), -(y * inputs), -ones, bounds=(None, None))
    return free.status == 0


def test_where_nothing_is_proved_what_was_seen_is_told():
    """Outputs that only tend to their labels: the flow goes outwards, for all that is known."""
    with gb.float64():
        target, flat = case(squares, SIDES, BOUNDED)
        landed = eqx.filter_jit(land)(target, flat)
    assert int(landed.code) == OUTWARDS
    assert "was not proved" in REASONS[OUTWARDS]
    assert "no minimum" not in REASONS[OUTWARDS].replace("came near no minimum", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic regression", "cross-entropy", "own relu"])
def test_a_run_says_so(name):
    loss, Y, net = NONE[name]
    params = gb.init.gaussian(net, 0.5, key=0)
    limit = gb.Limit(gb.Isotropic(0.1), 0.01)
    problem = gb.Samples(loss, X[: len(Y)], Y)
    status = gb.simulate(gb.Setup(problem, net, params, limit, gb.Until(time=0.05))).status
    assert status == "integrator failed"
    assert status.sentence == REASONS[NO_MINIMUM]
