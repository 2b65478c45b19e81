"""Power: the smallest change of a prediction that is refuted, against what arithmetic says."""

import math

import numpy as np
import pytest

from gradbias import theorems as th
from gradbias._verdicts.power import power, refuted, scaled


@pytest.mark.parametrize("value", [2.0, -3e-5, np.array([1.0, -2.0, 5.0])])
@pytest.mark.parametrize("margin", [1e-9, 1e-3, 0.05])
def test_an_equality_that_is_met_notices_what_is_allowed(value, margin):
    # (1 + p)v is off by p / (1 + p) of itself, (1 - p)v by p / (1 - p).
    found = power(th.equals(value), th.measured(value), margin)
    assert found == pytest.approx(margin / (1 - margin), rel=1e-9)


def test_a_measurement_that_is_off_notices_later_to_its_side():
    # (1 + p) 1 against 1.02: refuted from (p - 0.02) / (1 + p) > 0.03 on.
    found = power(th.equals(1.0), th.measured(1.02), 0.03)
    assert found == pytest.approx(0.05 / 0.97, rel=1e-9)


def test_its_own_error_and_the_factor_count():
    seen = th.measured(4.0, error=0.2)
    # |p| 4 against 10 (0.01 (1 + p) 4 + 0.2)
    found = power(th.equals(4.0, scale=4.0), seen, 0.01, times=10.0)
    assert found == pytest.approx(10 * (0.01 + 0.05), rel=1e-9)


def test_a_value_that_is_nothing_beside_its_scale_moves_by_that():
    assert power(th.equals(1e-9, scale=1.0), th.measured(0.0), 1e-3) == pytest.approx(
        1e-3, rel=1e-5
    )
    # One that is hidden by its scale, but not quite, has to grow until it shows.
    assert power(th.equals(1e-2, scale=1.0), th.measured(1e-2), 9e-3) == pytest.approx(0.9)


def test_where_everything_is_allowed_there_is_no_power():
    assert power(th.equals(1.0), th.measured(1.0), math.inf) == math.inf
    assert power(th.equals(1.0), th.measured(1.0), 1.0) == math.inf


def test_a_claim_of_zero_moves_by_its_scale():
    assert power(th.equals(0.0, scale=7.0), th.measured(0.0), 1e-6) == pytest.approx(1e-6)
    assert power(th.at_most(0.0, scale=7.0), th.measured(-7.0), 1e-6) == pytest.approx(1 + 1e-6)


@pytest.mark.parametrize("slack", [1.0, 1.5, 80.0])
def test_the_power_of_a_bound_is_its_slack(slack):
    # (1 - p) slack < 1 is refuted; up to the margin, which is relative to the bound.
    above = power(th.at_most(slack), th.measured(1.0), 1e-12)
    assert above == pytest.approx(1 - 1 / slack, abs=1e-10)
    below = power(th.at_least(1.0), th.measured(slack), 1e-12)
    assert below == pytest.approx(slack - 1, abs=1e-9)


def test_entries_without_a_bound_do_not_count():
    found = power(th.at_most([np.inf, 2.0]), th.measured([5.0, 1.0]), 1e-12)
    assert found == pytest.approx(0.5, abs=1e-10)


def test_what_is_just_above_the_power_is_refuted_and_what_is_below_is_not():
    rng = np.random.default_rng(0)
    for _ in range(200):
        value = rng.normal(size=3) * 10.0 ** rng.integers(-8, 8)
        margin = 10.0 ** rng.uniform(-9, -1.5)
        seen = th.measured(
            value * (1 + 0.5 * margin * rng.normal(size=3)),
            standard_error=np.abs(value) * margin * rng.random() / 8,
        )
        claim = th.equals(value)
        if refuted(claim, seen, margin):
            continue
        p = power(claim, seen, margin)
        both = [refuted(scaled(claim, 1 + s * 1.001 * p), seen, margin) for s in (1, -1)]
        assert all(both)
        both = [refuted(scaled(claim, 1 + s * 0.999 * p), seen, margin) for s in (1, -1)]
        assert not all(both)
