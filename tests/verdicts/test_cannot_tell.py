"""Runs, predictions and measurements that decide nothing: inconclusive, with the reason."""

import dataclasses

import numpy as np
import pytest

import gradbias as gb
from gradbias import theorems as th
from gradbias._verdicts.judge import judge_runs
from gradbias._verdicts.predict import Prediction
from gradbias._verdicts.runs import execute
from theorems import toy


def verdict(theorem, setup, strict=True, runs=None):
    runs = execute(theorem.runs_of(setup)) if runs is None else runs
    return judge_runs(Prediction(theorem, setup, theorem.check(setup)), runs, strict)[0]


def told(**changes):
    """The right prediction, changed."""

    def predict(setup):
        return dataclasses.replace(th.Told(toy.predict(setup)), **changes)

    return toy.theorem(predict=predict)


def test_the_toy_holds_and_its_power_is_its_tolerance():
    found = verdict(toy.theorem(), toy.setup(0))
    assert found.verdict == "holds"
    assert found.power == pytest.approx(1e-8, rel=0.2)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("until", "dynamics", "words"),
    [
        (gb.Until(gap=1e-24, time=3.0), gb.Flow(), "reached time"),
        (gb.Until(gap=1e-24, steps=20), gb.Descent(0.1), "reached steps"),
        (gb.Until(steps=2000), gb.Descent(1e3), "diverged"),
        (gb.Until(steps=20), gb.Descent(1e-19), "steps too small"),
    ],
)
def test_a_run_that_has_not_come_to_its_end(until, dynamics, words, strict):
    setup = toy.setup(0).replace(until=until, dynamics=dynamics, save_at=[0, 1])
    run = gb.simulate(setup, progress=False)
    # What it shows is what is predicted: that must not count.
    agrees = toy.theorem(
        predict=lambda setup: {"theta": np.ravel(run.theta)},
        measure=lambda run: {"theta": np.ravel(run.theta)},
    )
    found = verdict(agrees, setup, strict, {"run": run})
    assert found.verdict == "inconclusive"
    assert words in found.reason
    assert np.isnan(found.power)


def test_the_course_of_a_run_needs_no_end():
    setup = toy.setup(0).replace(until=gb.Until(gap=1e-24, time=3.0), save_at=[0, 1, 3])

    def at_start(setup):
        return {"theta": np.ravel(setup.params["W1"])}

    course = toy.theorem(
        predict=at_start,
        measure=lambda run: {"theta": run.data["theta"].values[0]},
        needs=[gb.observe.theta],
    )
    assert verdict(course, setup).verdict == "holds"


@pytest.mark.parametrize(
    ("theorem", "words"),
    [
        (told(residual=1e3), "own residual is 1"),
        (told(residual=float("nan")), "own residual"),
        (told(expected={"theta": 5.0}), "is 5, more than 0.05: too large to tell"),
        (told(values={"theta": np.zeros(0)}), "empty"),
        (told(values={"theta": np.full(toy.D, np.nan)}), "the prediction is not finite"),
        (told(values={"theta": th.at_most(np.full(toy.D, np.inf))}), "the bound is not finite"),
        (told(values={"theta": th.equals(np.zeros(toy.D), scale=np.inf)}), "the scale"),
    ],
)
def test_a_prediction_that_says_nothing(theorem, words):
    if theorem.predict(toy.setup(0)).claims["theta"].value.size == 0:
        theorem = dataclasses.replace(theorem, measure=lambda run: {"theta": np.zeros(0)})
    found = verdict(theorem, toy.setup(0))
    assert found.verdict == "inconclusive"
    assert words in found.reason


@pytest.mark.parametrize("spread", [np.nan, np.inf, 1.0])
def test_a_measurement_without_an_error_of_its_own(spread):
    def measure(run):
        return {"theta": th.measured(run.theta, standard_error=np.full_like(run.theta, spread))}

    found = verdict(toy.theorem(measure=measure), toy.setup(0))
    assert found.verdict == "inconclusive"


def test_an_equality_that_allows_its_own_size_has_no_power():
    found = verdict(toy.theorem(tolerance=1.5), toy.setup(0))
    assert found.verdict == "inconclusive"
    assert "would be noticed" in found.reason


def ensemble(lrs, until):
    def members(setup):
        def build(lr):
            return setup.replace(dynamics=gb.Descent(lr), until=until, save_at=[0])

        return th.Ensemble(build, {"lr": lrs})

    def measure(runs):
        ends = runs["theta_end"] if "theta_end" in runs else runs["theta"].isel(step=0)
        return {"theta": th.measured(ends.median("lr"))}

    right = toy.theorem(runs=members, measure=measure, needs=[gb.observe.theta])
    setup = toy.setup(0)
    runs = execute(right.runs_of(setup))
    shown = measure(runs["run"])["theta"].value
    return verdict(dataclasses.replace(right, predict=lambda s: {"theta": shown}), setup)


def test_members_of_an_ensemble_count():
    steps = gb.Until(steps=30)
    assert ensemble([0.1, 0.11, 0.12], steps).verdict == "holds"
    found = ensemble([0.1, 0.11, 1e4], gb.Until(steps=2000))
    assert found.verdict == "inconclusive"
    assert "1 of 3 members ended as `diverged`" in found.reason


def test_a_run_of_another_setup_is_refused():
    run = gb.simulate(toy.setup(0), progress=False)
    theorem = toy.theorem()
    for other, path in [
        (toy.setup(0, scale=2.0), "params.W1"),
        (toy.setup(1), "problem.X"),
        (toy.setup(0, flow=False), "dynamics"),
    ]:
        prediction = Prediction(theorem, other, theorem.check(other))
        with pytest.raises(ValueError, match=f"run must be of the setup.*{path}"):
            gb.compare(run, prediction)
    # An equal setup that was made again is the same, and so is one with other saves.
    again = toy.setup(0).replace(save_at=[0.0, 1.0])
    prediction = Prediction(theorem, again, theorem.check(again))
    assert gb.compare(run, prediction)[0].verdict == "holds"


def test_a_step_that_is_too_large_says_which_would_tell():
    def margin(setup):
        return float(setup.dynamics.lr)

    graded = th.Hypothesis("the step is small", margin, 1.0, graded=True, order="O(lr)")
    theorem = toy.theorem(hypotheses=[graded], cap=0.02)
    setup = toy.setup(0, flow=False, until=gb.Until(gap=1e-24, steps=10**5))
    found = verdict(theorem, setup)
    assert found.verdict == "inconclusive"
    assert "not true enough that the step is small" in found.reason
    assert "lr = 0.01999 would tell" in found.reason
    slower = setup.replace(dynamics=gb.Descent(0.01999))
    assert verdict(theorem, slower).verdict == "holds"


def test_an_exception_is_a_row_and_the_rest_goes_on():
    def broken(setup):
        raise RuntimeError("no such thing")

    theorem = toy.theorem(id="toy.broken", predict=broken)
    found = gb.verify([theorem, toy.theorem()], instances=1)
    words = [(row.theorem, row.verdict) for row in found]
    assert words == [
        ("toy.broken", "error"),
        ("toy.broken", "error"),
        ("toy.frozen", "holds"),
        ("toy.frozen", "breaks"),
    ]
    first = next(iter(found))
    assert first.reason == "RuntimeError: no such thing"
    assert "in broken" in first.traceback
    assert found.exit_code == 1


def test_controls_break_a_hypothesis_or_are_called_wrong_formulas():
    def half(setup):
        return {"theta": 0.5 * toy.predict(setup)["theta"]}

    def row(control):
        return list(gb.verify(toy.theorem(controls=[control]), instances=1))[1]

    formula = th.Control("half of it", toy.setup, half, formula=True)
    assert (row(formula).what, row(formula).verdict) == ("wrong formula (half of it)", "breaks")
    # The same without saying so: no hypothesis refuses its setup.
    silent = row(th.Control("half of it", toy.setup, half))
    assert silent.verdict == "does not break"
    assert "no hypothesis refuses its setup" in silent.reason
    decay = th.Control("no weight decay", lambda k: toy.setup(k, decay=0.1), half, formula=True)
    assert "the setup is no instance" in row(decay).reason


def test_controls_must_miss_by_ten_times_all_that_instances_are_allowed():
    graded = th.Hypothesis("nearly", lambda s: 0.02, 0.1, graded=True)

    def off(setup):
        return {"theta": 1.1 * toy.predict(setup)["theta"]}

    control = th.Control("ten per cent", toy.setup, off, formula=True)
    sharp = toy.theorem(controls=[control])
    blunt = toy.theorem(controls=[control], hypotheses=[graded])
    assert list(gb.verify(sharp, instances=1))[1].verdict == "breaks"
    assert list(gb.verify(blunt, instances=1))[1].verdict == "does not break"
