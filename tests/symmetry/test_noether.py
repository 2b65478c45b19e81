"""The mean motion of charges: against all outcomes of a draw, and against ensembles."""

import itertools
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import gradbias as gb
from gradbias import symmetry
from symmetry.small_nets import NETS, N, data, gradient, outputs, point

LR = 0.05


def setup(net, params, dynamics, labels=None, problem=None):
    X, Y = data(outputs(net))
    Y = Y if labels is None else labels
    problem = gb.Regression.mean(X, Y) if problem is None else problem
    return SimpleNamespace(problem=problem, net=net, params=params, dynamics=dynamics)


def dynamics(lr, noise=None, weight_decay=0.0, momentum=0.0, **more):
    return SimpleNamespace(lr=lr, noise=noise, weight_decay=weight_decay, momentum=momentum, **more)


@pytest.mark.parametrize(
    "net, replace",
    [("two layers", True), ("two layers", False), ("rank one", False), ("relu", False)],
)
def test_the_mean_over_all_minibatches(net, replace):
    """Not an estimate: every batch of two, with its probability."""
    model, p = NETS[net](), point(NETS[net]())
    batches = itertools.product(range(N), repeat=2)
    batches = [np.array(b) for b in batches if replace or b[0] != b[1]]
    noise = gb.noise.Minibatch(2, replace=replace)
    flows = symmetry.noether_flow(setup(model, p, dynamics(LR, noise)))
    steps = [gradient(net)(p, rows) for rows in batches]
    for name, family in model.symmetries().items():
        exact = np.mean([LR**2 * family.form(g, g) for g in steps], axis=0)
        flow = flows[name]
        np.testing.assert_allclose(flow.per_step, exact, rtol=0, atol=1e-12 * np.abs(exact).max())
        np.testing.assert_allclose(flow.total, flow.noise + flow.gd + flow.decay)
        mean = gradient(net)(p, np.arange(N))
        np.testing.assert_allclose(flow.gd, LR * family.form(mean, mean), atol=1e-12)


def test_the_mean_over_all_label_noise():
    net, std = "diagonal", 0.7
    model, p = NETS[net](), point(NETS[net]())
    X, Y = data(1)
    noise = gb.noise.LabelNoise(std, batch_size=1)
    flow = symmetry.noether_flow(setup(model, p, dynamics(LR, noise)))["u-v"]
    squares = []
    for row, sign in itertools.product(range(N), (-1, 1)):
        theta = p["u"] ** 2 - p["v"] ** 2
        pull = 2 * (X[row] @ theta - Y[row, 0] - sign * std) * X[row]
        squares.append(2 * (2 * p["u"] * pull) * (-2 * p["v"] * pull))
    np.testing.assert_allclose(flow.per_step, LR**2 * np.mean(squares, axis=0), rtol=1e-12)


@pytest.mark.slow
def test_draws_of_the_law_itself():
    """Fresh samples of a Population, and noise on parameters: z-scores of one-step means."""
    net = NETS["two layers"]()
    p = point(net)
    population = gb.Population(np.diag([1, 2, 0.5, 1.0]), np.ones((2, 4)), np.eye(2))
    family = net.symmetries()["W1-W2"]
    for noise in (gb.noise.Minibatch(3), gb.noise.Isotropic(0.8)):
        flow = symmetry.noether_flow(setup(net, p, dynamics(LR, noise), problem=population))

        def increment(step, q, noise=noise):
            batch = noise.batch(population, 0, step)
            theta, pull = jax.vjp(net.predictor, q)
            g = pull(population.theta_gradient(theta, batch))[0]
            kick = noise.added(0, step, q)
            g = g if kick is None else jax.tree.map(lambda a, b: a + b, g, kick)
            moved = jax.tree.map(lambda a, b: a - LR * b, q, g)
            return family.charge(moved) - family.charge(q)

        with jax.enable_x64(True):
            drawn = np.asarray(jax.jit(jax.vmap(increment, (0, None)))(np.arange(40000), p))
        error = drawn.std(axis=0) / np.sqrt(len(drawn))
        z = (drawn.mean(axis=0) - flow["W1-W2"].per_step) / error
        assert np.abs(z).max() < 4.5


def test_weight_decay_and_what_is_left_out():
    net = NETS["two layers"]()
    p = point(net)
    plain = symmetry.noether_flow(setup(net, p, dynamics(LR, weight_decay=0.3)))["W1-W2"]
    np.testing.assert_allclose(plain.decay, -4 * 0.3 * plain.charge)
    np.testing.assert_array_equal(plain.noise, 0)
    g = gradient("two layers")(p, np.arange(N))
    exact = symmetry.step(plain.charge, net.symmetries()["W1-W2"].form(g, g), LR, 0.3)
    rest = 4 * (LR * 0.3) ** 2 * plain.charge
    np.testing.assert_allclose(plain.charge + plain.per_step + rest, exact, atol=1e-13)
    for options in ({"include_gd": False}, {}):
        sde = dynamics(LR, axis="time")
        chosen = setup(net, p, sde if not options else dynamics(LR))
        np.testing.assert_array_equal(symmetry.noether_flow(chosen, **options)["W1-W2"].gd, 0)
    still = symmetry.noether_flow(setup(net, p, gb.Flow()))["W1-W2"]
    np.testing.assert_array_equal(still.total, 0)


def test_real_setups_and_schedules():
    net = NETS["two layers"]()
    X, Y = data()
    rate = gb.dynamics.piecewise({0: 0.01, 5: 0.02})
    run = gb.Setup(gb.Regression.mean(X, Y), net, point(net), gb.Descent(rate))
    early, late = (symmetry.noether_flow(run, step=k)["W1-W2"] for k in (4, 5))
    assert (early.lr, late.lr) == (0.01, 0.02)
    np.testing.assert_allclose(2 * early.gd, late.gd)
    for own in (lambda k: 0.3 if k < 5 else 0.1, lambda k: 0.1, lambda k: 0.02 * k):
        now = symmetry.noether_flow(run.replace(dynamics=gb.Descent(lambda k: 1.0 + 0 * k)))
        assert now["W1-W2"].lr == 1.0
        assert symmetry.noether_flow(setup(net, point(net), dynamics(own)), step=5)


def two_weights(momentum, lr, steps, members, noisy):
    """(uw − y)² with labels 1 ± 1 from the minimum uw = 1, or GD towards it; u² − w² at the end."""
    rng = np.random.default_rng(0)
    u, w = np.full(members, 2.0), np.full(members, 0.5 if noisy else 0.1)
    vu, vw = np.zeros(members), np.zeros(members)
    charges = []
    for _ in range(steps):
        label = 1.0 + rng.choice([-1, 1], members) if noisy else 1.0
        slope = 2 * (u * w - label)
        vu, vw = momentum * vu + slope * w, momentum * vw + slope * u
        u, w = u - lr * vu, w - lr * vw
        charges.append(u**2 - w**2)
    return np.array(charges), u, w


def pair_setup(lr, momentum, noise, u, w, labels):
    problem = gb.Regression.mean(np.ones((2, 1)), np.array(labels))
    params = {"W1": np.array([[u]]), "W2": np.array([[w]])}
    return SimpleNamespace(
        problem=problem,
        net=gb.Deep([1, 1, 1]),
        params=params,
        dynamics=dynamics(lr, noise, momentum=momentum),
    )


def test_momentum_multiplies_noise_by_its_effective_learning_rate():
    beta, lr, wait, steps = 0.8, 2e-4, 60, 300
    charges, _, _ = two_weights(beta, lr, steps, 4000, noisy=True)
    drift = (charges[-1] - charges[wait]) / (steps - 1 - wait)
    told = pair_setup(lr, beta, gb.noise.Minibatch(1), 2.0, 0.5, [0.0, 2.0])
    told = symmetry.noether_flow(told)["W1-W2"].per_step[0, 0]
    z = (drift.mean() - told) / (drift.std() / np.sqrt(len(drift)))
    assert abs(z) < 4
    assert abs(told) > 30 * drift.std() / np.sqrt(len(drift))  # a factor 1 − β would be seen


def test_momentum_multiplies_the_gd_term_by_more():
    """(1 + β)/(1 − β)³: kicks in one direction add up before they square."""
    beta, lr = 0.8, 1e-6
    charges, u, w = two_weights(beta, lr, 200, 1, noisy=False)
    told = pair_setup(lr, beta, None, u[0], w[0], [1.0, 1.0])
    flow = symmetry.noether_flow(told)["W1-W2"]
    np.testing.assert_allclose(charges[-1] - charges[-2], flow.per_step[0], rtol=2e-3)
    np.testing.assert_allclose(
        flow.gd[0], (1 + beta) / (1 - beta) ** 3 * 4 * lr * (u * w - 1) ** 2 * (w**2 - u**2)
    )


def test_a_symmetry_that_does_not_hold_is_refused():
    net = NETS["two layers"]()
    chosen = setup(net, point(net), dynamics(LR))
    with pytest.raises(ValueError, match="'all'.*does not hold.*cosine"):
        symmetry.noether_flow(chosen, symmetries={"all": symmetry.scaling(["W1", "W2"])})
    with pytest.raises(ValueError, match="acts on 'W7'"):
        symmetry.noether_flow(chosen, symmetries={"a": symmetry.scaling("W7")})
    with pytest.raises(ValueError, match="step must be a whole number"):
        symmetry.noether_flow(chosen, step=-1)
    own = {"one": symmetry.pair("W1", "W2", np.eye(5))}
    one = symmetry.noether_flow(chosen, symmetries=own)["one"]
    every = symmetry.noether_flow(chosen)["W1-W2"]
    np.testing.assert_allclose(one.gd, np.trace(every.gd), rtol=1e-12)
