"""The figures about classification: their parts, and claims that can fail."""

import numpy as np
import pytest
import xarray as xr

from gradbias.figures import make
from gradbias.figures.margin import (
    FIGURES,
    _adam,
    _band,
    _depth,
    _entropy_law,
    _five_optimisers,
    _scale,
    _soudry,
)
from gradbias.geometry import L1, L2, Linf, Lp
from gradbias.problems import separable

NAMED = {figure.id: figure for figure in FIGURES}


def test_all_are_there_and_in_the_default_set():
    shown = ["margin.five", "margin.band", "margin.entropy"]
    assert list(NAMED) == [*shown, "margin.soudry", "margin.depth", "margin.scale", "margin.adam"]
    assert [figure.id for figure in FIGURES if figure.default] == shown


@pytest.mark.parametrize("norm", [L1(), L2(), Linf(), Lp(4)])
def test_rings_are_the_best_of_all_angles(norm):
    s = NAMED["margin.five"].settings(key=1)
    turns = np.radians(np.linspace(0, 90, 90_001))
    w = np.stack([np.cos(turns), np.sin(turns)])
    power = {L1: 1, L2: 2, Linf: np.inf, Lp: 4}[type(norm)]
    sizes = np.linalg.norm(w, ord=power, axis=0)
    margins = (_five_optimisers.problem(s).constraints @ w).min(axis=0) / sizes
    best = np.degrees(turns[margins.argmax()])
    assert _five_optimisers.predicted(s, norm) == pytest.approx(best, abs=2e-3)


@pytest.mark.parametrize("name", ["margin.five", "margin.band", "margin.entropy"])
def test_what_must_be_seen_is_seen(name, tmp_path):
    small = {"margin.entropy": {"sets": 12}}
    made = make(NAMED[name], settings=small.get(name, {}))
    assert made.holds, made
    assert made.save(tmp_path, "png").stat().st_size > 5000


def test_an_early_end_is_not_taken_for_the_ring(tmp_path):
    """After few steps optimisers are not yet where the rings are."""
    made = make(NAMED["margin.five"], settings={"steps": 1000})
    assert not made.holds


def test_the_band_of_a_wrong_best_is_noticed():
    figure = NAMED["margin.band"]
    s = figure.settings(changes={"log_time": 30.0, "saves": 11})
    data = make(figure, settings={"log_time": 30.0, "saves": 11}).data
    assert all(check.holds for check in _band.seen(data, s)[:2])
    for factor in (0.9, 1.1):
        assert not all(c.holds for c in _band.seen(data.assign(best=factor * data["best"]), s)[:2])


def test_the_entropy_law_notices_three_per_cent():
    figure = NAMED["margin.entropy"]
    s = figure.settings(changes={"sets": 12})
    data = make(figure, settings={"sets": 12}).data
    assert _entropy_law.seen(data, s)[0].holds
    assert not _entropy_law.seen(data.assign(predicted=1.03 * data["predicted"]), s)[0].holds


@pytest.mark.slow
@pytest.mark.parametrize("what", ["loss", "angle", "margin"])
def test_the_constants_of_the_flow_notice_three_per_cent(what):
    figure = NAMED["margin.soudry"]
    made = make(figure, key=2)
    assert made.holds, made
    off = xr.where(made.data["what"] == what, 1.03, 1.0)
    wrong = made.data.assign(told=off * made.data["told"])
    assert not all(check.holds for check in _soudry.seen(wrong, figure.settings(key=2)))


def test_slopes_are_those_of_powers():
    x = np.geomspace(5, 1000, 80)
    curves = np.stack([3 * x ** (-1 / layers) for layers in (1, 2, 3)])
    data = xr.Dataset(
        {
            "whole": (("layers", "log_time"), curves),
            "inside": (("layers", "log_time"), 1 / x + 0 * curves),
        },
        {"layers": [1, 2, 3], "log_time": x},
    )
    s = NAMED["margin.depth"].settings()
    assert all(check.holds for check in _depth.seen(data, s))
    swapped = data.assign(whole=data["whole"].copy(data=curves[[0, 2, 1]]))
    assert [check.holds for check in _depth.seen(swapped, s)].count(False) == 2


def test_support_that_spans_all_inputs_is_no_case_of_slow_turning():
    s = NAMED["margin.depth"].settings(key=1)
    hard = _depth.problem(s).max_margin()
    known = _depth.problem(s).constraints
    on = known[known @ np.ravel(hard.w) < 1 + 1e-7]
    assert 1 <= np.linalg.matrix_rank(on) < s.d


def test_a_distance_that_falls_too_slowly_is_noticed():
    s = NAMED["margin.scale"].settings()
    level = np.geomspace(10, 1000, s.saves) * np.ones((s.rows, 1))
    for power in (1.0, 0.7):
        mu = level / _scale.scales(s)[:, None] ** 2
        data = xr.Dataset(
            {
                "distance": (("alpha", "save"), (1 + mu**0.1) * level**-power),
                "level": (("alpha", "save"), level),
            }
        )
        np.testing.assert_allclose(_scale.powers(data, s), -power, atol=0.02)


def test_the_ratio_is_one_at_its_own_separator():
    known = separable(4, 10, key=25, loss="exponential")
    assert float(_scale.ratio(known, 3 * known.max_margin(L1).w.ravel())) == pytest.approx(1)
    assert float(_scale.ratio(known, known.max_margin(L2).w.ravel())) < 0.85


@pytest.mark.slow
def test_the_turn_of_adam_is_where_entries_are_as_small_as_eps():
    """A prediction that leaves out how the gradient is shared among entries is noticed."""
    figure = NAMED["margin.adam"]
    made = make(figure)
    assert made.holds, made
    plain = [np.inf, *(np.log(1 / eps) for eps in made.settings["eps"][1:])]
    wrong = made.data.assign(told=("how", plain))
    assert not all(check.holds for check in _adam.seen(wrong, figure.settings()))


def test_the_first_turn_is_read_off():
    least = np.array([np.arange(0.0, 20.0), np.minimum(np.arange(0.0, 20.0), 7.0)])
    data = xr.Dataset({"least": (("how", "step"), least)})
    assert _adam.turn(data, 1) == 7.0
    assert np.isnan(_adam.turn(data.assign(least=(("how", "step"), least[[0, 0]])), 1))
