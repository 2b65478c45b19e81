"""The figures of the after-zero-loss paper: one in CI, all on three keys behind a marker."""

import pytest

from gradbias.figures import make
from gradbias.figures.zeroloss import FIGURES

BY_ID = {figure.id: figure for figure in FIGURES}
DEFAULT = ("two_phases", "motor", "recovery")
OTHERS = ("1a", "1b", "1c", "lr_convergence", "isotropic", "batch_collapse", "phase_diagram")


def test_every_panel_of_the_paper_is_there_and_explains_itself():
    assert set(BY_ID) == {f"zeroloss.{panel}" for panel in (*DEFAULT, *OTHERS)}
    assert {f.id for f in FIGURES if f.default} == {f"zeroloss.{panel}" for panel in DEFAULT}
    for figure in FIGURES:
        assert 10 < len(figure.title) <= 60, figure.id
        assert 60 <= len(figure.caption.split()) <= 125, (figure.id, len(figure.caption.split()))
        assert figure.caption.count("$") % 2 == 0, figure.id
        assert set(figure.full) <= set(figure.quick)


@pytest.mark.slow
def test_two_phases_is_made_and_would_not_pass_under_another_prediction(tmp_path):
    figure = BY_ID["zeroloss.two_phases"]
    made = make(figure, settings={"lr": 0.02})
    assert made.holds, made
    assert made.save(tmp_path, "svg").stat().st_size > 10_000
    louder = figure.settings(changes={"lr": 0.02, "std": 1.2})
    assert not all(seen.holds for seen in figure.seen(made.data, louder))
    # A limit that moves a quarter faster, as it would with another constant than ¼.
    faster = made.data.assign(corrected=made.data["corrected"] * 0.47)
    assert not all(seen.holds for seen in figure.seen(faster, made.settings))


@pytest.mark.slow
@pytest.mark.parametrize("key", (0, 1, 2))
@pytest.mark.parametrize("name", BY_ID)
def test_every_figure_shows_what_it_must_on_three_keys(name, key, tmp_path):
    made = make(BY_ID[name], key=key)
    assert made.holds, made
    made.save(tmp_path, "png")
    if made.figure.frames is not None and key == 0:
        assert made.save(tmp_path, "gif").stat().st_size > 10_000
