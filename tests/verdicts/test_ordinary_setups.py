"""What gb.check says of setups as a new user writes them, with default settings."""

import re

import numpy as np
import pytest

import gradbias as gb
from gradbias import theorems as th
from gradbias._verdicts.judge import judge_runs, judged
from gradbias._verdicts.predict import Prediction
from gradbias._verdicts.reached_rows import reached
from gradbias._verdicts.remaining_distance import carried_on
from gradbias._verdicts.runs import execute
from gradbias.testing import random_setups
from programs import make_room
from theorems import toy
from verdicts import ordinary

RAISED = re.compile(r"\w*(Error|Exception|Warning): ")


def words(setup, only):
    """Verdict of every quantity that was compared."""
    found = gb.check(setup, only, progress=False).verdicts
    return {
        (v.theorem, v.quantity): (v.verdict, v.error, v.allowed, v.reason)
        for v in found
        if v.verdict != "not applicable"
    }


def doubtful(setup):
    """What speaks against a theorem, and what no theorem should have raised."""
    return [
        (v.theorem, v.quantity, v.error, v.allowed, v.reason)
        for v in gb.check(setup, progress=False).verdicts
        if v.verdict == "refuted" or RAISED.match(v.reason)
    ]


@pytest.mark.parametrize(
    "make",
    [
        *(pytest.param(make, id=name) for name, make in ordinary.QUICK.items()),
        *(pytest.param(m, id=name, marks=pytest.mark.slow) for name, m in ordinary.SLOW.items()),
    ],
)
def test_every_theorem_on_an_ordinary_setup(make):
    assert doubtful(make()) == []


@pytest.mark.parametrize(
    "dynamics",
    [
        pytest.param(gb.Descent(lr=0.02), id="descent"),
        pytest.param(gb.Flow(), id="flow"),
    ],
)
def test_the_setup_of_the_readme(dynamics):
    found = words(ordinary.readme(dynamics), "imbalance.*")
    assert len(found) >= 8
    # A start that is not Gaussian of variance 1/h has no bound of Theorem 2's kind.
    vacuous = {name for name, (_, _, _, why) in found.items() if why == "the bound is not finite"}
    assert {theorem for theorem, _ in vacuous} <= {"imbalance.eq42"}
    assert {found[name][0] for name in found.keys() - vacuous} == {"holds"}, found


@pytest.mark.parametrize(
    "only", ["spectral.rate", pytest.param("imbalance.thm1", marks=pytest.mark.slow)]
)
def test_a_flow_that_stops_early_is_not_at_later_times(only):
    """The last state was repeated at later saves, where bounds on the loss are far below it."""
    problem = gb.problems.gaussian(n=4, d=6, k=2, key=0)
    net = gb.TwoLayer(6, 2, 8)
    setup = gb.Setup(problem, net, gb.init.orthogonal(net, gamma=1e-2), gb.Flow())
    assert {word for word, *_ in words(setup, only).values()} <= {"holds"}


def test_rows_after_the_stop_are_cut_off_and_the_stop_has_one():
    for dynamics in (gb.Descent(0.1), gb.Flow()):
        most = {"steps": 10**6} if isinstance(dynamics, gb.Descent) else {"time": 1e4}
        setup = toy.setup(0).replace(dynamics=dynamics, until=gb.Until(gap=1e-12, **most))
        run = gb.simulate(setup)
        cut = reached({"run": run})["run"]
        axis = cut.data[run.status.axis].values
        assert run.status == "converged" and axis[-1] == run.status.at
        assert len(axis) < len(setup.save_at)
        np.testing.assert_array_equal(axis, cut.setup.save_at)
        assert np.isfinite(cut.data["loss"].values).all()
        np.testing.assert_array_equal(cut.data["theta"].values[-1], run.theta)
        if run.status.axis == "step":
            assert cut.data["time"].values[-1] == pytest.approx(0.1 * run.status.at)


def test_runs_that_are_compared_row_by_row_keep_the_same_rows():
    setup = toy.setup(0, until=gb.Until(gap=1e-12, time=1e4))
    long = setup.replace(until=gb.Until(gap=1e-20, time=1e4))
    cut = reached({"run": gb.simulate(setup), "other": gb.simulate(long)})
    assert len(cut["run"].data["time"]) == len(cut["other"].data["time"])


def test_a_run_is_carried_on_to_its_limit():
    """Gaps of 1e-6 and of 1e-24 end 1e-3 apart; to first order the way between is known."""
    problem = gb.problems.gaussian(n=3, d=4, key=0)
    net = gb.Diagonal(4)
    params = gb.init.gaussian(net, 0.5, key=1)
    moves = gb.Flow(rtol=1e-12, atol=1e-14)
    ends = [
        gb.simulate(gb.Setup(problem, net, params, moves, gb.Until(gap=g, time=1e4)))
        for g in (1e-6, 1e-24)
    ]
    moved = carried_on(ends[0])
    assert moved is not None and moved.close
    left, still = (
        max(np.abs(run.final[n] - ends[1].final[n]).max() for n in ("u", "v"))
        for run in (ends[0], moved.run)
    )
    assert left > 1e-4 and still < 0.02 * left


def test_what_is_left_is_not_told_far_from_the_limit():
    setup = toy.setup(0)
    net = gb.Diagonal(toy.D)
    early = gb.Setup(
        setup.problem, net, gb.init.constant(net, 1e-3), gb.Flow(), gb.Until(time=1e-3)
    )
    moved = carried_on(gb.simulate(early))
    assert moved is not None and not moved.close


def test_the_default_gap_refutes_no_limit():
    """n = 3 < d = 4, diagonal net: seven quantities were refuted by 2e-6 … 5e-6."""
    found = words(ordinary.diagonal(), "zeroloss.eq1*")
    assert found and {word for word, *_ in found.values()} == {"holds"}, found


def test_labels_that_contradict_each_other_are_no_case_of_label_noise():
    assert words(ordinary.diagonal("repeated"), "zeroloss.eq12") == {}


def test_charges_are_compared_in_one_order():
    setup = ordinary.rank1()
    assert words(setup, "equilibrium.eq98")[("equilibrium.eq98", "charge")][0] == "holds"


def test_a_descent_that_converges_is_judged_by_what_it_did():
    """Rows after the stop reached the theorems: "U must be finite, got nan"."""
    problem = gb.problems.gaussian(n=3, d=4, k=1, key=0)
    net = gb.TwoLayer(4, 1, 6)
    setup = gb.Setup(problem, net, gb.init.gaussian(net, 0.5, key=1), gb.Descent(0.05))
    assert words(setup, "equilibrium.eq98")[("equilibrium.eq98", "charge")][0] == "holds"


def test_times_between_saves_that_are_far_apart():
    found = words(ordinary.constant_diagonal(), "zeroloss.remarkB.10")
    assert found and all(word != "refuted" for word, *_ in found.values()), found


def _prediction(theorem, setup):
    return Prediction(theorem, setup, theorem.check(setup))


@pytest.mark.parametrize(
    ("factor", "word", "strictly"),
    [(0.5, "holds", "holds"), (5.0, "inconclusive", "refuted"), (20.0, "refuted", "refuted")],
)
def test_refuted_needs_ten_times_what_is_allowed(factor, word, strictly):
    setup = toy.setup(0)
    wrong = toy.theorem(
        tolerance=1e-3,
        predict=lambda s: {"theta": toy.predict(s)["theta"] * (1 + factor * 1e-3)},
    )
    runs, told = execute(wrong.runs_of(setup)), _prediction(wrong, setup)
    assert judged(told, runs)[0].verdict == word
    assert judge_runs(told, runs)[0].verdict == strictly
    if word == "inconclusive":
        assert "times what is allowed" in judged(told, runs)[0].reason


def test_an_exception_is_one_theorems_own():
    def fails(runs):
        raise TypeError("no such thing\nand more")

    broken = gb.register(toy.theorem(id="toy.broken", measure=fails))
    sound = gb.register(toy.theorem(id="toy.sound"))
    try:
        found = gb.check(toy.setup(0), "toy.*").verdicts
    finally:
        th.unregister(broken.id)
        th.unregister(sound.id)
    assert found["toy.sound"].verdict == "holds"
    assert found["toy.broken"].verdict == "inconclusive"
    assert found["toy.broken"].reason == "TypeError: no such thing"


def test_an_observable_that_fails_is_one_theorems_own():
    def fails(problem, net, params):
        raise KeyError("nothing here")

    broken = gb.register(toy.theorem(id="toy.broken", needs={"broken": fails}))
    sound = gb.register(toy.theorem(id="toy.sound"))
    try:
        found = gb.check(toy.setup(0), "toy.*").verdicts
    finally:
        th.unregister(broken.id)
        th.unregister(sound.id)
    assert found["toy.sound"].verdict == "holds"
    assert found["toy.broken"].verdict == "inconclusive"


def test_random_setups_are_drawn_by_their_key():
    few, more, other = random_setups(3), random_setups(6), random_setups(3, key=1)
    assert [repr(s.net) for s in few] == [repr(s.net) for s in more[:3]]
    for a, b, c in zip(few, more[:3], other, strict=True):
        np.testing.assert_array_equal(a.problem.X, b.problem.X)
        assert not np.array_equal(a.problem.X, c.problem.X)


def test_a_random_setup_refutes_nothing():
    assert doubtful(random_setups(6)[5]) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 500, 50))
def test_random_setups_refute_nothing(first):
    found = {}
    for number, setup in enumerate(random_setups(first + 50)):
        if number >= first and (rows := doubtful(setup)):
            found[number] = rows
        make_room()
    assert found == {}
