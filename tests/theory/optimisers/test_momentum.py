"""Angular momentum and charges under heavy ball, against runs."""

import itertools

import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import optimisers

SIZES = [6, 5, 4, 3]


def problem(seed=0, n=10, noise=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, SIZES[0]))
    Y = X @ rng.normal(size=(SIZES[0], SIZES[-1])) + noise * rng.normal(size=(n, SIZES[-1]))
    return gb.Regression.half_mean(X, Y)


def states(dynamics, steps, net=None, seed=0, record_at=None, key=0):
    """All parameters at some steps, by name."""
    net = gb.Deep(SIZES) if net is None else net
    params = gb.init.gaussian(net, 0.3, key=seed)
    at = np.arange(steps + 1) if record_at is None else record_at
    setup = gb.Setup(
        problem(seed), net, params, dynamics, gb.Until(steps=steps), [gb.observe.params],
        save_at=at, key=key,
    )  # fmt: skip
    run = gb.simulate(setup)
    return net, [{n: run.data[f"params_{n}"].values[i] for n in params} for i in range(len(at))]


def velocity(seed):
    rng = np.random.default_rng(seed)
    shapes = gb.Deep(SIZES).shapes()
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", range(3))
def test_discrete_noether_with_a_schedule(seed):
    """J_k = β^k η_k/η_0 J_0, for batches of two, with decay in the gradient."""
    rates = np.array([0.001, 0.003, 0.002])[np.arange(301) % 3]
    dynamics = gb.Descent(
        lambda k: rates[k], gb.Minibatch(2), 0.95, 0.01, velocity=velocity(seed)
    )  # fmt: skip
    at = [0, 1, 100, 101, 299, 300]
    net, path = states(dynamics, 300, seed=seed, record_at=at)
    J = [gb.observe.angular_momentum(net, *path[i : i + 2]) for i in (0, 2, 4)]
    factor = optimisers.discrete_noether([0, 100, 299], 0.95, rates)
    for seam, first in J[0].items():
        scale = max(1.0, np.abs(first).max())
        for k, later in zip(factor, J, strict=True):
            assert np.abs(later[seam] - k * first).max() < 1e-13 * scale
        assert np.abs(first).max() > 1e-4


def test_discrete_noether_with_decoupled_decay():
    """By hand: θ ← (1 − ηλ)θ − ηv, where d holds both; J is measured of the whole step."""
    rng = np.random.default_rng(3)
    W = [rng.normal(size=(4, 3)), rng.normal(size=(3, 2))]
    v = [rng.normal(size=w.shape) for w in W]
    X, Y = rng.normal(size=(8, 4)), rng.normal(size=(8, 2))
    beta, decay, J = 0.9, 0.5, []
    rates = 0.02 / (1 + np.arange(40) / 20)
    for eta in rates:
        G = X.T @ (X @ W[0] @ W[1] - Y) / 8
        v = [beta * v[0] + G @ W[1].T, beta * v[1] + W[0].T @ G]
        new = [(1 - eta * decay) * w - eta * u for w, u in zip(W, v, strict=True)]
        M = W[0].T @ (new[0] - W[0]) - (new[1] - W[1]) @ W[1].T
        J.append(((M - M.T) / 2)[0, 1])
        W = new
    steps = np.arange(40)
    wanted = optimisers.discrete_noether(steps, beta, rates, decay)
    np.testing.assert_allclose(np.array(J) / J[0], wanted, rtol=1e-10)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("beta", [0.9, 0.5, 0.0])
def test_charge_sum_rule_at_any_step(beta):
    """With decay and batches, after 200 steps; without the last term it is far off."""
    gamma, lr = 0.02, 0.02 * (1 - beta)
    net, path = states(gb.Descent(lr, gb.Minibatch(3), beta, gamma), 200)
    family = net.symmetries()["W1-W2"]
    steps = [{n: b[n] - a[n] for n in a} for a, b in itertools.pairwise(path)]
    C = np.array([family.charge(p) for p in path])
    E = np.array([family.form(d, d) for d in steps])
    D = family.form(steps[-1], path[-2])
    entry = (0, 1)
    found = optimisers.charge_sum_rule(
        E[:, *entry], beta, lr, 2 * gamma, C[:-1, *entry], D[entry]
    )  # fmt: skip
    moved = C[-1][entry] - C[0][entry]
    assert found == pytest.approx(moved, rel=1e-11, abs=1e-14)
    if beta > 0:
        short = optimisers.charge_sum_rule(E[:-1, *entry], beta, lr, 2 * gamma, C[:-2, *entry])
        assert abs(short - moved) > 1e-3 * abs(moved)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("beta", "largest"), [(0.5, 0.005), (0.9, 0.0004)])
def test_smooth_steps_move_charges_by_the_factor(beta, largest):
    """Heavy ball against GD with lr_e, and with half of it: order one."""
    off = []
    for lr in (largest, largest / 2):
        ends = []
        for b in (0.0, beta):
            steps = round(8 / lr)
            net, path = states(gb.Descent(lr * (1 - b), None, b), steps, record_at=[0, steps])
            family = net.symmetries()["W1-W2"]
            ends.append(family.charge(path[-1]) - family.charge(path[0]))
        ratio = np.vdot(ends[1], ends[0]) / np.vdot(ends[0], ends[0])
        off.append(abs(ratio / optimisers.momentum_factor(beta) - 1))
    assert off[1] < 0.03
    assert off[0] / off[1] == pytest.approx(2.0, abs=0.4)


@pytest.mark.slow
@pytest.mark.parametrize("nesterov", [False, True])
def test_noise_moves_charges_as_much_as_without_momentum(nesterov):
    """Zero labels and layers of ones: noise alone, against lr_e² tr AΣ."""
    net = gb.TwoLayer(3, 2, 4)
    params = gb.init.gaussian(net, 0.5, key=1)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(6, 3))
    fitted = gb.Regression.half_mean(X, X @ params["W1"] @ params["W2"])
    lr_e, beta, steps, members = 1e-3, 0.5, 60, 4000
    noise = gb.LabelNoise(1.0)
    dynamics = gb.Descent(lr_e * (1 - beta), noise, beta, nesterov=nesterov)
    setup = gb.Setup(fitted, net, params, dynamics, gb.Until(steps=steps))
    flow = gb.symmetry.noether_flow(setup, include_gd=False)["W1-W2"]
    wanted = np.trace(flow.per_step)  # at rest: the mean gradient vanishes
    from ensemble import ends

    charge = net.symmetries()["W1-W2"].charge
    late = [
        np.trace(ends(fitted, net, params, dynamics, k, members, charge, key=2), axis1=1, axis2=2)
        for k in (20, steps)
    ]
    each = (late[1] - late[0]) / (steps - 20)
    assert abs(each.mean() - wanted) < 4 * each.std() / members**0.5 + 0.02 * abs(wanted)
    assert 4 * each.std() / members**0.5 < 0.2 * abs(wanted)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("beta", [0.6, 0.9])
def test_noether_flow_of_nesterov(beta):
    """One step late in a run: heavy ball's factor would be half as large again."""
    off = []
    for lr in (2e-3,):
        at = round(4 / lr)
        dynamics = gb.Descent(lr * (1 - beta), None, beta, nesterov=True)
        net, path = states(dynamics, at + 1, record_at=[at, at + 1])
        setup = gb.Setup(problem(), net, path[0], dynamics)
        flow = gb.symmetry.noether_flow(setup)["W1-W2"].per_step
        family = net.symmetries()["W1-W2"]
        moved = family.charge(path[1]) - family.charge(path[0])
        off.append(abs(np.vdot(moved, flow) / np.vdot(flow, flow) - 1))
    assert off[0] < 0.01


@pytest.mark.parametrize("beta", [0.8])
def test_where_heavy_ball_ends_on_a_rank_one_net(beta):
    """The gap that steps in one direction make: at lr_e, times the factor; order one."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(4, 8))
    fitted = gb.Regression.half_mean(X, X @ rng.normal(size=8))
    net = gb.Rank1(8, 2, 5)
    theta0 = rng.normal(size=8)
    params = gb.init.balanced(net, theta0)
    off = []
    for lr in (4e-4, 2e-4):
        dynamics = gb.Descent(lr, momentum=beta)
        setup = gb.Setup(
            fitted, net, params, dynamics, gb.Until(gap=1e-16, steps=200_000), [gb.observe.gap],
            save_at=[0],
        )  # fmt: skip
        end = gb.simulate(setup)
        told = gb.theory.sgd_limit(fitted, theta0, 3, lr, 4, momentum=beta).gap
        plain = gb.theory.sgd_limit(fitted, theta0, 3, lr / (1 - beta), 4).gap
        same = plain * optimisers.momentum_factor(beta)  # up to quadrature
        assert told == pytest.approx(same, rel=1e-7)
        v1, u = end.final["v1"], end.final["u"]
        off.append((v1 @ v1 - np.sum(u * u)) / told - 1)
    assert abs(off[1]) < 0.05
    assert off[0] / off[1] == pytest.approx(2.0, abs=0.4)


def test_refusals():
    with pytest.raises(ValueError, match="rates must be given where weight_decay is not 0"):
        optimisers.discrete_noether([1], 0.9, weight_decay=0.1)
    with pytest.raises(ValueError, match="rates must be positive, one for each of 6 steps"):
        optimisers.discrete_noether([5], 0.9, [0.1])
    with pytest.raises(ValueError, match="steps must be whole numbers of at least 0"):
        optimisers.discrete_noether([0.5], 0.9)
    with pytest.raises(ValueError, match="charges must be given where weight_decay is not 0"):
        optimisers.charge_sum_rule([0.1], 0.9, 0.1, 0.1)
    with pytest.raises(ValueError, match="setup.dynamics must take steps along the gradient"):
        net = gb.TwoLayer(6, 3, 2)
        setup = gb.Setup(problem(), net, gb.init.gaussian(net, 0.1), gb.Adam(0.1))
        gb.symmetry.noether_flow(setup)
