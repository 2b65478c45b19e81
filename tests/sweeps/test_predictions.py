"""A sweep with predictions beside the measurements."""

import numpy as np
import pytest

import gradbias as gb
from gradbias import theorems as th
from theorems import toy


@pytest.fixture
def known():
    gb.register(toy.theorem())
    yield
    th.unregister("toy.frozen")


def build(seed, decay):
    return toy.setup(seed, decay=decay)


def test_predictions_stand_beside_what_was_measured(known):
    over = {"seed": range(2), "decay": [0.0, 0.1]}
    data = gb.sweep(build, over, predict="toy.frozen")
    assert data["theta_predicted"].dims == data["theta_end"].dims
    assert data["applies"].values.tolist() == [[True, False], [True, False]]
    away = data["theta_predicted"] - data["theta_end"]
    np.testing.assert_allclose(away.sel(decay=0.0), 0, atol=1e-9)
    assert np.isnan(away.sel(decay=0.1)).all()


def test_members_are_built_once(known, tmp_path):
    built = []

    def noted(seed, decay):
        built.append((seed, decay))
        return build(seed, decay)

    over = {"seed": range(2), "decay": [0.0, 0.1]}
    first = gb.sweep(noted, over, predict="toy.frozen", store=tmp_path)
    assert built == [(0, 0.0), (0, 0.1), (1, 0.0), (1, 0.1)]
    assert gb.sweep(noted, over, predict="toy.frozen", store=tmp_path).identical(first)
    assert len(built) == 8


def test_several_theorems_with_one_quantity(known):
    gb.register(toy.theorem(id="toy.other"))
    try:
        data = gb.sweep(build, {"seed": [0], "decay": [0.0]}, predict="toy.*")
        assert {"theta_predicted_toy.frozen", "theta_predicted_toy.other"} <= set(data)
        assert data["applies"].sel(theorem="toy.other").item()
    finally:
        th.unregister("toy.other")


def test_what_a_run_must_give_cannot_be_foretold(known):
    gb.register(toy.theorem(id="toy.given", given=("charges",)))
    try:
        with pytest.raises(ValueError, match="take something from the run"):
            gb.sweep(build, {"seed": [0], "decay": [0.0]}, predict="toy.given")
    finally:
        th.unregister("toy.given")
