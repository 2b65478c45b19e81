"""The figures of the spectral-bias paper: one of them in CI, all on three keys behind a marker."""

import pytest

from gradbias.figures import make
from gradbias.figures.spectral import FIGURES

BY_ID = {figure.id: figure for figure in FIGURES}


def test_every_panel_of_the_paper_is_there_and_explains_itself():
    panels = ("1a", "1b", "2", "3a", "3b", "4", "5a", "5b", "incremental")
    assert set(BY_ID) == {f"spectral.{panel}" for panel in panels}
    assert {f.id for f in FIGURES if f.default} == {
        "spectral.1a",
        "spectral.1b",
        "spectral.incremental",
    }
    for figure in FIGURES:
        assert 10 < len(figure.title) <= 60, figure.id
        assert 60 <= len(figure.caption.split()) <= 125, (figure.id, len(figure.caption.split()))
        assert figure.caption.count("$") % 2 == 0, figure.id
        assert set(figure.full) <= set(figure.quick)


@pytest.mark.slow
def test_label_noise_is_made_and_would_not_pass_under_another_prediction(tmp_path):
    figure = BY_ID["spectral.1b"]
    made = make(figure, settings={"seeds": 4})
    assert made.holds, made
    assert made.save(tmp_path, "svg").stat().st_size > 10_000
    names = {seen.what for seen in figure.seen(made.data, figure.settings(changes={"lr": 0.06}))}
    # The same data, judged as if the step, or the init, had been another one.
    for change, word in (({"lr": 0.06}, "rate"), ({"gamma": 1.1}, "√(2γ)")):
        found = figure.seen(made.data, figure.settings(changes=change))
        assert {s.what for s in found} == names
        assert any(word in s.what and not s.holds for s in found), change


@pytest.mark.slow
@pytest.mark.parametrize("key", (0, 1, 2))
@pytest.mark.parametrize("name", BY_ID)
def test_every_figure_shows_what_it_must_on_three_keys(name, key, tmp_path):
    made = make(BY_ID[name], key=key)
    assert made.holds, made
    made.save(tmp_path, "png")
    if made.figure.frames is not None and key == 0:
        assert made.save(tmp_path, "gif").stat().st_size > 10_000
