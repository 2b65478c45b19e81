"""Rounding that a reduced run leaves out, or makes, where training would make it grow."""

import itertools

import numpy as np
import pytest

import gradbias as gb
from gradbias._engine.error_growth import EXACT
from gradbias._engine.prepare import start_of
from gradbias._engine.simulate import run_members
from gradbias.numerics.linalg import spectral_bound as norm
from gradbias.numerics.progress import Progress
from gradbias.reductions import largest_between, reduce
from gradbias.reductions._growth_bound import Growth

EYE = gb.Regression.half_sum(np.eye(2), np.diag([1.0, 0.8]))


def rank_one(net=None, scale=0.1):
    """Balanced layers of rank one, up to rounding; the labels have rank two."""
    net = net or gb.TwoLayer(2, 2, 2)
    rng = np.random.default_rng(3)
    theta = scale * np.outer(rng.normal(size=2), rng.normal(size=2))
    return net, gb.init.balanced(net, theta, key=1)


def setup(steps, dynamics=None, net=None):
    net, params = rank_one(net)
    dynamics = dynamics or gb.Descent(0.1)
    return gb.Setup(EYE, net, params, dynamics, gb.Until(steps=steps), save_at=[0, steps])


def agree(one, tolerance=EXACT):
    run, full = gb.simulate(one, progress=False), gb.simulate(one, False, progress=False)
    for name, value in full.final.items():
        scale = np.abs(value).max()
        np.testing.assert_allclose(run.final[name], value, rtol=0, atol=tolerance * scale)
    return run


def test_what_cannot_grow_is_left_out():
    run = agree(setup(50))
    assert run.stats["reduction"] == "2-2-2 to 2-1-2"


def test_what_grows_is_run_in_full():
    """Rounding of 1e-17 becomes the second singular value of the labels."""
    run = agree(setup(2000))
    assert run.stats["reduction"] == "none" and "might have grown" in run.stats["reason"]
    assert np.linalg.svd(run.theta)[1][1] == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize(
    "dynamics",
    [
        gb.Descent(0.1, momentum=0.9),
        gb.Descent(0.1, gb.LabelNoise(0.5)),
        gb.Descent(lambda k: 0.1 / (1 + k / 1000)),
        gb.Descent(0.1, gb.Minibatch(1), weight_decay=1e-3),
        gb.Diffusion(0.1, gb.LabelNoise(0.5), dt=0.05),
        gb.Flow(),
    ],
    ids=["momentum", "noise", "schedule", "decay", "diffusion", "flow"],
)
def test_however_it_moves(dynamics):
    one = setup(1500, dynamics) if dynamics.axis == "step" else None
    if one is None:
        net, params = rank_one()
        one = gb.Setup(EYE, net, params, dynamics, gb.Until(time=150.0), save_at=[0.0, 150.0])
    assert gb.simulate(one, progress=False).stats["reduction"] == "none"


def test_layers_that_nearly_cancel_are_run_in_full():
    """u·v is 3e-17, below the rounding of a change of basis: its sign decides the limit."""
    net, rng = gb.Rank1(3, 3, 4), np.random.default_rng(0)
    u, v = np.zeros((2, 2, 4))
    u[0, [0, 2]], v[0, [1, 2]], v[1, 0] = (1.4, -4.4e-11), (0.4, 7e-7), 0.065
    params = {"v1": np.array([0.0, -1e-10, 0.4]), "u": u, "v": v}
    problem = gb.Regression.half_mean(np.eye(4, 3), np.eye(4, 3) @ rng.normal(size=3))
    dynamics = gb.Descent(0.1, gb.LabelNoise(0.3))
    one = gb.Setup(problem, net, params, dynamics, gb.Until(steps=400), save_at=[0, 400])
    assert agree(one, 0.0).stats["reduction"] == "none"


def faint(ratio, seed=0):
    """A wide net of dense layers; the second has a direction of this ratio to its first one.

    It is written in the rows of hidden units, where a run in full keeps its digits.
    """
    rng = np.random.default_rng(seed)
    W1 = 1e-10 * rng.normal(size=(3, 6))
    W2 = ratio * rng.normal(size=(6, 2))
    W2[3] = 0.2, 0.7
    X = rng.normal(size=(4, 3))
    problem = gb.Regression.half_mean(X, X @ rng.normal(size=(3, 2)))
    return problem, gb.TwoLayer(3, 2, 6), {"W1": W1, "W2": W2}


def test_a_faint_direction_that_is_kept_does_not_lose_its_digits():
    problem, net, params = faint(1e-10)
    found = reduce(problem, net, params)
    assert found.net.dims == (3, 5, 2) and found.growth.inside == 1
    one = gb.Setup(problem, net, params, gb.Descent(0.3), gb.Until(steps=400), save_at=[0, 400])
    run = agree(one, 0.0)
    assert np.linalg.svd(run.final["W2"])[1][1] > 0.1  # it has grown
    assert run.stats["reduction"] == "none" and "might have grown" in run.stats["reason"]


def test_a_direction_that_keeps_its_digits_is_not_watched():
    assert reduce(*faint(1e-4)).growth is None


def test_pairs_of_layers_that_cancel_in_one_direction_only():
    """Each layer has equal singular values; F1 F2 and F3 F4 hardly show the second direction."""
    rng = np.random.default_rng(0)
    problem = gb.Regression.half_sum(rng.normal(size=(4, 2)), rng.normal(size=(4, 2)))
    frame = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    second = frame[:, [0, 2]]
    second[:, 1] += 1e-10 * frame[:, 1]
    third = frame[:, [3, 5]]
    third[:, 1] += 1e-10 * frame[:, 4]
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    params = {"W1": turn @ frame[:, :2].T, "W2": second, "W3": third.T, "W4": frame[:, 3:5] @ turn}
    found = reduce(problem, gb.Deep([2, 12, 2, 12, 2]), params)
    for k in (1, 2, 3, 4):
        singular = np.linalg.svd(found.params[f"W{k}"])[1]
        np.testing.assert_allclose(singular, 1.0, rtol=1e-8)
    assert found.growth.inside == 1


def test_in_a_sweep_only_the_members_that_need_it_are_run_again():
    over = {"steps": [50, 2000]}
    done = gb.sweep(
        lambda steps: setup(2000, gb.Descent(0.1 if steps == 2000 else 0.0025)),
        over,
        progress=False,
    )
    for steps, lr in ((50, 0.0025), (2000, 0.1)):
        alone = gb.simulate(setup(2000, gb.Descent(lr)), progress=False)
        assert (alone.stats["reduction"] == "none") == (steps == 2000)
        row = done.sel(steps=steps)
        np.testing.assert_array_equal(row["loss"].values, alone.data["loss"].values)


def test_layers_that_cancel_exactly_stay_at_their_saddle():
    """F1 F2 = 0 and F3 F4 = 0 in whole numbers: no gradient at all, but for rounding."""
    net = gb.Deep([2, 2, 1, 2, 2])
    params = {
        "W1": np.array([[1.0, 2.0], [3.0, 6.0]]),
        "W2": np.array([[2.0], [-1.0]]),
        "W3": np.array([[1.0, 3.0]]),
        "W4": np.array([[3.0, 6.0], [-1.0, -2.0]]),
    }
    one = gb.Setup(EYE, net, params, gb.Descent(0.01), gb.Until(steps=3000), save_at=[0, 3000])
    run = gb.simulate(one, progress=False)
    for name, value in params.items():
        np.testing.assert_array_equal(run.final[name], value)


def test_ordinary_starts_are_not_asked():
    """Nothing is left out of a Gaussian start, and it is near no saddle."""
    rng = np.random.default_rng(0)
    problem = gb.Regression.half_mean(rng.normal(size=(5, 8)), rng.normal(size=(5, 2)))
    net = gb.TwoLayer(8, 2, 40)
    start = gb.init.gaussian(net, 1e-9, key=0)
    assert reduce(problem, net, start).rounding == 0.0
    balanced = gb.init.balanced(net, rng.normal(size=(8, 2)), key=0)
    assert 0 < reduce(problem, net, balanced).rounding < 1e-14


def test_the_bound_is_one():
    """Errors of random size in a chain, step by step, against the bound on their growth."""
    rng = np.random.default_rng(0)
    sizes, growth = (3, 4, 4, 2), Growth(np.zeros(3), np.zeros(2), np.ones(()), False)
    target = rng.normal(size=(3, 2))
    for _ in range(20):
        factors = [0.3 * rng.normal(size=s) for s in itertools.pairwise(sizes)]
        errors = [1e-7 * rng.normal(size=factor.shape) for factor in factors]
        moved = [factor + error for factor, error in zip(factors, errors, strict=True)]
        first, grown = sum(np.sum(e * e) for e in errors), 0.0
        for _ in range(300):
            slope = factors[0] @ factors[1] @ factors[2] - target
            grown += 0.02 * norm(slope) * growth.others([norm(factor) for factor in factors])
            factors, moved = step(factors, target), step(moved, target)
        last = sum(np.sum((a - b) ** 2) for a, b in zip(factors, moved, strict=True))
        assert np.sqrt(last / first) <= 1.01 * np.exp(grown)


def step(factors, target):
    A, B, C = factors
    slope = 0.02 * (A @ B @ C - target)
    return [A - slope @ (B @ C).T, B - A.T @ slope @ C.T, C - (A @ B).T @ slope]


def test_norms_at_all_scales():
    rng = np.random.default_rng(0)
    for scale in (1e-300, 1e-100, 1.0, 1e100, 1e300):
        matrix = rng.normal(size=(5, 3))
        exact = np.linalg.norm(matrix, 2)
        assert exact <= norm(scale * matrix) / scale * (1 + 1e-12) <= 3 ** (1 / 16) * exact * 1.001
    assert norm(np.zeros((2, 3))) == 0.0


def test_a_start_says_how_large_its_errors_are():
    assert start_of(setup(10), True).rounding > 0
    assert start_of(setup(10), False).rounding == 0


def test_between_looks_norms_stay_below_their_bound():
    """Factors on the way, against the bound from what was seen at both ends of it."""
    rng = np.random.default_rng(1)
    target = rng.normal(size=(3, 2))
    for shrink in (False, True):
        factors = [0.4 * rng.normal(size=s) for s in itertools.pairwise((3, 4, 4, 2))]
        norms, way = [[norm(factor) for factor in factors]], 0.0
        for _ in range(10):
            way += 0.02 * norm(factors[0] @ factors[1] @ factors[2] - target)
            factors = [0.99**shrink * factor for factor in step(factors, target)]
            norms.append([norm(factor) for factor in factors])
        seen = np.array(norms).T
        bound = largest_between(seen[:, :1], seen[:, -1:], np.array([way]), shrink)
        assert np.all(seen <= 1.001 * bound) and np.all(bound < 3 * seen.max())
    far = largest_between(seen[:, :1], seen[:, -1:], np.array([1e3]), False)
    assert np.all(np.isinf(far))


def test_a_slope_between_two_looks_is_seen():
    """A step that is too long for the start: the slope is largest where nobody looks."""
    net, params = rank_one(gb.Deep([2, 2, 2, 2]), 0.5)
    problem = gb.Regression.half_sum(np.eye(2), 3 * params["W1"] @ params["W2"] @ params["W3"])
    lr, steps = 0.3, 600
    one = gb.Setup(problem, net, params, gb.Descent(lr), gb.Until(steps=steps), save_at=[0, steps])
    with gb.float64():
        start = start_of(one, True)
        done = run_members([start], Progress("", False))
    factors, rates = [params[f"W{k}"] for k in (1, 2, 3)], []
    for _ in range(steps):
        A, B, C = factors
        slope = A @ B @ C - problem.Y
        rates.append(np.linalg.norm(slope, 2) * start.system.growth.others(
            [np.linalg.norm(factor, 2) for factor in factors]
        ))  # fmt: skip
        factors = [
            A - lr * slope @ (B @ C).T, B - lr * A.T @ slope @ C.T, C - lr * (A @ B).T @ slope
        ]  # fmt: skip
    ends = [np.linalg.norm(F, 2) for F in factors]
    small = min(max(e, np.linalg.norm(params[f"W{k}"], 2)) for k, e in enumerate(ends, start=1))
    least = np.exp(lr * np.sum(rates)) * start.rounding / small
    print(rates[0], max(rates), rates[-1], done.stop.errors, least)
    assert max(rates) > 1.5 * max(rates[0], rates[-1])
    assert 0.999 * least <= done.stop.errors[0] <= 1.1 * least
