import numpy as np
import pytest

from gradbias.theorems import at_least, at_most, difference, equals, measured


def test_error_of_an_array_is_relative_to_its_norm():
    apart = difference(equals([3.0, 4.0]), measured([3.0, 4.5]))
    assert apart.error == pytest.approx(0.1)
    assert apart.own == 0


def test_error_by_entry_where_a_scale_is_given():
    apart = difference(equals([1.0, 100.0], scale=[1.0, 100.0]), measured([1.1, 101.0]))
    assert apart.error == pytest.approx(0.1)


@pytest.mark.parametrize(("claim", "value", "error"), [(at_most, 0.9, 0), (at_most, 1.2, 0.2)])
def test_a_bound_fails_on_one_side_only(claim, value, error):
    assert difference(claim([1.0, 1.0]), measured([0.1, value])).error == pytest.approx(error)
    low = difference(at_least(1.0), measured(2.0 - value)).error
    assert low == pytest.approx(error)


def test_ratio_is_where_a_bound_is_tightest():
    assert difference(at_most([1.0, 2.0]), measured([0.5, 1.9])).ratio == pytest.approx(0.95)
    assert difference(at_least([1.0, 2.0]), measured([3.0, 2.1])).ratio == pytest.approx(1.05)


def test_predicted_zero_needs_a_scale():
    with pytest.raises(ValueError, match="equals\\(0, scale"):
        difference(equals(0.0), measured(1e-3))
    with pytest.raises(ValueError, match="equals\\(0, scale"):
        difference(equals(np.zeros(3)), measured(np.ones(3)))
    assert difference(equals(0.0, scale=2.0), measured(1.0)).error == 0.5


def test_own_error_and_chance_are_counted():
    apart = difference(equals(2.0), measured(2.1, error=0.02, standard_error=0.05))
    assert apart.own == pytest.approx((0.02 + 4 * 0.05) / 2)


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"\(2,\) and measured shape \(3,\)"):
        difference(equals([1.0, 2.0]), measured([1.0, 2.0, 3.0]))


def test_extreme_sizes_do_not_overflow():
    big = np.array([1e200, 1e200])
    assert difference(equals(big), measured(big * (1 + 1e-10))).error == pytest.approx(
        1e-10, rel=1e-5
    )
    tiny = np.array([1e-200, 1e-200])
    assert difference(equals(tiny), measured(tiny * 2)).error == pytest.approx(1)


def test_not_a_number_is_not_agreement():
    assert np.isnan(difference(equals(1.0), measured(np.nan)).error)
