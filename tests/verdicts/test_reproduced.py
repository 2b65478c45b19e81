"""Before a theorem is refuted its error must come again, with other rounding or a smaller step."""

import dataclasses

import numpy as np
import pytest

import gradbias as gb
from gradbias import theorems as th
from gradbias._verdicts import reproduced as _reproduced
from gradbias._verdicts.judge import judged
from gradbias._verdicts.predict import Prediction
from gradbias._verdicts.reproduced import reproduced
from gradbias._verdicts.runs import execute
from gradbias.testing import random_setups
from theorems import toy


def told(theorem, setup):
    return Prediction(theorem, setup, theorem.check(setup))


def by_itself(prediction):
    return judged(prediction, execute(prediction.theorem.runs_of(prediction.setup)))


def verdicts(theorem, setup):
    prediction = told(theorem, setup)
    return reproduced(by_itself(prediction), prediction, by_itself)


def wrong(setup):
    return {"theta": 1.03 * toy.predict(setup)["theta"]}


def test_a_prediction_that_is_wrong_is_refuted_twice():
    assert verdicts(toy.theorem(predict=wrong), toy.setup(0))[0].verdict == "refuted"


def test_an_error_that_rounding_makes_refutes_nothing():
    """A measurement of last digits: on a nudged start they are others."""

    def digits(run):
        theta = np.asarray(run.setup.params["W1"])[:, 0]
        return {"theta": toy.measure(run)["theta"].value + np.sin(1e16 * theta)}

    setup = toy.setup(0)
    unstable = toy.theorem(measure=digits)
    assert by_itself(told(unstable, setup))[0].verdict == "refuted"
    found = verdicts(unstable, setup)[0]
    assert found.verdict == "inconclusive" and "rounding" in found.reason


def test_zeros_and_equal_numbers_stay_so_in_the_nudged_start():
    params = {"W1": np.array([[0.3], [0.0], [0.3], [-0.7]])}
    nudged = _reproduced._nudged(toy.setup(0).replace(params=params)).params["W1"]
    assert nudged[1] == 0 and nudged[0] == nudged[2] != 0.3
    np.testing.assert_allclose(nudged, params["W1"], rtol=1e-14)


def of_order_lr(setup):
    return 1e-3 * float(setup.dynamics.lr)


@pytest.mark.parametrize(("power", "word"), [(0, "refuted"), (1, "inconclusive")])
def test_where_a_small_step_is_a_hypothesis_the_error_must_stay_with_a_smaller_one(power, word):
    """An error of order lr whose constant was told too small is none of the theorem's."""
    small = th.Hypothesis("the step is small", of_order_lr, 1.0, graded=True, order="O(lr)")

    def off(setup):
        return {"theta": (1 + float(setup.dynamics.lr) ** power) * toy.predict(setup)["theta"]}

    theorem = toy.theorem(predict=off, hypotheses=[small])
    setup = toy.setup(0, flow=False, until=gb.Until(steps=2000))
    found = verdicts(theorem, setup)[0]
    assert found.verdict == word, found
    assert ("4 times smaller" in found.reason) == (power == 1)


@pytest.mark.parametrize(
    ("number", "theorem", "word"),
    [
        # Steps beyond 2/sharpness: 1e-15 grows to 0.5, and charges move by more than O(lr).
        pytest.param(202, "imbalance.appD", "inconclusive", marks=pytest.mark.slow),
        pytest.param(411, "rank1.lemma1", "inconclusive", marks=pytest.mark.slow),
        # Runs that stop at different saves.
        (57, "rank1.equivalence", "holds"),
        # A drift of little more than rounding.
        (407, "spectral.gd", "holds"),
        # Two terms that cancel for data of rank one.
        pytest.param(424, "rank1.sgd.sde", "holds", marks=pytest.mark.slow),
        # Slopes across a residual that has nearly gone, and a first layer that is rounding.
        pytest.param(237, "equilibrium.thm4.3.4", "holds", marks=pytest.mark.slow),
        pytest.param(238, "equilibrium.thm4.3.4", "holds", marks=pytest.mark.slow),
        # Neither noise nor motion: 0/0.
        pytest.param(226, "equilibrium.eq7", "holds", marks=pytest.mark.slow),
        pytest.param(226, "equilibrium.prop5.1", "holds", marks=pytest.mark.slow),
        pytest.param(16, "imbalance.bias_law", "holds", marks=pytest.mark.slow),
        pytest.param(72, "imbalance.bias_law", "holds", marks=pytest.mark.slow),
    ],
)
def test_random_setups_that_were_refuted(number, theorem, word):
    found = gb.check(random_setups(number + 1)[number], theorem, progress=False).verdicts
    assert found[theorem].verdict == word, str(found)


def test_noise_that_is_rounding_pulls_no_unit():
    setup = random_setups(209)[208]
    found = gb.check(setup, "equilibrium.thm4.3.2", progress=False).verdicts
    assert found["equilibrium.thm4.3.2"].verdict == "not applicable"


def test_a_run_without_an_end_is_named_instead_of_an_error():
    setup = random_setups(214)[213]  # diverges at step 7
    (found,) = gb.check(setup, "rank1.rowspace", progress=False).verdicts
    assert found.verdict == "inconclusive" and "diverged at step 7" in found.reason


def test_a_theorem_may_say_that_its_runs_decide_nothing():
    def nothing(runs):
        raise th.Undecided("more steps would decide")

    (found,) = by_itself(told(toy.theorem(measure=nothing), toy.setup(0)))
    assert found.verdict == "inconclusive" and found.reason == "more steps would decide"


def test_what_is_allowed_must_be_a_number():
    def unknown(setup):
        return th.Told(wrong(setup), expected={"theta": np.nan})

    (found,) = by_itself(told(toy.theorem(predict=unknown), toy.setup(0)))
    assert found.verdict == "inconclusive" and "allowed is not a number" in found.reason


def test_zero_against_zero_agrees():
    nothing = th.measured(np.zeros(3))
    assert th.difference(th.equals(np.zeros(3)), nothing).error == 0
    with pytest.raises(ValueError, match="scale="):
        th.difference(th.equals(np.zeros(3)), dataclasses.replace(nothing, value=np.ones(3)))
