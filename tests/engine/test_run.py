"""What a run says and how it survives on disk."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

import gradbias as gb
from cases import case, dynamics, minibatches

RECORDS = [
    gb.observe.loss,
    gb.observe.theta,
    gb.observe.params,
    gb.observe.singular_values("theta"),
    gb.observe.distance_to(np.ones((9, 2))),
]


def run(name="two layers", moves=None, **changes):
    problem, net, params = case(name)
    changes = {"until": gb.Until(steps=50)} | changes
    return gb.simulate(gb.Setup(problem, net, params, moves or gb.Descent(0.03), **changes))


def test_attributes_are_json():
    made = run(key=7)
    attrs = {name: json.loads(value) for name, value in made.data.attrs.items()}
    assert attrs["seed"] == 7
    assert attrs["versions"]["gradbias"] == gb.__version__
    assert attrs["configuration"]["net"]["class"] == "TwoLayer"
    assert attrs["configuration"]["dynamics"]["fields"]["lr"] == 0.03
    assert "row-wise" in attrs["convention"]


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["two layers", "deep", "rank one", "rank one, one layer"])
def test_round_trip(name, tmp_path):
    made = run(name, record=RECORDS if name in ("two layers", "deep") else None)
    made.save(tmp_path / "run.nc")
    back = gb.load(tmp_path / "run.nc")
    xr.testing.assert_identical(back.data, made.data)
    np.testing.assert_array_equal(back.theta, made.theta)
    assert back.status == made.status
    assert back.stats == made.stats
    assert str(back) == str(made)
    assert list(back.final) == list(made.final)
    for key, value in made.final.items():
        np.testing.assert_array_equal(back.final[key], value)
    again = gb.simulate(back.setup)
    xr.testing.assert_equal(again.data, made.data)
    assert back.setup.record == made.setup.record


@pytest.mark.parametrize(
    "moves",
    [
        dynamics("all together", 2),
        gb.Descent(gb.dynamics.piecewise({0: 0.01, 20: 0.02})),
        gb.Flow(weight_decay=0.1),
    ],
)
def test_round_trip_of_dynamics(moves, tmp_path):
    until = gb.Until(time=1.0) if isinstance(moves, gb.Flow) else gb.Until(steps=50)
    made = run(moves=moves, until=until)
    made.save(tmp_path / "run.nc")
    again = gb.simulate(gb.load(tmp_path / "run.nc").setup)
    np.testing.assert_array_equal(again.theta, made.theta)


def test_fresh_samples_round_trip(tmp_path):
    problem = gb.Population(np.eye(3), np.ones((2, 3)), 0.1 * np.eye(2))
    net = gb.TwoLayer(3, 2, 4)
    x, y = problem.sample(20)
    replay = gb.Replay(samples=(x.reshape(10, 2, 3), y.reshape(10, 2, 2)))
    made = gb.simulate(gb.Setup(problem, net, gb.init.gaussian(net, 0.3),
                                gb.Descent(0.01, replay), gb.Until(steps=10)))  # fmt: skip
    made.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(gb.simulate(gb.load(tmp_path / "run.nc").setup).theta, made.theta)


def test_own_code_is_not_stored(tmp_path):
    """Loading executes nothing from the file, so an own net comes back without its setup."""
    problem, _, _ = case("rank one")
    net = gb.nets.linear(lambda p: jnp.tanh(p["w"]))
    made = gb.simulate(
        gb.Setup(problem, net, {"w": np.full(9, 0.1)}, gb.Descent(0.01), gb.Until(steps=5))
    )
    made.save(tmp_path / "run.nc")
    back = gb.load(tmp_path / "run.nc")
    assert back.setup is None
    np.testing.assert_array_equal(back.final["w"], made.final["w"])
    assert str(back).startswith("Run loaded from a file. run.setup is None: the file does not hold")
    assert "of which its net is made" in str(back)
    back.save(tmp_path / "again.nc")
    assert str(gb.load(tmp_path / "again.nc")).splitlines()[0] == str(back).splitlines()[0]


def size(problem, net, params):
    return sum(jnp.sum(leaf**2) for leaf in params.values())


def test_a_run_with_own_observables_keeps_its_setup(tmp_path):
    """As a check's run, which records what theorems need."""
    problem, net, params = case("rank one")
    record = {"loss": gb.observe.loss, "size": size}
    made = gb.simulate(
        gb.Setup(problem, net, params, gb.Descent(0.01), gb.Until(steps=5), record, key=4)
    )
    made.save(tmp_path / "run.nc")
    back = gb.load(tmp_path / "run.nc")
    assert list(back.setup.record) == ["loss"]
    assert back.setup.key == 4
    assert "run.setup.record lacks size" in str(back)
    np.testing.assert_array_equal(back.data["size"], made.data["size"])
    np.testing.assert_array_equal(gb.simulate(back.setup).theta, made.theta)


def test_the_run_of_a_check_keeps_its_setup(tmp_path):
    problem = gb.problems.gaussian(n=3, d=4, k=2, key=1, loss="half_mean")
    net = gb.TwoLayer(4, 2, 5)
    start = gb.init.orthogonal(net, 0.1, key=0)
    setup = gb.Setup(problem, net, start, gb.Descent(0.02), gb.Until(steps=20))
    study = gb.check(setup, "spectral.gd")
    study.run.save(tmp_path / "run.nc")
    back = gb.load(tmp_path / "run.nc")
    assert back.setup is not None
    assert repr(back.setup.dynamics) == repr(setup.dynamics)
    np.testing.assert_array_equal(back.setup.params["W1"], start["W1"])


def test_files_that_are_not_runs(tmp_path):
    with pytest.raises(ValueError, match="no file"):
        gb.load(tmp_path / "nothing.nc")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(ValueError, match="not a run"):
        gb.load(tmp_path / "text.nc")
    xr.Dataset({"x": ("i", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="not a run"):
        gb.load(tmp_path / "other.nc")
    with pytest.raises(ValueError, match="folder"):
        run().save(tmp_path / "missing" / "run.nc")


def test_a_file_that_names_other_classes_is_refused():
    from gradbias._engine.serialise import decode

    with pytest.raises(ValueError, match="does not have"):
        decode({"class": "Popen", "fields": {"args": "ls"}}, [])


def test_a_failed_save_leaves_no_trace(tmp_path, monkeypatch):
    made = run()
    (tmp_path / "run.nc").write_text("old")

    def full_disk(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full_disk)
    with pytest.raises(OSError, match="space"):
        made.save(tmp_path / "run.nc")
    assert [path.name for path in tmp_path.iterdir()] == ["run.nc"]
    assert (tmp_path / "run.nc").read_text() == "old"


def test_the_summary_is_for_people():
    text = str(run(until=gb.Until(gap=1e-6)))
    assert "TwoLayer(d=9, k=2, width=30), Descent(lr=0.03)" in text
    assert "converged" in text
    assert "min-norm" in text
    assert "reduced exactly from 9-30-2 to 6-8-2" in text
    assert max(map(len, text.splitlines())) < 400


def test_status_compares_with_words():
    status = run().status
    assert status == "reached steps"
    assert status != "converged"
    assert status == gb.simulate(run().setup).status
    assert "steps" in status.sentence
    assert hash(status) == hash(run().status)


def test_minibatch_replay_keeps_its_rows(tmp_path):
    made = run(moves=gb.Descent(0.02, gb.Replay(minibatches())))
    made.save(tmp_path / "run.nc")
    back = gb.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(back.setup.dynamics.noise.indices, minibatches())
