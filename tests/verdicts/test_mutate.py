"""Predictions made wrong: who notices, and what is no excuse."""

import dataclasses

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


def test_an_exception_in_a_wrong_formula_is_a_row():
    def fails(*given):
        raise RuntimeError("no such term")

    theorem = toy.theorem(terms={"broken": fails})
    first = next(iter(rows_and_mutations_of(theorem, instances=1, key=0)))
    assert isinstance(first, Row) and first.verdict == "error" and "no such term" in first.reason
