"""The figures of the imbalance paper: their parts, and claims that can fail."""

import numpy as np
import pytest

from gradbias.figures import make
from gradbias.figures.imbalance import FIGURES, _rates, _width

NAMED = {figure.id: figure for figure in FIGURES}
SMALL = {"n": 12, "d": 40, "width": 60, "steps": 2000, "lr": 5e-3}


def test_both_are_there_and_in_the_default_set():
    assert list(NAMED) == ["imbalance.1", "imbalance.2"]
    assert all(figure.default for figure in FIGURES)


def test_all_cases_start_from_one_predictor():
    s = NAMED["imbalance.2"].settings(changes=SMALL)
    products = [params["W1"] @ params["W2"] for params in _rates.starts(s).values()]
    for product in products[1:]:
        np.testing.assert_allclose(product, products[0], atol=1e-14)


def test_directions_that_do_not_matter_are_left_out_without_a_trace():
    """The thin net has the predictor of the wide one, and the Gram matrices that move it."""
    s = NAMED["imbalance.1"].settings(changes={"n": 5, "d": 9, "widths": (50,)})
    basis = _width.data(s).row_space
    thin = _width.start(s, 50, 0)
    assert thin["W1"].shape == (9, 6)
    wide = _width.drawn(s, 50, 0)
    for params in (thin, wide):
        params["Z"] = np.vstack([params["W2"].T, basis.T @ params["W1"]])
    np.testing.assert_allclose(thin["W1"] @ thin["Z"].T, wide["W1"] @ wide["Z"].T, atol=1e-13)
    np.testing.assert_allclose(thin["Z"] @ thin["Z"].T, wide["Z"] @ wide["Z"].T, atol=1e-13)


@pytest.mark.slow
def test_the_widths_are_seen_on_small_data(tmp_path):
    changes = {"n": 10, "d": 60, "widths": (100, 200, 400, 1000), "lr": 0.2}
    made = make(NAMED["imbalance.1"], key=3, settings=changes)
    failed = [one.what for one in made.seen if not one.holds]
    assert not failed, made
    assert made.save(tmp_path, "png").stat().st_size > 10_000
