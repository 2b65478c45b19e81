"""Rows of a result: each holds what was measured there, or NaN, and is written once."""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias._engine import stacking
from gradbias._engine.recorder import Recorder
from gradbias._engine.status import Ending

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(6, 4)), RNG.normal(size=(6, 2))
NET = gb.TwoLayer(4, 2, 8)


def slow_and_quick(m):
    """Members that wait for t = 20 in few steps beside others that converge in many."""
    scale, stretch = [1e-6, 3.0, 1e-5, 6.0][m], [1.0, 1.0, 1.0, 3.0][m]
    return gb.Setup(gb.Regression.half_mean(stretch * X, Y), NET,
                    gb.init.gaussian(NET, scale, key=m), gb.Flow(), gb.Until(gap=1e-9, time=20.0),
                    save_at=[0.0, 1.0, 6.0, 20.0])  # fmt: skip


@pytest.mark.parametrize("vmap_bytes", [0, stacking.VMAP_BYTES], ids=["one by one", "side by side"])
def test_a_member_that_waits_for_others_keeps_its_last_row(vmap_bytes, monkeypatch):
    monkeypatch.setattr(stacking, "VMAP_BYTES", vmap_bytes)
    data = gb.sweep(slow_and_quick, {"m": range(4)})
    alone = [gb.simulate(slow_and_quick(m)) for m in range(4)]
    assert [run.status.ending for run in alone] == data["status"].values.tolist()
    assert {str(run.status) for run in alone} == {"reached time", "converged"}
    rows = np.stack([run.data["loss"].values for run in alone])
    np.testing.assert_allclose(data["loss"], rows, rtol=1e-8, atol=0)
    np.testing.assert_array_equal(data["loss"][:, -1], data["loss_end"])


def test_whole_numbers_and_truth_values_are_nan_where_they_were_not_measured():
    def count(problem, net, params):
        return jnp.sum(params["W1"] > 0)

    def large(problem, net, params):
        return jnp.max(jnp.abs(params["W1"])) > 1e3

    def build(rate):
        return gb.Setup(gb.Regression.half_mean(X, Y), NET, gb.init.gaussian(NET, 0.3, key=1),
                        gb.Descent(rate), gb.Until(steps=60), save_at=[0, 20, 60],
                        record={"count": count, "large": large})  # fmt: skip

    data = gb.sweep(build, {"rate": [0.01, 30.0]})
    assert data["status"].values.tolist() == [Ending.REACHED_STEPS, Ending.DIVERGED]
    assert np.isnan(data["count"][1, 1:]).all()
    assert np.isnan(data["large"][1, 1:]).all()
    assert np.isfinite(data["count_end"]).all()
    alone = gb.simulate(build(0.01)).data
    np.testing.assert_array_equal(data["count"][0], alone["count"])
    np.testing.assert_array_equal(data["large"][0], [0.0, 0.0, 0.0])


def test_a_row_is_written_once():
    setup = slow_and_quick(0)
    recorder = Recorder([setup], [None])
    members, row = np.asarray([0]), np.asarray([1])
    recorder.take(members, row, {"loss": np.ones((1, 1))}, None)
    with pytest.raises(RuntimeError, match="written twice"):
        recorder.take(members, row, {"loss": np.zeros((1, 1))}, None)
    with pytest.raises(RuntimeError, match="written twice"):
        recorder.repeat_end(np.asarray([[False, True, False, False]]))
    np.testing.assert_array_equal(recorder.finish()["loss"][:, 0], [np.nan, 1, *[np.nan] * 3])
