"""Predictions made wrong: who notices, and what is no excuse."""

import gradbias as gb
from gradbias._verdicts.mutate import mutate
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
