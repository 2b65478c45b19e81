"""The SDE of SGD: its orders, foreign oracles, the closure, and what it does and does not conserve.

Coarse steps get the summed increments of a fine Brownian path, so that errors are differences
between members of the same randomness.
"""

import itertools

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import gradbias as gb
from cases import case, data
from ensemble import along, coarser, ends
from gradbias.dynamics import gradient
from gradbias.numerics import counter_rng

LAWS = {
    "minibatch": lambda: gb.Minibatch(2),
    "minibatch with replacement": lambda: gb.Minibatch(2, replace=True),
    "labels": lambda: gb.LabelNoise(0.4),
    "labels of a minibatch": lambda: gb.LabelNoise(0.4, 2),
}
# law, weight decay
DRIVEN = [
    ("minibatch", 0.0),
    ("minibatch with replacement", 0.05),
    ("labels", 0.0),
    ("labels of a minibatch", 0.05),
]


def diffusion(law, decay=0.0, lr=0.02, dt=0.01):
    return gb.Diffusion(lr, LAWS[law]() if isinstance(law, str) else law, dt, weight_decay=decay)


def assert_reduced_is_full(setup, tolerance=1e-10):
    small, full = gb.simulate(setup), gb.simulate(setup, reduce=False)
    assert small.stats["reduction"] != "none", small.stats["reason"]
    assert full.stats["reduction"] == "none"
    for name, value in full.final.items():
        scale = max(np.abs(value).max(initial=0.0), 1.0)
        assert np.abs(small.final[name] - value).max(initial=0.0) <= tolerance * scale, name
    np.testing.assert_allclose(small.data["loss"], full.data["loss"], rtol=0, atol=tolerance)
    assert np.abs(full.data["loss"][-1] - full.data["loss"][0]) > 1e-3  # it did move
    return full


@pytest.mark.one_in(7)
@pytest.mark.parametrize(("law", "decay"), DRIVEN)
@pytest.mark.parametrize("name", ["two layers", "deep", "rank one"])
def test_reduced_is_full_with_the_same_draws(name, law, decay):
    setup = gb.Setup(
        *case(name), diffusion(law, decay), gb.Until(time=3.0),
        record=[gb.observe.loss], save_at=[0.0, 1.0, 3.0], key=3,
    )  # fmt: skip
    full = assert_reduced_is_full(setup)
    other = gb.simulate(setup.replace(key=4))
    assert np.linalg.norm(full.theta - other.theta) > 1e-2  # the noise is no small correction


@pytest.mark.parametrize("rank", [5, 3])
def test_reduced_is_full_on_fresh_samples(rank):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, rank))
    problem = gb.Population(root @ root.T, rng.normal(size=(3, 5)), 0.1 * np.eye(3))
    net = gb.TwoLayer(5, 3, 20)
    setup = gb.Setup(
        problem, net, gb.init.gaussian(net, 0.2), diffusion(gb.Minibatch(4), 0.02, 0.02, 0.002),
        gb.Until(time=0.5), record=[gb.observe.loss], save_at=[0.0, 0.5],
    )  # fmt: skip
    assert_reduced_is_full(setup)


# Two inputs, one hidden unit, three samples that no predictor fits: small enough for thousands.
X = np.array([[0.1, -0.1], [0.7, 0.1], [-0.5, 0.6]])
SMALL = gb.Regression.half_mean(X, np.array([0.5, 0.7, -0.9]))
NET = gb.Rank1(2, 2, 1)
START = {"v1": np.array([0.6, -0.4]), "u": np.array([[1.1]]), "v": np.array([[0.8]])}
TIME, LR = 1.0, 0.5


def flat(params):
    return ravel_pytree(params)[0]


def measured(params):
    delta = NET.symmetries()["v1-u[0]"].charge(params)
    return {"loss": SMALL.loss(NET.predictor(params)), "charge": delta, "v1": params["v1"][0]}


def numbers(law, members, steps, key=0):
    with gb.float64():
        size = law.kick_size(SMALL, NET, START)
    return np.random.default_rng(key).normal(size=(members, steps, *size))


def levels(law, members, finest, coarsest, measure):
    """The same paths in steps of TIME/finest, twice that, …, TIME/coarsest."""
    table, found = numbers(law, members, finest), []
    while table.shape[1] >= coarsest:
        steps = table.shape[1]
        # Padded to one shape, so that one program serves all levels.
        padded = np.zeros((members, finest, *table.shape[2:]))
        padded[:, :steps] = table
        found.append(along(SMALL, NET, START, gb.Diffusion(LR, law, TIME / steps), padded, measure,
                           steps))  # fmt: skip
        table = coarser(table)
    return found


@pytest.mark.one_in(5)
# Neighbouring levels differ by their error at order p: no exact solution is needed.
@pytest.mark.parametrize(
    ("law", "order"),
    [(gb.Minibatch(1), 0.5), (gb.LabelNoise(0.7), 0.5), (gb.Isotropic(0.7), 1.0)],
    ids=["minibatch", "labels", "isotropic"],
)
def test_strong_order(law, order):
    """1/2 where σ depends on the parameters; 1 for noise that is the same everywhere."""
    found = levels(law, 2000, 1024, 32, flat)
    errors = [
        np.sqrt(np.mean(np.sum((coarse - fine) ** 2, axis=1)))
        for fine, coarse in itertools.pairwise(found)
    ]
    slope = np.polyfit(np.arange(len(errors)), np.log2(errors), 1)[0]
    assert abs(slope - order) < 0.06, (slope, errors)


@pytest.mark.parametrize("quantity", ["loss", "charge", "v1"])
def test_weak_order_is_one(quantity):
    """Of means: twice the steps, half the error; 20 000 paths resolve it to a few percent."""
    found = _weak_levels()
    means, errors = [], []
    for fine, coarse in itertools.pairwise(found):
        difference = coarse[quantity] - fine[quantity]
        means.append(difference.mean())
        errors.append(difference.std() / np.sqrt(len(difference)))
    z = np.abs(means) / np.array(errors)
    assert z.min() > 15, z  # resolved
    slopes = np.diff(np.log2(np.abs(means)))
    uncertain = np.hypot(1 / z[1:], 1 / z[:-1]) / np.log(2)
    assert np.all(np.abs(slopes - 1) <= 0.1 + 3 * uncertain), (slopes, uncertain)
    # Strong order 1/2 would show as this slope.
    assert np.all(slopes - 0.5 > 4 * uncertain)


_cache = {}


def _weak_levels():
    if not _cache:
        _cache["levels"] = levels(gb.Minibatch(1), 20_000, 64, 8, measured)
    return _cache["levels"]


class BrownianTable(diffrax.AbstractPath):
    """Brownian motion known on a grid."""

    values: jax.Array
    dt: float
    t0: float = 0.0
    t1: float = 1.0

    def evaluate(self, t0, t1=None, left=True, use_jump=True):
        first, last = (jnp.round(t / self.dt).astype(int) for t in (t0, t1))
        return self.values[last] - self.values[first]


def sigma_by_hand(law, params):
    """σ from per-sample gradients and the textbook moments of the law."""
    n, weight = SMALL.n, float(SMALL.weight)
    outputs, residual = jax.vjp(lambda p: SMALL.X @ NET.predictor(p), params)
    rows = jnp.stack([flat(residual(unit)[0]) for unit in jnp.eye(n)])  # of outputs
    blocks = []
    if not (isinstance(law, gb.LabelNoise) and law.batch_size is None):
        b = law.batch_size
        count = n / b if law.replace else n / b * (n - b) / (n - 1)
        per_sample = 2 * weight * (outputs - SMALL.Y)[:, None] * rows
        blocks.append(np.sqrt(count) * per_sample.T @ (np.eye(n) - 1 / n))
    if isinstance(law, gb.LabelNoise):
        b = n if law.batch_size is None else law.batch_size
        blocks.append(-2 * weight * float(law.std) * np.sqrt(n / b) * rows.T)
    return jnp.concatenate(blocks, axis=1)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(
    "law",
    [gb.Minibatch(2), gb.Minibatch(2, replace=True), gb.LabelNoise(0.7), gb.LabelNoise(0.7, 2)],
    ids=["minibatch", "with replacement", "labels", "labels of a minibatch"],
)
def test_diffrax_on_the_same_path(law, decay):
    steps, dt = 64, TIME / 64
    table = numbers(law, 1, steps)
    ours = along(SMALL, NET, START, gb.Diffusion(LR, law, dt, decay), table, flat)[0]
    with gb.float64():
        start, shaped = ravel_pytree(jax.tree.map(jnp.asarray, START))
        # Sample by sample is the order of our numbers (n, columns); columns come first in σ.
        increments = np.sqrt(dt) * table[0].transpose(0, 2, 1).reshape(steps, -1)
        walk = np.concatenate([np.zeros((1, increments.shape[1])), np.cumsum(increments, axis=0)])

        def drift(t, y, args):
            return -flat(jax.grad(lambda p: SMALL.net_loss(NET, p))(shaped(y))) - 2 * decay * y

        def spread(t, y, args):
            return np.sqrt(LR) * sigma_by_hand(law, shaped(y))

        path = BrownianTable(jnp.asarray(walk), dt)
        terms = diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(spread, path))
        theirs = diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, TIME, dt, start).ys[-1]
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    assert np.linalg.norm(ours - flat(START)) > 0.1


def test_moments_of_a_linear_sde_have_a_closed_form():
    """One layer under minibatch noise: multiplicative, yet both moments follow a recursion.

    With e = θ − θ*, a step is linear in (e, 1) and so are the first two moments.
    """
    net, law, dt, steps = gb.Deep([2, 1]), gb.Minibatch(1), 0.05, 40
    start = {"W1": np.array([[1.0], [-1.0]])}
    n, Y = SMALL.n, SMALL.Y
    found = ends(SMALL, net, start, gb.Diffusion(LR, law, dt), steps, 20_000, flat)
    # Homogeneous coordinates q = (θ, 1): residuals are R q, steps are q ← (F + Σ_i z_i N_i) q.
    R = np.column_stack([X, -Y])
    pull = np.vstack([X.T, np.zeros(n)])  # a gradient changes θ, not the 1
    F = np.eye(3) - dt * pull @ R / n
    centred = np.sqrt(n) * (np.eye(n) - 1 / n)
    N = [np.sqrt(LR * dt) * pull @ (centred[:, [i]] * R) / n for i in range(n)]
    second = np.outer([1.0, -1.0, 1.0], [1.0, -1.0, 1.0])
    for _ in range(steps):
        second = F @ second @ F.T + sum(M @ second @ M.T for M in N)
    mean, cov = second[:2, 2], second[:2, :2] - np.outer(second[:2, 2], second[:2, 2])
    z = (found.mean(axis=0) - mean) / np.sqrt(np.diagonal(cov) / len(found))
    assert np.abs(z).max() < 4, z
    centred = found - mean
    products = centred[:, :, None] * centred[:, None, :]
    z = (products.mean(axis=0) - cov) / (products.std(axis=0) / np.sqrt(len(found)))
    assert np.abs(z).max() < 4, z


def test_one_step_has_the_covariance_of_the_law():
    """All parameters by one Brownian motion: Σ is full, not only its diagonal."""
    law, dt, members = gb.LabelNoise(0.7, 2), 0.1, 40_000
    found = ends(SMALL, NET, START, gb.Diffusion(LR, law, dt), 1, members, flat, key=5)
    with gb.float64():
        mean = flat(START) - dt * flat(gradient(SMALL, NET, START))
        centred = (found - np.asarray(mean)) / np.sqrt(LR * dt)
    wanted = law.covariance(SMALL, NET, START)
    products = centred[:, :, None] * centred[:, None, :]
    z = (products.mean(axis=0) - wanted) / (products.std(axis=0) / np.sqrt(members))
    assert np.abs(z).max() < 4.5, z
    off = wanted - np.diag(np.diagonal(wanted))
    assert np.abs(off).max() > 0.1 * np.diagonal(wanted).max()  # there is something to see
    assert np.abs(centred.mean(axis=0) / centred.std(axis=0)).max() * np.sqrt(members) < 4.5


@pytest.mark.parametrize("law", ["minibatch", "labels of a minibatch"])
def test_data_noise_stays_in_the_row_space(law):
    assert _left_the_row_space(LAWS[law]()) <= 1e-12


def test_isotropic_noise_leaves_the_row_space():
    """The control: what no data noise does to the first layer, noise on parameters does."""
    assert _left_the_row_space(gb.Isotropic(0.3)) > 0.1


def _left_the_row_space(law):
    problem, net, params = case("two layers")
    setup = gb.Setup(problem, net, params, diffusion(law), gb.Until(time=3.0), [gb.observe.loss])
    run = gb.simulate(setup, reduce=False)
    moved, basis = run.final["W1"] - params["W1"], problem.row_space
    assert np.linalg.norm(moved) > 0.1
    return np.linalg.norm(moved - basis @ (basis.T @ moved)) / np.linalg.norm(moved)


def test_isotropic_noise_is_not_reduced():
    setup = gb.Setup(*case("two layers"), diffusion(gb.Isotropic(0.3)), gb.Until(time=0.1))
    assert gb.simulate(setup).stats["reduction"] == "none"


def test_without_noise_it_is_gradient_descent_with_step_dt():
    problem, net, params = case("deep")
    silent = diffusion(gb.LabelNoise(0.0), 0.05)
    sde = gb.Setup(problem, net, params, silent, gb.Until(time=1.0))
    gd = gb.Setup(problem, net, params, gb.Descent(0.01, weight_decay=0.05), gb.Until(steps=100))
    np.testing.assert_allclose(gb.simulate(sde).theta, gb.simulate(gd).theta, rtol=0, atol=1e-13)


def test_the_key_decides_and_the_saves_do_not():
    problem, net, params = case("rank one")
    setup = gb.Setup(problem, net, params, diffusion("labels"), gb.Until(time=2.0), key=1)
    run = gb.simulate(setup)
    again = gb.simulate(setup.replace(save_at=[0.02, 0.5, 2.0]))
    other = gb.simulate(setup.replace(key=2))
    np.testing.assert_array_equal(run.theta, again.theta)
    np.testing.assert_allclose(again.data["time"], [0.02, 0.5, 2.0], rtol=1e-12)
    assert np.linalg.norm(run.theta - other.theta) > 1e-2


def test_an_ensemble_member_is_a_simulation():
    """What the statistics are made of is what users run."""
    setup = gb.Setup(SMALL, NET, START, gb.Diffusion(LR, gb.Minibatch(1), 0.05),
                     gb.Until(time=1.0), key=0)  # fmt: skip
    alone = gb.simulate(setup, reduce=False)
    with gb.float64():
        size = gb.Minibatch(1).kick_size(SMALL, NET, START)
        table = np.stack([
            gb.noise.normal(counter_rng.stream(0, k, "Diffusion"), size) for k in range(20)
        ])[None]  # fmt: skip
    member = along(SMALL, NET, START, setup.dynamics, table, lambda p: p)
    for name, value in alone.final.items():
        np.testing.assert_allclose(member[name][0], value, rtol=0, atol=1e-13)


@pytest.mark.parametrize("reduce", [True, False])
def test_increments_sum_to_the_change_of_the_charge(reduce):
    """Every kick is at right angles to Aθ, so C changes by dt²·gᵀAg alone, as for SGD."""
    problem, net, params = case("two layers")
    pair = net.symmetries()["W1-W2"]
    entry = gb.symmetry.pair("W1", "W2", np.diag(np.arange(30.0)))

    def increment(problem, net, params, grads, lr):
        return lr**2 * entry.form(grads, grads)

    setup = gb.Setup(
        problem, net, params, diffusion("labels of a minibatch"), gb.Until(time=20.0),
        record={"sum": gb.observe.running(increment)}, save_at=[20.0],
    )  # fmt: skip
    run = gb.simulate(setup, reduce=reduce)
    change = entry.charge(run.final) - entry.charge(params)
    assert abs(change) > 0.1
    assert abs(float(run.data["sum"][-1]) - change) <= 1e-10 * np.abs(pair.charge(params)).max()


class Tilted(gb.noise.ParameterNoise):
    """An own law with a matrix that depends on the parameters."""

    def draw(self, key, params):
        first, shaped = ravel_pytree(params)
        return shaped(first * gb.noise.normal(key))

    def factor(self, problem, net, params):
        return flat(params)[:, None]


def test_an_own_law_on_parameters():
    """dp = −∇L dt + √lr·p dW along one path, against the same line in NumPy."""
    setup = gb.Setup(SMALL, NET, START, gb.Diffusion(LR, Tilted(), 0.05), gb.Until(time=1.0))
    run = gb.simulate(setup)
    wanted = {name: value.copy() for name, value in START.items()}
    for k in range(20):
        z = gb.noise.normal(counter_rng.stream(0, k, "Diffusion"), (1,))[0]
        with gb.float64():
            grads = gradient(SMALL, NET, wanted)
        for name, value in wanted.items():
            move = -0.05 * np.asarray(grads[name]) + np.sqrt(LR * 0.05) * value * z
            wanted[name] = value + move
    for name, value in wanted.items():
        np.testing.assert_allclose(run.final[name], value, rtol=0, atol=1e-12)


def test_one_sample_has_no_minibatch_noise():
    problem = gb.Regression.half_mean(X[:1], [0.5])
    runs = [
        gb.simulate(gb.Setup(problem, NET, START, dynamics, gb.Until(time=1.0)))
        for dynamics in (gb.Diffusion(LR, gb.Minibatch(1), 0.05), gb.Descent(0.05))
    ]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=0, atol=1e-14)


def test_divergence_is_an_answer():
    setup = gb.Setup(SMALL, NET, START, gb.Diffusion(9.0, gb.Minibatch(1), 9.0), gb.Until(time=9e3))
    run = gb.simulate(setup)
    assert str(run.status).startswith("diverged at time")
    assert all(np.isfinite(value).all() for value in run.final.values())


def test_one_program_for_all_numbers():
    """lr, dt, decay and key are leaves: other values compile nothing."""
    for lr, dt, decay, key in [(0.01, 0.01, 0.1, 0), (0.02, 0.02, 0.3, 5)]:
        dynamics = gb.Diffusion(lr, gb.LabelNoise(0.4), dt, decay)
        setup = gb.Setup(*case("rank one"), dynamics, gb.Until(time=20 * dt), key=key)
        run = gb.simulate(setup)
    assert run.stats["compilations"] == 0


def _mlp():
    problem, net = gb.Population(np.eye(3), np.ones((1, 3)), [[1.0]]), gb.MLP([3, 2, 1])
    return problem, net, gb.init.gaussian(net, 0.5), gb.Diffusion(0.1, gb.Minibatch(2), 0.1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gb.Diffusion(0.0, gb.Minibatch(1), 0.1), "lr.*greater than 0"),
        (lambda: gb.Diffusion(lambda k: 0.1, gb.Minibatch(1), 0.1), "lr must be a number"),
        (lambda: gb.Diffusion(0.1, gb.Minibatch(1), -0.1), "dt.*greater than 0"),
        (lambda: gb.Diffusion(0.1, gb.Minibatch(1), np.inf), "dt.*finite"),
        (lambda: gb.Diffusion(0.1, gb.Minibatch(1), 0.1, -1.0), "weight_decay.*at least 0"),
        (lambda: gb.Diffusion(0.1, None, 0.1), "noise.*law with a covariance"),
        (lambda: gb.Diffusion(0.1, gb.Replay([[0]]), 0.1), "noise.*law with a covariance"),
        (lambda: gb.Setup(*_mlp()), "exact expectations"),
        (
            lambda: gb.Setup(SMALL, NET, START, gb.Diffusion(0.1, gb.Minibatch(4), 0.1)),
            "batch_size must be at most the 3 samples",
        ),
        (
            lambda: gb.Setup(
                SMALL, NET, START, gb.Diffusion(0.1, gb.Minibatch(1), 0.1), gb.Until(steps=3)
            ),
            "has a time, not steps",
        ),
        (
            lambda: gb.Setup(
                SMALL, NET, START, gb.Diffusion(0.1, gb.Minibatch(1), 0.1), gb.Until(time=1.0),
                save_at=[0.25],
            ),
            "multiples of dt",
        ),
    ],
)  # fmt: skip
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_label_noise_needs_squared_loss():
    inputs, labels = data(k=1)
    problem = gb.Samples(lambda out, y: jnp.logaddexp(0.0, -y * out), inputs, labels[:, 0])
    net = gb.Diagonal(9)
    setup = gb.Setup(
        problem, net, gb.init.gaussian(net, 0.3), gb.Diffusion(0.1, gb.LabelNoise(0.1), 0.1),
        gb.Until(time=1.0),
    )  # fmt: skip
    with pytest.raises(ValueError, match="label noise.*squared loss only"):
        gb.simulate(setup)
