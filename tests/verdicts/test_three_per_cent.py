"""A prediction that is made three per cent wrong does not hold, on an instance of every theorem."""

import dataclasses

import numpy as np
import pytest

from gradbias import theorems as th
from gradbias._verdicts.judge import judge_runs
from gradbias._verdicts.predict import Prediction
from gradbias._verdicts.runs import execute

WRONG = 0.03
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
        yield pytest.param(theorem, id=theorem.id, marks=marks)


def wrong(claim):
    if claim.relation != "=":
        return claim  # a bound need not be tight
    if np.any(claim.value):
        return dataclasses.replace(claim, value=np.asarray((1 + WRONG) * claim.value))
    scale = 1.0 if claim.scale is None else claim.scale
    return dataclasses.replace(claim, value=np.asarray(claim.value + WRONG * scale))


@pytest.mark.parametrize("theorem", list(_cases()))
def test_a_prediction_that_is_three_per_cent_wrong_does_not_hold(theorem):
    setup = theorem.instances(0)
    relations = set()

    def mutated(*given):
        told = theorem.predict(*given)
        told = told if isinstance(told, th.Told) else th.Told(told)
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
