"""Bits: the same whatever the machine's speed; another chunk size changes rounding only."""

import numpy as np
import pytest

import gradbias as gb
from gradbias._engine import host_loop
from gradbias._sweeps import chunking
from gradbias.numerics.compilations import count_compilations

PROBLEM = gb.problems.gaussian(n=6, d=4, key=1, loss="half_mean")
NET = gb.TwoLayer(4, 1, 3)


def build(rate, seed, steps=300, **changes):
    changes = {"until": gb.Until(steps=steps), "save_at": [0, 7, steps], "key": seed} | changes
    dynamics = changes.pop("dynamics", gb.Descent(rate, gb.Minibatch(2)))
    params = changes.pop("params", gb.init.gaussian(NET, 0.4, key=seed))
    return gb.Setup(PROBLEM, NET, params, dynamics, **changes)


OVER = {"rate": [0.01, 0.02], "seed": range(5)}


def test_another_chunk_size_has_the_same_draws():
    whole = gb.sweep(build, OVER)
    for chunk in (1, 4):
        parts = gb.sweep(build, OVER, chunk=chunk)
        for name in whole:
            np.testing.assert_allclose(parts[name], whole[name], rtol=0, atol=1e-10)
    # Controls: other draws are far away, and so is a member in a wrong place.
    other = gb.sweep(lambda rate, seed: build(rate, seed, key=seed + 1), OVER)
    assert float(abs(other["theta_end"] - whole["theta_end"]).max()) > 1e-4
    assert float(abs(whole["theta_end"] - whole["theta_end"].roll(seed=1)).min()) > 1e-7


def test_one_program_for_a_hundred_points_in_many_chunks():
    """Every chunk is the same program, the last one filled up, a new function for each point."""

    def make(rate, seed):
        # The same rates in all members of a chunk, or not; code that is equal but not the same.
        record = {"loss": gb.observe.loss, "twice": lambda problem, net, params: 2 * params["W1"]}
        return build(rate, seed, record=record)

    with count_compilations() as first:
        gb.sweep(make, {"rate": [0.01, 0.02], "seed": range(4)}, chunk=7)  # 4 in a chunk
    with count_compilations() as many:
        data = gb.sweep(make, {"rate": np.linspace(0.01, 0.02, 5), "seed": range(20)}, chunk=4)
    # In 25 chunks: the program that measures, because the function is new; all else is there.
    assert first.count >= 1
    assert many.count == 1
    assert data["loss"].shape == (5, 20, 3)
    with count_compilations() as ragged:
        gb.sweep(make, {"rate": [0.01, 0.02], "seed": range(5)}, chunk=4)  # 4, 4 and 2
    assert ragged.count == 1


def mixed(kind):
    """Members that converge at rest, at the floor of rounding, diverge, cycle, or go on."""
    fast, slow = gb.Descent(0.9), gb.Descent(0.05)
    return {
        "rests": lambda: build(1, 0, dynamics=slow, until=gb.Until(gap=1e-300, steps=10**5)),
        "floor": lambda: build(1, 1, dynamics=fast, until=gb.Until(gap=1e-300)),
        "diverges": lambda: build(1, 2, dynamics=gb.Descent(7.0)),
        "goes on": lambda: build(1, 3, dynamics=gb.Descent(1e-3), until=gb.Until(steps=30_000)),
    }[kind]().replace(save_at=[0, 7, 300])  # fmt: skip


@pytest.mark.filterwarnings("ignore:(overflow|invalid)")
def test_bits_do_not_depend_on_the_speed_of_the_machine(monkeypatch):
    """Calls of any length: every member stops at the same step, with the same last state."""
    over = {"kind": ["rests", "floor", "diverges", "goes on"]}
    usual = gb.sweep(mixed, over)
    lengths = iter(np.random.default_rng(0).integers(1, 3000, size=10**6).tolist())
    calls = []

    def any_length(calls_before, seconds):
        calls.append(next(lengths))
        return calls[-1]

    monkeypatch.setattr(host_loop, "_next_calls", any_length)
    assert gb.sweep(mixed, over).identical(usual)
    assert len(calls) > 10
    meanings = usual["status"].attrs["flag_meanings"].split()
    words = [meanings[code] for code in usual["status"].values]
    tolerance = "converged_to_tolerance"
    assert words == [tolerance, tolerance, "diverged", "reached_steps"]


@pytest.mark.slow
def test_a_flow_without_an_end_has_the_same_bits_too(monkeypatch):
    def flow(seed):
        until = gb.Until(gap=1e-12)
        return build(1, seed, dynamics=gb.Flow(), until=until, save_at=[0.0, 0.5])

    usual = gb.sweep(flow, {"seed": range(3)})
    monkeypatch.setattr(host_loop, "_next_calls", lambda calls, seconds: 3)
    monkeypatch.setattr(host_loop, "FIRST_CALLS", 2)
    assert gb.sweep(flow, {"seed": range(3)}).identical(usual)


def test_a_member_that_cycles_does_not_move_the_others():
    """It looks stationary for a while; the others wait for it and are not advanced twice."""
    problem, net = gb.Regression(np.ones((1, 1)), np.ones(1), 0.5), gb.Deep([1, 1, 1])
    start = {"W1": np.full((1, 1), 0.9), "W2": np.full((1, 1), 0.9)}

    def make(rate):
        return gb.Setup(problem, net, start, gb.Descent(rate), gb.Until(steps=20_000),
                        record=[gb.observe.theta], save_at=[20_000])  # fmt: skip

    data = gb.sweep(make, {"rate": [1.2, 1e-4]})
    alone = gb.simulate(make(1e-4))
    np.testing.assert_allclose(data["theta_end"].sel(rate=1e-4), alone.theta, rtol=0, atol=1e-12)


def closures():
    """Inits whose closures have 1, 2 and 3 hidden directions, one of them the whole space."""
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=(4, 3)), rng.normal(size=(3, 1))
    P2 = np.diag([1.0, 1.0, 0.0])
    return {
        "one": {"W1": 0.3 * u[:, :1] @ v.T, "W2": 0.5 * v},
        "two": {"W1": 0.3 * u @ P2, "W2": 0.5 * P2 @ v},
        "all": {"W1": 0.3 * u, "W2": 0.5 * v},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "dynamics",
    [
        gb.Descent(0.02, gb.Minibatch(2), momentum=0.5, weight_decay=0.01),
        gb.Diffusion(0.02, gb.LabelNoise(0.3), 0.02),
    ],
    ids=["sgd", "sde"],
)
def test_closures_of_unequal_size_share_programs(dynamics):
    inits = closures()
    time = 6.0 if isinstance(dynamics, gb.Diffusion) else 300

    def make(init, seed):
        until = gb.Until(time=time) if time == 6.0 else gb.Until(steps=300)
        return gb.Setup(PROBLEM, NET, inits[init], dynamics, until, key=seed, save_at=[0, time],
                        record=[gb.observe.theta, gb.observe.params])  # fmt: skip

    over = {"init": list(inits), "seed": [0, 1]}
    sizes = {name: gb.simulate(make(name, 0)).stats["reduction"] for name in inits}
    assert len(set(sizes.values())) == 3  # else this tests nothing
    data = gb.sweep(make, over, chunk=2)
    with count_compilations() as compiled:
        again = gb.sweep(make, over, chunk=2)
    assert compiled.count == 0
    assert again.identical(data)
    # Closures that leave something out watch how far errors can grow, and are one program; the one
    # that leaves nothing out has nothing to watch.
    assert len({id(chunk.group) for chunk in _chunks(make, over, 2)}) == 2
    for name in inits:
        alone = gb.simulate(make(name, 1))
        member = data.sel(init=name, seed=1)
        for variable in alone.data:
            np.testing.assert_allclose(member[variable], alone.data[variable], rtol=0, atol=1e-10)


def _chunks(make, over, chunk):
    from gradbias._sweeps.grid import Grid
    from gradbias._sweeps.members import Members
    from gradbias.numerics.precision import float64

    with float64():
        return chunking.chunks_of(Members(make, Grid.of(over), None, stored=False), chunk)


@pytest.mark.slow
def test_data_of_unequal_rank_are_one_program():
    X = np.random.default_rng(5).normal(size=(6, 4))
    flat = X @ np.diag([1.0, 1.0, 1.0, 0.0])
    Y = np.random.default_rng(6).normal(size=6)

    def make(data, seed):
        problem = gb.Regression.half_mean({"full": X, "flat": flat}[data], Y)
        return gb.Setup(problem, NET, gb.init.gaussian(NET, 0.4, key=seed),
                        gb.Descent(0.02, gb.Minibatch(2)), gb.Until(steps=100), key=seed,
                        save_at=[0, 100])  # fmt: skip

    over = {"data": ["full", "flat"], "seed": [0, 1]}
    assert len({id(chunk.group) for chunk in _chunks(make, over, 2)}) == 1
    swept = gb.sweep(make, over)
    for kind in over["data"]:
        alone = gb.simulate(make(kind, 1))
        member = swept.sel(data=kind, seed=1)
        np.testing.assert_allclose(member["theta"], alone.data["theta"], rtol=0, atol=1e-10)
        np.testing.assert_allclose(member["loss"], alone.data["loss"], rtol=0, atol=1e-10)


def test_much_smaller_closures_are_not_padded():
    """A balanced net of one direction a layer would cost a hundred times what it does alone."""
    problem = gb.problems.gaussian(n=80, d=80, key=1, loss="half_mean")
    net = gb.TwoLayer(80, 1, 90)
    one = np.random.default_rng(0).normal(size=(80, 1))
    v = np.random.default_rng(1).normal(size=(90, 1))

    def make(init):
        params = {"W1": 0.01 * one @ v.T, "W2": 0.1 * v}
        if init == "gaussian":
            params = gb.init.gaussian(net, 0.1, key=0)
        return gb.Setup(problem, net, params, gb.Descent(0.01), gb.Until(steps=3), save_at=[0, 3])

    assert len({id(c.group) for c in _chunks(make, {"init": ["gaussian", "one"]}, None)}) == 2


def test_chunks_are_a_function_of_the_grid_alone():
    sizes = [len(c.members) for c in _chunks(build, {"rate": [0.01], "seed": range(140)}, None)]
    assert sizes == [70, 70]
    long = _chunks(lambda rate, seed: build(rate, seed, steps=10**9), OVER, None)
    assert [len(c.members) for c in long] == [10]  # not below what side by side is good for
