"""The figures of the after-zero-loss paper, and claims that can fail."""

import pytest

from gradbias.figures import make
from gradbias.figures.zeroloss import FIGURES

BY_ID = {figure.id: figure for figure in FIGURES}
DEFAULT = ("two_phases", "motor", "recovery")
OTHERS = ("1a", "1b", "1c", "lr_convergence", "isotropic", "batch_collapse", "phase_diagram")


def test_every_panel_of_the_paper_is_there():
    assert set(BY_ID) == {f"zeroloss.{panel}" for panel in (*DEFAULT, *OTHERS)}
    assert {f.id for f in FIGURES if f.default} == {f"zeroloss.{panel}" for panel in DEFAULT}


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
