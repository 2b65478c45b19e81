"""Sums along the path: every step counted, full parameters and gradients seen."""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from cases import DESCENTS, NETS, case, dynamics
from reference import linear_gradient


def squared(problem, net, params, gradient, lr):
    return lr**2 * sum(jnp.sum(g * g) for g in gradient.values())


def overlap(problem, net, params, gradient, lr):
    """A sum that needs the parameters outside the subspaces, and the user's own problem."""
    name = "v1" if "v1" in params else "W1"
    return {"dot": jnp.sum(params[name] * gradient[name]), "loss": problem.X.shape[0] * lr}


def charge(problem, net, params, gradient, lr):
    """The exact increment of W1ᵀW1 − W2W2ᵀ under GD."""
    g1, g2 = gradient["W1"], gradient["W2"]
    return lr**2 * (g1.T @ g1 - g2 @ g2.T)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("descent", DESCENTS)
def test_reduced_and_full_runs_see_the_same(descent):
    problem, net, params = case("two layers")
    setup = gb.Setup(
        problem, net, params, dynamics(descent, 2), gb.Until(steps=200), save_at=[0, 1, 50, 200],
        record={"squared": gb.observe.running(squared), "overlap": gb.observe.running(overlap)},
    )  # fmt: skip
    small, full = gb.simulate(setup), gb.simulate(setup, reduce=False)
    for name in ("squared", "overlap_dot", "overlap_loss"):
        np.testing.assert_allclose(small.data[name], full.data[name], rtol=0, atol=1e-10)
        assert float(full.data[name][0]) == 0
    assert abs(float(full.data["overlap_dot"][-1])) > 0.01


@pytest.mark.parametrize("name", [name for name in NETS if "layer" not in name])
def test_against_a_loop(name):
    problem, net, params = case(name)
    setup = gb.Setup(
        problem, net, params, gb.Descent(0.03), gb.Until(steps=60), save_at=[60],
        record={"squared": gb.observe.running(squared)},
    )  # fmt: skip
    total, kind, Y = 0.0, type(net).__name__, problem.Y.reshape(6, -1)
    state = {key: value.copy() for key, value in params.items()}
    for _ in range(60):
        grads = linear_gradient(kind, state, problem.X, Y, float(problem.weight))
        total += 0.03**2 * sum(np.sum(g * g) for g in grads.values())
        state = {key: value - 0.03 * grads[key] for key, value in state.items()}
    assert float(gb.simulate(setup).data["squared"][0]) == pytest.approx(total, rel=1e-11)


@pytest.mark.parametrize("reduce", [True, False])
def test_the_sum_of_increments_is_the_charge(reduce):
    """20 000 steps; the sum of what each step adds is what the charge has moved."""
    problem, net, params = case("two layers")
    setup = gb.Setup(
        problem, net, params, gb.Descent(0.03), gb.Until(steps=20_000), save_at=[20_000],
        record={"moved": gb.observe.running(charge)},
    )  # fmt: skip
    run = gb.simulate(setup, reduce=reduce)

    def imbalance(p):
        return p["W1"].T @ p["W1"] - p["W2"] @ p["W2"].T

    moved = imbalance(run.final) - imbalance(params)
    assert np.abs(moved).max() > 1e-4
    np.testing.assert_allclose(run.data["moved"].values[0], moved, rtol=0, atol=1e-10)


def test_what_does_not_fit_is_refused():
    problem, net, params = case("two layers")
    with pytest.raises(ValueError, match="Flow"):
        gb.Setup(problem, net, params, gb.Flow(), record={"s": gb.observe.running(squared)})
    with pytest.raises(ValueError, match="increment"):
        gb.observe.running(3)


def test_they_may_stand_beside_other_observables():
    problem, net, params = case("two layers")
    setup = gb.Setup(
        problem, net, params, gb.Descent(0.03), gb.Until(steps=10),
        record=[gb.observe.loss, gb.observe.running(squared)],
    )  # fmt: skip
    assert set(gb.simulate(setup).data) == {"loss", "squared"}
