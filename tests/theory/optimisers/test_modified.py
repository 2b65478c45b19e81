"""Modified flows against runs: second order with each correction, first order without."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import optimisers

X = np.random.default_rng(0).normal(size=(6, 3))
PROBLEM = gb.Regression.half_mean(X, X @ np.random.default_rng(1).normal(size=(3, 2)))
NET = gb.TwoLayer(3, 2, 3)
PARAMS = gb.init.gaussian(NET, 0.6, key=2)
RATES = (0.02, 0.01, 0.005)
TIME = 1.0


def run(dynamics, steps, params=PARAMS):
    setup = gb.Setup(PROBLEM, NET, params, dynamics, gb.Until(steps=steps), save_at=[steps])
    return gb.simulate(setup).final


def distance(a, b):
    return max(np.abs(a[name] - b[name]).max() for name in a)


def order(errors):
    return np.log2(errors[-2] / errors[-1])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("beta", [0.5, 0.0, 0.9])
def test_heavy_ball(beta):
    """The naive start is the control: its correction is right to first order only."""
    wrong = {"corrected": [], "plain": [], "naive": []}
    for rate in RATES:
        lr = rate * (1 - beta) ** (2 if beta > 0.7 else 1)  # lags count in steps
        steps = round(TIME * (1 - beta) / lr)
        end = run(gb.Descent(lr, momentum=beta), steps)
        wrong["corrected"].append(
            distance(end, optimisers.modified_flow(PROBLEM, PARAMS, lr, steps, beta))
        )
        flow = optimisers.modified_flow(PROBLEM, PARAMS, lr / (1 - beta) * 1e-9, round(1e9 * steps))
        wrong["plain"].append(distance(end, flow))
        if beta > 0:
            same = lr / (1 - beta) * optimisers.momentum_factor(beta)
            count = TIME / same  # the same loss as plain descent of this step
            back = optimisers.modified_flow(PROBLEM, PARAMS, TIME / round(count), round(count))
            wrong["naive"].append(distance(end, back))
    assert order(wrong["corrected"]) == pytest.approx(2.0, abs=0.1)
    assert order(wrong["plain"]) == pytest.approx(1.0, abs=0.1)
    if beta > 0:
        assert order(wrong["naive"]) < 1.3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("betas", [(0.9, 0.95), (0.5, 0.9)])
def test_adam(betas):
    """From where its averages have forgotten the start; without the bracket at first order."""
    eps = 0.05
    wrong = {"corrected": [], "plain": []}
    for lr in (0.004, 0.002, 0.001):
        before = round(0.6 / lr)
        steps = round(0.6 / lr)
        dynamics = gb.Adam(lr, betas, eps, eps_inside=True)
        first = run(dynamics, before)
        end = run(dynamics, before + steps)
        told = optimisers.adam_flow(PROBLEM, first, lr, steps, betas, eps)
        wrong["corrected"].append(distance(end, told))
        tiny = optimisers.adam_flow(PROBLEM, first, lr * 1e-9, round(steps * 1e9), betas, eps)
        wrong["plain"].append(distance(end, tiny))
    assert order(wrong["corrected"]) == pytest.approx(2.0, abs=0.15)
    assert order(wrong["plain"]) == pytest.approx(1.0, abs=0.15)


def test_the_loss_is_the_integral_of_its_flow():
    """Along the modified flow its own loss falls, and plain descent's is that of β = 0."""
    first = optimisers.modified_loss(PROBLEM, PARAMS, 0.01, 0.9)
    later = optimisers.modified_flow(PROBLEM, PARAMS, 0.001, 50, 0.9)
    assert optimisers.modified_loss(PROBLEM, later, 0.01, 0.9) < first
    plain = gb.theory.modified_loss(PROBLEM, PARAMS, 0.01)
    assert optimisers.modified_loss(PROBLEM, PARAMS, 0.01) == pytest.approx(plain, rel=1e-15)
    shifted = optimisers.shifted_start(PROBLEM, PARAMS, 0.01, 0.0)
    assert distance(shifted, PARAMS) == 0.0
