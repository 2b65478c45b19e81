"""Predictions made wrong: who notices, and what is no excuse."""

import dataclasses

import numpy as np

import gradbias as gb
from gradbias._verdicts.mutate import mutate, mutations_of, rows_and_mutations_of
from gradbias._verdicts.verify import Row, rows_of
from theorems import toy


def test_a_sharp_theorem_notices_all_of_it():
    done = mutate(toy.theorem(), instances=1)
    assert done.exit_code == 0 and not done.blunt
    assert all(done.powers[0].noticed.values())


def test_a_wide_tolerance_lets_three_per_cent_pass():
    wide = mutate(toy.theorem(tolerance=0.1), instances=1)
    assert wide.exit_code == 1 and len(wide.blunt) == 1
    assert mutate(toy.theorem(tolerance=0.1, weak="for this reason"), instances=1).exit_code == 0


def test_an_instance_that_decides_nothing_is_not_excused():
    short = toy.theorem(
        instances=lambda key: toy.setup(key, until=gb.Until(gap=1e-24, time=0.3)), weak="so it is"
    )
    assert mutate(short, instances=1).exit_code == 1


def test_a_term_that_does_not_count_is_named():
    done = mutate(toy.theorem(terms={"nothing": toy.predict}), instances=1)
    assert done.exit_code == 1
    assert [one.what for one in done.missed] == ["without nothing"]


def test_rows_and_powers_of_the_same_runs_are_those_of_two_passes():
    theorem = toy.theorem(terms={"nothing": toy.predict})
    both = list(rows_and_mutations_of(theorem, instances=2, key=3))
    rows = [dataclasses.replace(one, seconds=0.0) for one in both if isinstance(one, Row)]
    alone = [dataclasses.replace(one, seconds=0.0) for one in rows_of(theorem, 2, 3)]
    assert repr(rows) == repr(alone)  # NaN is not equal to itself
    assert [one for one in both if not isinstance(one, Row)] == list(mutations_of(theorem, 2, 3))


def test_an_exception_in_a_wrong_formula_is_told_and_not_excused():
    def fails(*given):
        raise RuntimeError("no such term")

    done = mutate(toy.theorem(terms={"broken": fails, "nothing": toy.predict}), instances=1)
    assert done.exit_code == 1
    assert [one.reason for one in done.missed] == ["RuntimeError: no such term", ""]


def test_a_term_that_is_all_of_the_prediction_is_missed():
    """Without it nothing is predicted: a zero, which has no relative error of its own."""

    def nothing(setup):
        return {name: 0.0 * np.asarray(value) for name, value in toy.predict(setup).items()}

    done = mutate(toy.theorem(terms={"all of it": nothing}), instances=1)
    assert done.exit_code == 0 and not done.missed
