"""Every public function of `gb.theory` is the same in other units, over 1e±100 and beyond."""

import functools

import pytest

from theory import units_rows, units_rows_imbalance  # noqa: F401  the latter enters its rows
from theory.units_table import Units, Unrepresentable, expect_same

ROWS = units_rows.ROWS
SLOW = {"infinite_width_limit", "infinite_width_trace"}  # seconds for one call

# Exponents of two, of inputs, predictors and the weight: 332 is 1e100.
QUICK = [(332, 0, 0), (-332, 0, 0), (0, 332, 0), (0, -332, 0), (332, -332, 0), (-332, 332, 0)]
GRID = [
    (x, b, w)
    for x in (-332, -150, 0, 60, 332)
    for b in (-664, -332, -60, 0, 150, 332, 664)
    for w in (-700, 0, 40, 700)
]


@functools.cache
def base(name):
    factors, call = ROWS[name]
    return call(Units(0, 0, 0, factors))


def compare(name, units):
    factors, call = ROWS[name]
    point = Units(*units, factors)
    try:
        found = call(point)
    except Unrepresentable:
        return
    except ValueError as error:
        if type(error) is not ValueError:  # a raw LinAlgError
            raise
        if "float64" in str(error) and max(abs(point.t), abs(point.loss)) > 900:
            return  # a rate or a loss that no number can hold, and a sentence that says so
        raise AssertionError(f"{name} at {units}: {error}") from None
    expect_same(found, base(name))


@pytest.mark.parametrize("name", sorted(set(ROWS) - SLOW))
def test_the_same_in_other_units(name):
    for units in QUICK:
        compare(name, units)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_same_in_other_units_on_a_grid(name):
    for units in GRID:
        compare(name, units)
