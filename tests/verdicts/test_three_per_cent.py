"""A prediction that is made three per cent wrong does not hold, on an instance of every theorem."""

import dataclasses

import numpy as np
import pytest

from gradbias import theorems as th
from gradbias._verdicts.compare import judge_runs
from gradbias._verdicts.predict import Prediction
from gradbias._verdicts.runs import execute

WRONG = 0.03
# What three per cent passes by: means over ensembles, and what a finite step or width brings.
BLUNT = {
    "spectral.noise.clock",
    "spectral.noise.loss",
    "spectral.noise.slow",
    "spectral.noise.prop4.1b",
    "spectral.noise.prop4.1c",
    "spectral.noise.collapse",
    "zeroloss.lemmaC.8",
    "zeroloss.thm4.6",
    "zeroloss.cor5.1.stationary",
    "zeroloss.lemmaD.13",
    "zeroloss.plateau",
    "zeroloss.remarkB.10",
    "zeroloss.thm6.1",
    "zeroloss.thm6.7",
    "imbalance.infinite_width",
    "equilibrium.eq7",
    "equilibrium.timescales",
    "equilibrium.lemmaB.5",
    "equilibrium.eq15.init",
    "equilibrium.eq14",
    "equilibrium.eq15.end",
    "equilibrium.thm5.4.sgd",
    "equilibrium.eq20",
    "equilibrium.eq23",
    "equilibrium.eq24",
}
QUICK = {
    "equilibrium.eq98",
    "equilibrium.thm4.3.2",
    "equilibrium.thm4.3.4",
    "equilibrium.lemmaB.1",
    "rank1.rowspace",
    "zeroloss.eq12",
}


def _cases():
    for theorem in th.find("*"):
        marks = [] if theorem.id in QUICK else [pytest.mark.slow]
        if theorem.id in BLUNT:
            marks.append(pytest.mark.xfail(strict=True, reason="its allowance is wider"))
        yield pytest.param(theorem, id=theorem.id, marks=marks)


def wrong(claim):
    if claim.relation != "=":
        return claim  # a bound need not be tight
    if np.any(claim.value):
        return dataclasses.replace(claim, value=(1 + WRONG) * claim.value)
    scale = 1.0 if claim.scale is None else claim.scale
    return dataclasses.replace(claim, value=claim.value + WRONG * scale)


@pytest.mark.parametrize("theorem", list(_cases()))
def test_a_prediction_that_is_three_per_cent_wrong_does_not_hold(theorem):
    setup = theorem.instances(0)
    relations = set()

    def mutated(*given):
        told = theorem.tell(*given)
        relations.update(claim.relation for claim in told.claims.values())
        return dataclasses.replace(
            told, values={name: wrong(claim) for name, claim in told.claims.items()}
        )

    worse = dataclasses.replace(theorem, predict=mutated)
    runs = execute(theorem.runs_of(setup))
    found = judge_runs(Prediction(worse, setup, worse.check(setup)), runs)
    if "=" not in relations:
        pytest.skip("it has bounds only")
    assert any(verdict.verdict != "holds" for verdict in found), found
