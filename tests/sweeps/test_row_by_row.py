"""Every row of a sweep is what a simulation of its member alone gives, whatever the others do.

Members that run one after the other have the bits of a single run; a Flow always does, since
rounding decides which of its steps are kept. Members of Descent and Diffusion that advance side by
side are multiplied by other kernels: what is left is rounding; a row that belongs to another time,
or to nobody, is not.
"""

import numpy as np
import pytest

import gradbias as gb
from gradbias._engine import stacking
from gradbias._engine.status import Ending

X = np.random.default_rng(0).normal(size=(6, 4))
Y = np.random.default_rng(1).normal(size=(6, 2))
NETS = (gb.TwoLayer(4, 2, 5), gb.Deep([4, 3, 3, 2]), gb.MLP([4, 3, 2], "tanh"))
KINDS = ("Descent", "Diffusion", "Flow")
CLOSE = 1e-9  # of members side by side; those of a Flow never are


def descent(rng, lr):
    noise = [None, gb.Minibatch(2), gb.LabelNoise(0.1)][rng.integers(3)]
    rate = lr if rng.random() < 0.7 else gb.dynamics.piecewise({0: lr, 17: 0.5 * lr})
    return gb.Descent(rate, noise, momentum=float(rng.choice([0.0, 0.8])))


def member_maker(seed, kind):
    """A function of m: members of one sweep that end in different ways, at different times."""
    rng = np.random.default_rng(seed)
    net, noise_seed = NETS[rng.integers(len(NETS))], int(rng.integers(1000))
    last = int(rng.integers(20, 400))
    saves = np.unique([0, *rng.integers(1, last + 1, size=5), last])
    gap = None if rng.random() < 0.3 else float(10.0 ** rng.uniform(-9, -1))
    scales, stretches = 10.0 ** rng.uniform(-6, 0.5, size=8), 10.0 ** rng.uniform(-0.5, 0.3, size=8)
    # Every fourth diverges; every fifth does not move at all.
    rates = 10.0 ** rng.uniform(-2, -0.7, size=8) * np.where(np.arange(8) % 4 == 3, 300.0, 1.0)
    rates = np.where(np.arange(8) % 5 == 4, 1e-19, rates)

    def build(m):
        problem = gb.Regression.half_mean(stretches[m] * X, Y)
        params = gb.init.gaussian(net, scales[m], key=m)
        if kind == "Flow":
            times, limit = 0.1 * saves, gb.Until(gap=gap, time=0.1 * last)
            return gb.Setup(problem, net, params, gb.Flow(), limit, save_at=times)
        if kind == "Diffusion":
            moves = gb.Diffusion(0.01, gb.LabelNoise(0.1), 0.02)
            limit = gb.Until(gap=gap, time=0.02 * last)
            return gb.Setup(problem, net, params, moves, limit, save_at=0.02 * saves, key=m)
        moves = descent(np.random.default_rng(noise_seed), float(rates[m]))
        limit = gb.Until(gap=gap, steps=last, check_every=10)
        return gb.Setup(problem, net, params, moves, limit, save_at=saves, key=m)

    return build


def compare(seed, kind, members, record):
    build = member_maker(seed, kind)
    data = gb.sweep(build, {"m": range(members)}, record=record, progress=False)
    for m in range(members):
        run = gb.simulate(build(m).replace(record=record), progress=False)
        what = f"kind {kind}, seed {seed}, member {m}: {run.status}"
        row = data.isel(m=m)
        assert Ending(int(row["status"])) is run.status.ending, what
        for name in record:
            ours, alone = row[name].values, run.data[name].values
            np.testing.assert_array_equal(np.isnan(ours), np.isnan(alone), err_msg=what)
            if kind == "Flow" or stacking.VMAP_BYTES == 0:
                np.testing.assert_array_equal(ours, alone, err_msg=what)
            elif run.status != "diverged":  # on the way to infinity rounding grows, too
                size = np.nanmax(np.abs(alone), initial=0.0)
                np.testing.assert_allclose(ours, alone, rtol=CLOSE, atol=CLOSE * size, err_msg=what)
        assert float(row["stopped_at"]) == run.status.at, what


WAYS = pytest.mark.parametrize("vmap_bytes", [0, stacking.VMAP_BYTES], ids=["one by one", "vmap"])


LONG = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("Diffusion", "Flow")]


@WAYS
@pytest.mark.parametrize("kind", ["Descent", *LONG])
def test_rows_of_a_sweep_are_those_of_single_runs(kind, vmap_bytes, monkeypatch):
    monkeypatch.setattr(stacking, "VMAP_BYTES", vmap_bytes)
    compare(3, kind, 5, {"loss": gb.observe.loss})


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(60))
def test_rows_of_many_sweeps_are_those_of_single_runs(seed, kind, vmap_bytes, monkeypatch):
    monkeypatch.setattr(stacking, "VMAP_BYTES", vmap_bytes)
    compare(seed, kind, 8, {"loss": gb.observe.loss})
