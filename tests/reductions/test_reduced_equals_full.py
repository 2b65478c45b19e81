"""The closure is exact: the same trajectory, every parameter restored."""

import numpy as np
import pytest

import gradbias as gb
from cases import NETS, PAIRS, STEPS, case, dynamics


def both(setup):
    small, full = gb.simulate(setup), gb.simulate(setup, reduce=False)
    assert small.stats["reduction"] != "none", small.stats["reason"]
    assert full.stats["reduction"] == "none"
    assert small.stats["certificate"] <= 1e-14
    return small, full


def assert_same(small, full, tolerance=1e-10):
    for name, value in full.final.items():
        scale = max(np.abs(value).max(initial=0.0), 1.0)
        assert np.abs(small.final[name] - value).max(initial=0.0) <= tolerance * scale, name
    for name in full.data:
        np.testing.assert_allclose(small.data[name], full.data[name], rtol=0, atol=tolerance * 10)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "descent"), PAIRS)
def test_descent(name, descent):
    problem, net, params = case(name)
    setup = gb.Setup(
        problem, net, params, dynamics(descent, problem.k), gb.Until(steps=STEPS),
        record=[gb.observe.loss, gb.observe.theta, gb.observe.params], save_at=[0, 1, 50, STEPS],
    )  # fmt: skip
    small, full = both(setup)
    assert_same(small, full)
    assert np.abs(small.data["loss"][-1] - small.data["loss"][0]) > 1e-3  # it did move


@pytest.mark.one_in(5)
@pytest.mark.parametrize("decay", [0.0, 0.05])
@pytest.mark.parametrize("name", NETS)
def test_flow(name, decay):
    problem, net, params = case(name)
    setup = gb.Setup(
        problem, net, params, gb.Flow(weight_decay=decay, rtol=1e-11), gb.Until(time=8.0),
        record=[gb.observe.theta, gb.observe.params], save_at=[0.0, 0.5, 3.0, 8.0],
    )  # fmt: skip
    assert_same(*both(setup))


def test_population_with_fresh_samples():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(5, 5))
    problem = gb.Population(root @ root.T, rng.normal(size=(3, 5)), 0.1 * np.eye(3))
    net = gb.TwoLayer(5, 3, 40)
    params = gb.init.gaussian(net, 0.2)
    drawn = [problem.sample(4, key) for key in range(100)]
    replay = gb.Replay(samples=(np.stack([x for x, _ in drawn]), np.stack([y for _, y in drawn])))
    for descent in (gb.Descent(0.005), gb.Descent(0.002, replay)):
        assert_same(*both(gb.Setup(problem, net, params, descent, gb.Until(steps=100))))


def test_rank_deficient_data_and_more_samples_than_inputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 6))
    problem = gb.Regression.mean(X, rng.normal(size=(30, 2)))
    net = gb.TwoLayer(6, 2, 20)
    params = gb.init.gaussian(net, 0.2)
    small, full = both(gb.Setup(problem, net, params, gb.Descent(0.005), gb.Until(steps=300)))
    assert "3-5-2" in small.stats["reduction"]
    assert_same(small, full)


def test_the_width_drops_out():
    """Two-layer nets of any width shrink to k + rank X, rank-1 nets to a plane for each pair."""
    rng = np.random.default_rng(0)
    problem = gb.Regression.mean(rng.normal(size=(10, 40)), rng.normal(size=10))
    for width in (50, 5000):
        net = gb.TwoLayer(40, 1, width)
        setup = gb.Setup(
            problem, net, gb.init.gaussian(net, 1 / np.sqrt(width)), gb.Descent(0.01),
            gb.Until(steps=10),
        )  # fmt: skip
        assert gb.simulate(setup).stats["reduction"] == f"40-{width}-1 to 10-11-1"
    net = gb.Rank1(40, 3, 500)
    setup = gb.Setup(problem, net, gb.init.gaussian(net, 0.1), gb.Descent(0.01), gb.Until(steps=10))
    assert gb.simulate(setup).stats["reduction"].endswith("10-1-2-1-2-1")


def test_small_inits_keep_their_small_singular_values():
    """Gram matrices would lose them: the tail of I_γ is √(2γ) = 1e-8 of the top."""
    problem, _, _ = case("two layers")
    net = gb.TwoLayer(9, 2, 60)
    params = gb.init.orthogonal(net, 1e-16)
    setup = gb.Setup(
        problem, net, params, gb.Flow(), gb.Until(gap=1e-20, time=1e4),
        record={"sv": gb.observe.singular_values("W1")},
    )  # fmt: skip
    tail = gb.simulate(setup).data["sv"].values[-1, 2:]
    np.testing.assert_allclose(tail, np.sqrt(2e-16), rtol=1e-5)


@pytest.mark.parametrize(
    ("net", "word"),
    [(gb.Diagonal, "product"), (lambda d: gb.MLP([d, 4, 1], "tanh"), "product")],
)
def test_nets_that_do_not_close_say_why(net, word):
    rng = np.random.default_rng(0)
    problem = gb.Regression.mean(rng.normal(size=(4, 5)), rng.normal(size=4))
    net = net(5)
    run = gb.simulate(
        gb.Setup(problem, net, gb.init.gaussian(net, 0.3), gb.Descent(0.01), gb.Until(steps=5))
    )
    assert run.stats["reduction"] == "none"
    assert word in run.stats["reason"]


def test_noise_outside_the_row_space_is_run_in_full():
    rng = np.random.default_rng(0)
    problem = gb.Regression.mean(rng.normal(size=(2, 5)), rng.normal(size=2))
    net = gb.TwoLayer(5, 1, 4)
    replay = gb.Replay(samples=(rng.normal(size=(9, 2, 5)), rng.normal(size=(9, 2, 1))))
    setup = gb.Setup(
        problem, net, gb.init.gaussian(net, 0.3), gb.Descent(0.01, replay), gb.Until(steps=9)
    )
    assert "row space" in gb.simulate(setup).stats["reason"]
