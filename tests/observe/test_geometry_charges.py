"""Charges of other powers, and angular momentum: kept where the sheet of symmetries says so."""

import numpy as np
import pytest

import gradbias as gb
from cases import case, data, minibatches


def scalars(geometry, steps, lr, **how):
    """Twelve products u·v of scalars, all of one output; the record of two charges."""
    X, Y = data(n=20, d=1, k=1, seed=3)
    problem = gb.Regression.half_mean(X, Y)
    net = gb.TwoLayer(1, 1, 12)
    rng = np.random.default_rng(4)
    params = {n: rng.uniform(0.5, 1.0, size=s) for n, s in net.shapes().items()}
    kept = gb.symmetry.kept(net, geometry)["W1-W2"]
    record = {
        "own": gb.observe.charges(power=kept.power, of=kept.of),
        "squares": gb.observe.charges(power=2),
    }
    setup = gb.Setup(
        problem, net, params, gb.Steepest(lr, geometry, **how), gb.Until(steps=steps), record,
        save_at=[0, steps],
    )  # fmt: skip
    run = gb.simulate(setup)
    return {
        name: np.abs(np.diff(run.data[f"{name}_W1-W2"].values, axis=0)).max() for name in record
    }


def test_sign_descent_keeps_absolute_values_to_rounding():
    moved = scalars(gb.geometry.Linf, 400, 1e-3)
    assert moved["own"] < 1e-12
    assert moved["squares"] > 0.05


@pytest.mark.parametrize("p", [4.0, 1.5])
def test_steepest_flow_in_lp_keeps_its_power(p):
    """Steps of lr move it at first order, squares at order zero."""
    moves = [scalars(gb.geometry.Lp(p), steps, 0.2 / steps) for steps in (1000, 2000)]
    assert moves[0]["own"] < 1e-3 * moves[0]["squares"]
    assert moves[0]["own"] / moves[1]["own"] == pytest.approx(2.0, abs=0.1)


def test_powers_are_what_they_say():
    problem = gb.Regression.half_mean(*data(d=3))
    net = gb.TwoLayer(3, 2, 5)
    params = gb.init.gaussian(net, 1.0, key=1)
    W1, W2 = params["W1"], params["W2"]
    entries = gb.observe.charges(power=1.5)(problem, net, params)["W1-W2"]
    wanted = np.sum(np.abs(W1) ** 1.5, axis=0) - np.sum(np.abs(W2) ** 1.5, axis=1)
    np.testing.assert_allclose(entries, wanted, rtol=0, atol=1e-14)
    for power in (1.0, 2.0, 3.0):
        found = gb.observe.charges(power=power, of="singular_values")(problem, net, params)["W1-W2"]
        powers = []
        for gram in (W1.T @ W1, W2 @ W2.T):
            values, vectors = np.linalg.eigh(gram)
            powers.append((vectors * np.maximum(values, 0) ** (power / 2)) @ vectors.T)
        np.testing.assert_allclose(found, powers[0] - powers[1], rtol=0, atol=1e-7)


def test_which_geometry_keeps_what():
    two = gb.TwoLayer(3, 2, 5)
    assert gb.symmetry.kept(two, gb.geometry.L2)["W1-W2"].power == 2
    assert gb.symmetry.kept(two, gb.geometry.Linf)["W1-W2"] is None
    layers = gb.geometry.Product(gb.geometry.Spectral)
    assert gb.symmetry.kept(two, layers)["W1-W2"] == (1.0, "singular_values", True)
    units = gb.symmetry.kept(gb.MLP([1, 4, 1], "relu", bias=False), gb.geometry.Lp(4))
    assert [k.power for k in units.values()] == [pytest.approx(4 / 3)]
    assert set(gb.symmetry.kept(gb.MLP([2, 4, 1], "relu"), gb.geometry.Linf).values()) == {None}
    rank1 = gb.symmetry.kept(gb.Rank1(3, 2, 4), gb.geometry.Linf)
    assert rank1["u[0]-v[0]"].power == 1
    assert rank1["v1-u[0]"] is None
    assert gb.symmetry.kept(gb.Diagonal(3), gb.geometry.Linf)["u-v"] is None
    with pytest.raises(ValueError, match="net must list symmetries and shapes"):
        gb.symmetry.kept(gb.Deep([3, 2]), gb.geometry.L2)


def test_refusals():
    problem, net, params = case("one layer")
    setup = {"problem": problem, "net": net, "params": params, "dynamics": gb.Descent(0.1)}
    with pytest.raises(ValueError, match="needs a net that lists symmetries"):
        gb.simulate(gb.Setup(**setup, record=[gb.observe.charges(power=1)]))
    with pytest.raises(ValueError, match="of must be one of 'entries', 'singular_values'"):
        gb.observe.charges(power=1, of="values")
    with pytest.raises(ValueError, match="power must be greater than 0"):
        gb.observe.charges(power=0)
    net = gb.Diagonal(9)
    params = gb.init.gaussian(net, 0.3)
    setup = {"net": net, "params": params, "dynamics": gb.Descent(0.1)}
    problem = gb.Regression.half_mean(*data(k=1))
    with pytest.raises(ValueError, match="needs symmetries that do not mix parameters, got 'u-v'"):
        gb.simulate(gb.Setup(problem, **setup, record=[gb.observe.charges(power=1)]))
    with pytest.raises(ValueError, match="net must be a product of matrices"):
        gb.observe.angular_momentum(net, params, params)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_angular_momentum_shrinks_by_beta(decay):
    """Depth three, batches of two, a velocity at the start: β^k, not an estimate."""
    problem, net, params = case("deep")
    rng = np.random.default_rng(8)
    velocity = {n: rng.normal(size=p.shape) for n, p in params.items()}
    after = {}
    for nesterov in (False, True):
        dynamics = gb.Descent(
            0.01, gb.Replay(minibatches()), 0.9, decay, nesterov=nesterov, velocity=velocity
        )
        setup = gb.Setup(
            problem, net, params, dynamics, gb.Until(steps=41), [gb.observe.params],
            save_at=[0, 1, 40, 41],
        )  # fmt: skip
        run = gb.simulate(setup)
        assert run.stats["reason"] == "the velocity at the start is not zero"
        states = [{n: run.data[f"params_{n}"].values[i] for n in params} for i in range(4)]
        first = gb.observe.angular_momentum(net, *states[:2])
        last = gb.observe.angular_momentum(net, *states[2:])
        after[nesterov] = max(np.abs(last[s] - 0.9**40 * first[s]).max() for s in first)
        assert set(first) == {"W1-W2", "W2-W3"}
        assert all(np.abs(J).max() > 1e-3 for J in first.values())
    assert after[False] < 1e-15
    assert after[True] > 1e3 * after[False]
