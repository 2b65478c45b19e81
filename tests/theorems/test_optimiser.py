"""Theorems about optimisers: they hold, their controls break, and Adam is taken for no flow."""

import numpy as np
import pytest

import gradbias as gb
from cases import case, data
from gradbias.theorems.optimiser import THEOREMS
from theorem_cases import each_theorem


@pytest.mark.one_in(4)
@pytest.mark.parametrize("theorem", each_theorem(THEOREMS))
def test_theorem(theorem):
    found = gb.verify(theorem, instances=1, key=7)
    assert found.exit_code == 0, str(found)
    assert theorem.controls and "\\" not in gb.theorems.to_unicode(theorem.statement)


# What is true at every point, however one came there.
POINTWISE = {"imbalance.lemmaE.1", "equilibrium.prop5.3", "rank1.sgd.sde"}
OPTIMISERS = {
    "adam": gb.Adam(0.01),
    "adam with ε": gb.Adam(0.01, weight_decay=0.1, noise=gb.Minibatch(2)),
    "lion": gb.Lion(0.01, weight_decay=0.1),
    "signs": gb.Steepest(0.01, gb.geometry.Linf, 0.9),
    "sam of adam": gb.SAM(0.1, gb.Adam(0.01)),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dynamics", OPTIMISERS.values(), ids=list(OPTIMISERS))
@pytest.mark.parametrize("net", ["two layers", "deep", "rank one", "one layer"])
def test_coordinate_steps_are_no_gradient_descent(net, dynamics):
    """Of what is known of flow and descent nothing is said of them."""
    problem, net, params = case(net)
    setup = gb.Setup(problem, net, params, dynamics, gb.Until(steps=100))
    told = {prediction.theorem.id for prediction in gb.predict(setup)}
    assert told - POINTWISE <= {"optimiser.update_bound"}


def test_muon_keeps_what_data_do_not_see():
    """A step is a combination of the data's rows: the one thing known of flows that is left."""
    problem, net, params = case("two layers")
    setup = gb.Setup(problem, net, params, gb.Muon(0.01), gb.Until(steps=100))
    verdict = gb.check(setup, only="rank1.rowspace").verdicts["rank1.rowspace"]
    assert verdict.verdict == "holds"


def test_a_user_is_told_where_adamw_ends():
    """One layer, ε = 0; with ε the sentence says that the geometry is not known."""
    X, Y = data(n=30, d=5, k=1)
    problem = gb.Regression.half_mean(X, Y)
    net = gb.Deep([5, 1])
    params = {"W1": np.zeros((5, 1))}

    def setup(eps):
        dynamics = gb.Adam(lambda k: 0.05 / (1 + k / 100), (0.9, 0.99), eps, 1.0)
        return gb.Setup(problem, net, params, dynamics, gb.Until(steps=20_000), save_at=[20_000])

    assert gb.check(setup(0.0), only="optimiser.*").verdicts["optimiser.decay_box"].verdict == (
        "holds"
    )
    words = " ".join(str(gb.predict(setup(1e-8), only="optimiser.decay_box")).split())
    assert "optimiser.decay_box needs that the geometry is known" in words
