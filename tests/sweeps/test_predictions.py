"""A sweep with predictions beside the measurements."""

import json

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


def test_every_quantity_has_measurement_error_and_verdict(known):
    over = {"seed": range(2), "decay": [0.0, 0.1]}
    data = gb.sweep(build, over, predict="toy.frozen")
    flat = data.sel(decay=0.0)
    np.testing.assert_array_equal(flat["theta_measured"], flat["theta_end"])
    away = np.linalg.norm(flat["theta_end"] - flat["theta_predicted"], axis=-1)
    size = np.linalg.norm(flat["theta_predicted"], axis=-1)
    np.testing.assert_allclose(flat["theta_error"], away / size, rtol=1e-6, atol=1e-15)
    assert flat["theta_verdict"].values.tolist() == ["holds", "holds"]
    other = data.sel(decay=0.1)
    assert other["theta_verdict"].values.tolist() == ["not applicable"] * 2
    assert np.isnan(other["theta_error"]).all()
    assert np.isnan(other["theta_measured"]).all()


def test_a_member_gets_the_verdict_of_a_check(known):
    data = gb.sweep(build, {"seed": [3], "decay": [0.0]}, predict="toy.frozen")
    alone = gb.check(build(3, 0.0), "toy.frozen").verdicts["toy.frozen"]
    assert data["theta_verdict"].item() == alone.verdict
    assert data["theta_error"].item() <= alone.allowed


def test_three_per_cent_are_refuted(known):
    def wrong(setup):
        return {"theta": 1.03 * toy.predict(setup)["theta"]}

    gb.register(toy.theorem(id="toy.wrong", predict=wrong))
    try:
        data = gb.sweep(build, {"seed": range(2), "decay": [0.0]}, predict="toy.wrong")
        assert set(data["theta_verdict"].values.ravel()) == {"refuted"}
        np.testing.assert_allclose(data["theta_error"], 0.03 / 1.03, rtol=1e-3)
    finally:
        th.unregister("toy.wrong")


def layers(gamma):
    problem = gb.problems.gaussian(n=4, d=5, k=2, key=1, loss="half_mean")
    net = gb.TwoLayer(5, 2, 6)
    return gb.Setup(problem, net, gb.init.orthogonal(net, gamma, key=0), gb.Flow())


def test_what_a_theorem_needs_is_recorded_and_taken_away_again(tmp_path):
    """The singular values of the layers are no function of the predictor."""
    over = {"gamma": [0.01, 0.1]}
    data = gb.sweep(layers, over, predict="spectral.cor3.1")
    assert data["W1_verdict"].values.tolist() == ["holds", "holds"]
    np.testing.assert_allclose(data["W1_measured"], data["W1_predicted"], rtol=1e-4)
    plain = gb.sweep(layers, over)
    assert set(plain) <= set(data)
    assert not [name for name in set(data) - set(plain) if not name.startswith(("W1_", "W2_"))
                and name != "applies"]  # fmt: skip
    # A store holds what was asked for and nothing else.
    stored = gb.sweep(layers, over, store=tmp_path, predict="spectral.cor3.1")
    assert stored["W1_verdict"].values.tolist() == ["inconclusive"] * 2
    assert set(gb.sweep(layers, over, store=tmp_path)) == set(plain)


def test_with_a_store_the_predictor_is_enough_where_a_theorem_reads_no_more(known, tmp_path):
    data = gb.sweep(build, {"seed": [0], "decay": [0.0]}, tmp_path, predict="toy.frozen")
    assert data["theta_verdict"].item() == "holds"


def test_with_a_store_what_is_recorded_is_used(tmp_path):
    record = [gb.observe.loss, gb.observe.theta, gb.observe.params]
    data = gb.sweep(layers, {"gamma": [0.1]}, tmp_path, record=record, predict="spectral.cor3.1")
    assert data["W1_verdict"].item() == "holds"
    assert "params_W1" in data


def test_a_sweep_says_what_it_ran(known):
    told = json.loads(gb.sweep(build, {"seed": range(2), "decay": [0.0]}).attrs["configuration"])
    assert told["net"]["fields"]["dims"] == {"tuple": [toy.D, 1]}
    assert told["over"] == {"seed": [0, 1], "decay": [0.0]}
    assert set(told) >= {"problem", "net", "dynamics", "until", "record", "key"}


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
