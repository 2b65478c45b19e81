"""Figures as objects: settings, stores, files, verdicts."""

import json

import numpy as np
import pytest
import xarray as xr

from gradbias import figures
from gradbias.figures import Check, Figure

CALLS = []


def compute(s, lab):
    CALLS.append(dict(s))
    return xr.Dataset({"y": ("x", s.slope * np.arange(s.n))}, {"x": np.arange(s.n)})


def draw(canvas, data, s):
    canvas.subplots().plot(data["x"], data["y"])


def seen(data, s):
    return [
        Check("slope", float(data["y"][1]), 1.0, 3.0),
        Check("length", float(len(data["x"])), 2),
    ]


LINE = Figure(
    id="test.line",
    title="a line",
    caption="It rises.",
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"slope": 2.0, "n": 3},
    full={"n": 30},
)


def test_settings_are_quick_full_and_own():
    assert dict(LINE.settings()) == {"slope": 2.0, "n": 3, "key": 0}
    assert LINE.settings(full=True, key=4).n == 30
    assert LINE.settings(changes={"slope": 5.0}).slope == 5.0
    with pytest.raises(ValueError, match=r"no setting \['slop'\]; it has \['n', 'slope'\]"):
        LINE.settings(changes={"slop": 1})
    with pytest.raises(ValueError, match="which quick does not have"):
        Figure(**{**vars(LINE), "full": {"m": 1}})


def test_seen_is_an_interval_and_nan_is_not_seen():
    assert Check("a", 1.0, 0.5, 2.0).holds
    assert not Check("a", float("nan"), 0.5, 2.0).holds
    assert not Check("a", 3.0, high=2.0).holds
    assert str(Check("slope", 0.25, high=2.0)) == "slope: 0.25 (needs ≤ 2)"
    made = figures.make(LINE, settings={"slope": 9.0})
    assert not made.holds
    assert "NOT SEEN" in str(made)


def test_a_store_computes_once_for_each_setting(tmp_path):
    CALLS.clear()
    made = [
        figures.make(LINE, settings={"slope": slope}, store=tmp_path) for slope in (2.0, 2.0, 3.0)
    ]
    assert [call["slope"] for call in CALLS] == [2.0, 3.0]
    np.testing.assert_array_equal(made[-1].data["y"], [0, 3, 6])
    assert made[0].seconds == made[1].seconds > 0  # when it was computed, not when it was read


@pytest.mark.parametrize("form", ["svg", "pdf", "png", "csv"])
def test_files_say_what_made_them(form, tmp_path):
    made = figures.make(LINE, key=3)
    text = made.save(tmp_path, form).read_bytes()
    assert b"gradbias figures test.line --key 3" in text
    about = json.loads((tmp_path / "test.line.json").read_text())
    assert about["settings"] == {"slope": 2.0, "n": 3, "key": 3}
    assert [s["holds"] for s in about["seen"]] == [True, True]


def test_the_same_picture_is_the_same_file(tmp_path):
    texts = [figures.make(LINE).save(tmp_path / str(i), "svg").read_bytes() for i in (0, 1)]
    assert texts[0] == texts[1]


def test_what_does_not_move_is_no_gif(tmp_path):
    with pytest.raises(ValueError, match="test.line does not move"):
        figures.make(LINE).save(tmp_path, "gif")
    with pytest.raises(ValueError, match="form must be one of"):
        figures.make(LINE).save(tmp_path, "bmp")


def test_unknown_figures_are_named():
    with pytest.raises(ValueError, match=r"no figure matches 'rank9.\*'; did you mean 'rank1"):
        figures.find("rank9.*")
