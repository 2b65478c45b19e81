"""The figures of the rank-1 paper: their parts, and claims that can fail."""

import importlib

import numpy as np
import pytest
import xarray as xr

from gradbias.figures import make
from gradbias.figures.rank1 import FIGURES, _common, _ends

NAMED = {figure.id: figure for figure in FIGURES}
IDS = ["4b", "5a", "5b", "5c", "5d", "6a", "6b", "6c", "7", "8a", "8b", "9", "10", "11", "12"]
DEFAULT = {"rank1.5a", "rank1.5c", "rank1.8a"}
# Three data sets of 6 samples: the same claims, in a second.
SMALL = {"n": 6, "d": 15, "informative": 5, "scales": (0.3, 1.0), "seeds": 3, "steps": 100_000}


def test_every_panel_of_the_appendix_is_there_in_order():
    assert list(NAMED) == [f"rank1.{number}" for number in IDS]
    assert {figure.id for figure in FIGURES if figure.default} == DEFAULT


@pytest.mark.slow
def test_the_ends_are_seen_on_small_data(tmp_path):
    made = make(NAMED["rank1.5a"], key=3, settings=SMALL)
    assert made.holds, made
    assert made.save(tmp_path, "png").stat().st_size > 10_000


def test_an_end_that_theory_does_not_predict_is_not_seen():
    """Every claim of 5(a) can fail: the data are made by hand, then spoilt one at a time."""
    figure, shape = NAMED["rank1.5a"], (2, 2, 3)
    axes = _ends.RUNS
    gd, sgd = np.full((2, 3), 1.9), np.full((2, 3), 1.8)
    ends = np.stack([gd, sgd]) * np.array([1.0, 1.5])[None, :, None]
    data = xr.Dataset(
        {
            "distance": (axes, ends),
            "told_distance": (axes, ends),
            "by_gap": (axes, ends),
            "loss": (axes, np.zeros(shape)),
            "flow_distance": (axes[1:], 2.0 * np.array([[1.0], [1.5]]) * np.ones((2, 3))),
        },
        {"optimiser": ["GD", "SGD"], "scale": [0.5, 1.0]},
    )
    gd_only = data["optimiser"] == "GD"
    s = figure.settings(changes={"scales": (0.5, 1.0), "seeds": 3})
    assert all(one.holds for one in figure.seen(data, s))
    spoilt = {
        "fit": data.assign(loss=data["loss"] + 1.0),
        "final gap": data.assign(by_gap=1.001 * data["by_gap"]),
        "SGD ends nearer": data.assign_coords(optimiser=["SGD", "GD"]),
        "growth": data.assign_coords(scale=[1.0, 0.5]).sortby("scale"),
        "GD against theory": data.assign(told_distance=1.01 * data["told_distance"]),
        "effect of noise": data.assign(told_distance=data["told_distance"].where(gd_only, 1.99)),
    }
    for words, wrong in spoilt.items():
        failed = [one.what for one in figure.seen(wrong, s) if not one.holds]
        assert any(words in what for what in failed), words


def test_other_keys_make_other_data():
    settings = [NAMED["rank1.5a"].settings(key=key) for key in (0, 1)]
    starts = [_common.start(s, 1.0, seed) for s in settings for seed in (0, 1)]
    inputs = [_common.data(s, seed).X for s in settings for seed in (0, 1)]
    for drawn in (starts, inputs):
        assert len({array.tobytes() for array in drawn}) == 4
    np.testing.assert_allclose([np.linalg.norm(x) for x in starts], 1.0)


def test_labels_come_from_the_truth():
    s = NAMED["rank1.5b"].settings(key=2)
    problem = _common.data(s, 1)
    np.testing.assert_allclose(problem.X @ _common.truth(s, 1), problem.Y, atol=1e-12)


@pytest.mark.slow
def test_the_path_of_the_flow_ends_where_the_theorem_says():
    s = NAMED["rank1.6a"].settings(changes={"n": 6, "d": 15, "informative": 5})
    path = _common.flow_path(s, _common.start(s, 0.7), 5, np.array([0, 10, 400_000]))
    np.testing.assert_allclose(path[0], _common.start(s, 0.7))
    np.testing.assert_allclose(path[-1], _common.flow_end(s, 0.7, 0, 5), rtol=1e-5, atol=1e-6)


def test_gaussian_layers_have_the_scale_that_is_asked_for():
    standard = importlib.import_module("gradbias.figures.rank1._standard")
    s = NAMED["rank1.6b"].settings(changes={"d": 15, "gaussian_width": 4})
    product = np.linalg.multi_dot(list(standard.gaussian(s, 2.5).values()))
    assert np.linalg.norm(product) == pytest.approx(2.5)
