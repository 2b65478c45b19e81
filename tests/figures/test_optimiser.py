"""The figures of optimisers: what they draw is what the theorems say, and can fail."""

import numpy as np
import pytest

from gradbias.figures import make
from gradbias.figures.optimiser import FIGURES, _box, _muon, _noise_floor

NAMED = {figure.id: figure for figure in FIGURES}


def test_all_are_there():
    assert list(NAMED) == [f"optimiser.{i}" for i in range(1, 5)]


def test_the_target_has_the_sizes_that_are_asked_for():
    s = NAMED["optimiser.2"].settings(changes={"sizes": (3.0, 1.0), "d": 4})
    problem, M, start = _muon.case(s)
    np.testing.assert_allclose(np.linalg.svd(M, compute_uv=False)[:2], [3, 1], rtol=1e-12)
    np.testing.assert_allclose(problem.X.T @ problem.X / s.n, np.eye(4), atol=1e-12)
    assert set(start) == {"W1", "W2"}


def test_half_times():
    values = np.array([[0.1, 0.6], [0.5, 0.7], [0.9, 0.8]])
    np.testing.assert_array_equal(_muon.half_times(values, np.array([1.0, 2.0, 3.0])), [2, 1])


def test_a_box_that_holds_nothing_is_not_seen(tmp_path):
    """With less decay no weight comes to the side: the claim that one does must fail."""
    made = make(NAMED["optimiser.3"], settings={"decay": 0.3, "steps": 3000})
    failed = [check.what for check in made.seen if not check.holds]
    assert any("λ·max|θ|" in what for what in failed)
    assert made.save(tmp_path, "png").stat().st_size > 10_000
    assert _box.shrinking(0) == 0.02


@pytest.mark.slow
@pytest.mark.parametrize("what", ["told", "floor"])
def test_a_noise_floor_three_per_cent_off_is_noticed(what):
    figure = NAMED["optimiser.4"]
    made = make(figure)
    assert made.holds, made
    wrong = made.data.assign({what: 1.03 * made.data[what]})
    assert not all(check.holds for check in _noise_floor.seen(wrong, figure.settings()))


def test_pairs_of_saves_are_neighbours():
    s = NAMED["optimiser.4"].settings()
    at = _noise_floor.saves(s)
    assert at[-1] == 4000
    assert np.isin(at + 1, at).sum() >= s.saves - 2
