"""The figures of the spectral-bias paper, and claims that can fail."""

import pytest

from gradbias.figures import make
from gradbias.figures.spectral import FIGURES

BY_ID = {figure.id: figure for figure in FIGURES}


def test_every_panel_of_the_paper_is_there():
    panels = ("1a", "1b", "2", "3a", "3b", "4", "5a", "5b", "incremental")
    assert set(BY_ID) == {f"spectral.{panel}" for panel in panels}
    assert {f.id for f in FIGURES if f.default} == {
        "spectral.1a",
        "spectral.1b",
        "spectral.incremental",
    }


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
