"""The figures about classification: their parts, and claims that can fail."""

import numpy as np
import pytest
import xarray as xr

from gradbias.figures import make
from gradbias.figures.margin import FIGURES, _band, _depth, _entropy_law, _five_optimisers, _soudry
from gradbias.geometry import L1, L2, Linf, Lp

NAMED = {figure.id: figure for figure in FIGURES}


def test_all_are_there_and_in_the_default_set():
    shown = ["margin.five", "margin.band", "margin.entropy"]
    assert list(NAMED) == [*shown, "margin.soudry", "margin.depth"]
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
