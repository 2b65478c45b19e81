"""A check of every theorem on a wide net costs what the reduced problem does."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import gradbias as gb
from gradbias._verdicts import which_run
from gradbias._verdicts.narrow_net import KEPT, narrow
from gradbias._verdicts.which_run import readings
from gradbias.numerics.jaxprs import inside
from gradbias.observe import Running

D, K, N = 12, 1, 6
MOVES = {
    "descent": gb.Descent(0.01),
    "momentum and decay": gb.Descent(0.01, momentum=0.5, weight_decay=0.1),
    "flow": gb.Flow(),
    "minibatches": gb.Descent(0.01, gb.Minibatch(2)),
    "label noise": gb.Descent(0.01, gb.LabelNoise(0.1)),
}


def wide(net, dynamics, **more):
    rng = np.random.default_rng(0)
    problem = gb.Regression.half_mean(rng.standard_normal((N, D)), rng.standard_normal((N, K)))
    last = gb.Until(time=5.0) if isinstance(dynamics, gb.Flow) else gb.Until(steps=200)
    params = gb.init.gaussian(net, std=0.1, key=0)
    return gb.Setup(problem, net, params, dynamics, last, **more)


@pytest.mark.parametrize("moves", ["momentum and decay", "minibatches"])
def test_a_narrow_net_moves_as_the_wide_one_does(moves):
    setup = wide(gb.TwoLayer(D, K, 200), MOVES[moves])
    small = narrow(setup)
    assert small is not None and small.net == gb.TwoLayer(D, K, KEPT + D + K)
    runs = [gb.simulate(s) for s in (setup, small)]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=0, atol=1e-12)
    kept = np.linspace(0, 199, KEPT).astype(int)
    np.testing.assert_allclose(
        runs[0].final["W1"][:, kept], runs[1].final["W1"][:, :KEPT], rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    ("net", "small"),
    [
        (gb.Deep((D, 300, 20, K)), gb.Deep((D, KEPT + D + 20, 20, K))),
        (gb.Rank1(D, 3, 300), gb.Rank1(D, 3, KEPT + 2)),
        (gb.TwoLayer(D, K, 64), None),
        (gb.Diagonal(D), None),
    ],
)
def test_the_narrow_net_has_the_same_predictor(net, small):
    setup = wide(net, MOVES["descent"])
    found = narrow(setup)
    assert (None if found is None else found.net) == small
    if found is not None:
        with gb.float64():
            thetas = [np.asarray(s.net.predictor(s.params)) for s in (setup, found)]
        np.testing.assert_allclose(thetas[0], thetas[1], rtol=0, atol=1e-14)


def test_units_that_a_rotation_would_round_away_are_not_rotated():
    setup = wide(gb.TwoLayer(D, K, 200), MOVES["descent"])
    tiny = {name: np.array(value) for name, value in setup.params.items()}
    tiny["W1"][:, 7] *= 1e-20
    tiny["W2"][7] *= 1e-20
    assert narrow(setup.replace(params=tiny)) is None
    assert narrow(setup.replace(dynamics=gb.Descent(0.01, gb.noise.Isotropic(0.1)))) is None


def largest(jaxpr):
    """The bytes of the largest array that a program makes."""
    own = [8 * int(np.prod(v.aval.shape)) for e in jaxpr.eqns for v in e.outvars]
    return max([*own, *(largest(sub) for e in jaxpr.eqns for sub in inside(e))], default=0)


@pytest.mark.parametrize("moves", MOVES)
def test_no_theorem_records_or_forms_anything_large_of_a_wide_net(moves):
    net = gb.TwoLayer(D, K, 10_000)
    setup = wide(net, MOVES[moves])
    told = gb.predict(setup)
    assert len(told) > 1
    for reading in readings(setup, told):
        assert not reading.trouble
        at, theorem = reading.prediction.setup, reading.prediction.theorem
        if theorem.runs is not None:
            assert at is narrow(setup) or theorem.id == "imbalance.bias_law"
            continue
        with gb.float64():
            for observable in theorem.observables.values():
                made = largest(jax.make_jaxpr(which_run._measured(at, observable))(at.params).jaxpr)
                assert made <= 8 * 10_000 * (D + K), (theorem.id, observable.name)
        rows = len(at.save_at) * which_run.bytes_of_needs(
            reading.prediction.theorem, reading.prediction.setup
        )
        assert rows <= which_run.HEAVY, theorem.id


def test_what_records_much_is_read_at_fewer_saves(monkeypatch):
    monkeypatch.setattr(which_run, "LIGHT", 2**13)
    monkeypatch.setattr(which_run, "HEAVY", 2**15)
    setup = wide(gb.TwoLayer(D, K, 10), MOVES["descent"])
    told = gb.predict(setup, "equilibrium.eq98")
    (reading,) = readings(setup, told)
    at = reading.prediction.setup.save_at
    assert 2 <= len(at) < len(setup.save_at)
    assert (at[0], at[-1]) == (setup.save_at[0], setup.save_at[-1])
    assert any(isinstance(f, Running) for f in told[0].theorem.observables.values())
    study = gb.check(setup, "equilibrium.eq98")
    assert study.verdicts.counts == {"holds": 1}
    monkeypatch.setattr(which_run, "HEAVY", 2**10)
    verdict = gb.check(setup, "equilibrium.eq98").verdicts[0]
    assert verdict.verdict == "inconclusive" and "130 parameters" in verdict.reason


WIDE_CHECK = """
import resource, numpy as np, gradbias as gb
rng = np.random.default_rng(0)
problem = gb.Regression.half_mean(rng.standard_normal((20, 50)), rng.standard_normal((20, 1)))
net = gb.TwoLayer(50, 1, 10_000)
params = gb.init.gaussian(net, std=0.003, key=0)
moves = {moves}
until = None if isinstance(moves, gb.Flow) else gb.Until(steps=1000)
study = gb.check(gb.Setup(problem, net, params, moves, until), progress=False)
assert study.verdicts.counts["holds"] >= 10, study
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "moves", ["gb.Descent(0.01)", "gb.Flow()", "gb.Descent(0.01, gb.Minibatch(2))"]
)
def test_every_theorem_on_width_10000_takes_a_gigabyte_at_most(moves):
    code = WIDE_CHECK.format(moves=moves)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("std", "lr", "said"),
    [(1e-2, 1e-3, "residual"), (0.1, 1e-2, "some draws of the start diverge")],
    ids=["unfinished", "diverged"],
)
def test_an_ensemble_without_limits_says_nothing_against_the_law_of_the_bias(std, lr, said):
    rng = np.random.default_rng(0)
    problem = gb.Regression.half_mean(rng.standard_normal((20, 50)), rng.standard_normal((20, 1)))
    net = gb.TwoLayer(50, 1, 10000)
    start, last = gb.init.gaussian(net, std=std, key=0), gb.Until(steps=1000)
    setup = gb.Setup(problem, net, start, gb.Descent(lr), last)
    rows = gb.check(setup, "imbalance.bias_law").verdicts
    assert "refuted" not in rows.counts, str(rows)
    assert rows[0].verdict == "inconclusive" and said in rows[0].reason
