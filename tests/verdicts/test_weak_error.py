"""SGD against its limit: the statistics, and what is refused; runs are in tests/limit."""

import numpy as np
import pytest

import gradbias as gb
from gradbias._verdicts.weak_error_fit import EnsemblePair, errors_of, fitted_order, summary

PROBLEM = gb.Regression.half_mean(np.eye(3, 5), np.ones(3))
START = {"u": np.full(5, 1.0), "v": np.full(5, 0.8)}
NOISE = gb.LabelNoise(1.0, batch_size=1)


def setup(noise=NOISE, **options):
    return gb.Setup(PROBLEM, gb.Diagonal(5), START, gb.Descent(0.01, noise, **options))


def test_the_fit_of_an_order():
    rates = np.array([0.1, 0.05, 0.025])
    order, error = fitted_order(rates, 3 * rates**1.5, 0.3 * rates**1.5)
    assert order == pytest.approx(1.5)
    spread = 0.1 / np.sqrt(np.sum(np.log([2.0, 2.0]) ** 2))  # ±log 2 around the middle
    assert error == pytest.approx(spread)
    assert np.isnan(fitted_order(rates, np.array([np.nan, 1.0, np.nan]), rates)[0])
    assert np.isnan(fitted_order(np.array([0.1, 0.1]), np.ones(2), np.ones(2))[0])


@pytest.mark.parametrize("limit_members", [1, 30])
@pytest.mark.parametrize("shift", [0.0, 0.3, 3.0])
def test_errors_are_without_bias_and_their_standard_errors_true(limit_members, shift):
    """400 experiments in ten dimensions, whose plain norm of 30 members would be 0.3 too long."""
    rng = np.random.default_rng(0)
    true = np.zeros(10)
    true[0] = shift
    plain, found = [], []
    for _ in range(400):
        ours = true + rng.standard_normal((30, 1, 10))
        limit = rng.standard_normal((limit_members, 1, 10)) if limit_members > 1 else 0 * ours[:1]
        error, spread = errors_of(EnsemblePair(ours, limit))
        plain.append(np.sum((ours.mean(axis=0) - limit.mean(axis=0)) ** 2))
        found.append((error[0], spread[0]))
    errors, spreads = np.array(found).T
    squares = np.where(errors > 0, errors**2, 0.0)
    assert np.mean(plain) > shift**2 + 0.2
    if shift == 0:
        assert np.mean(errors == 0) > 0.4  # not told from zero, and said so
    if shift == 3:
        z = (squares.mean() - shift**2) / (squares.std() / 20)
        assert abs(z) < 3
        assert errors.std() == pytest.approx(spreads.mean(), rel=0.15)


def test_a_lost_member_makes_its_error_nan():
    rates, steps = np.array([0.1, 0.05, 0.025]), np.array([[1, 2], [4, 8], [16, 32]])
    rng = np.random.default_rng(0)
    pairs = [EnsemblePair(rate * (1 + 0.01 * rng.standard_normal((9, 2, 3))), np.zeros((1, 2, 3)))
             for rate in rates]  # fmt: skip
    pairs[0].ours[4, 0, 1] = np.nan
    found = summary(rates, steps, pairs, True, 9)
    assert np.isnan(found.error[0]) and np.isnan(found.path_error[0])
    assert found.order == pytest.approx(1, abs=0.02)
    assert found.path_order == pytest.approx(1, abs=0.02)
    assert found.error[1:] == pytest.approx(3**0.5 * rates[1:], rel=0.02)
    assert found.steps.tolist() == [2, 8, 32]
    assert summary(rates, steps, pairs, False, 9).path_error is None


def test_what_cannot_be_compared_is_refused():
    weak_error = gb.weak_error
    cases = [
        (lambda: weak_error(None, [0.1, 0.2], 1.0), "setup must be a gb.Setup"),
        (lambda: weak_error(setup(None), [0.1, 0.2], 1.0), "gb.Descent"),
        (lambda: weak_error(setup(momentum=0.9), [0.1, 0.2], 1.0), "plain SGD"),
        (lambda: weak_error(setup(), [0.1], 1.0), "at least two"),
        (lambda: weak_error(setup(), [0.1, -0.2], 1.0), "at least two"),
        (lambda: weak_error(setup(), [0.1, np.nan], 1.0), "lrs"),
        (lambda: weak_error(setup(), [0.1, 0.2], 0.0), "T must be greater than 0"),
        (lambda: weak_error(setup(), [0.1, 0.2], 1.0, "middle"), "along must be one of"),
        (lambda: weak_error(setup(), [0.1, 2.0], 1.0), "at least one step"),
        (lambda: weak_error(setup(), [0.1, 0.2], 1.0, members=1), "members must be"),
        (lambda: weak_error(setup(), [0.1, 0.2], 1.0, observable=3), "must be an observable"),
        (lambda: weak_error(setup(gb.Isotropic(1.0)), [0.1, 0.2], 1.0, "path"), "not diffuse"),
    ]
    for make, message in cases:
        with pytest.raises(ValueError, match=message):
            make()
