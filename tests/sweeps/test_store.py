"""The store: what is finished stays, what has changed is named, what is damaged is made again."""

import errno
import json
import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias._sweeps import executors, worker
from gradbias._sweeps import store as _store

PROBLEM = gb.problems.gaussian(n=6, d=4, key=1, loss="half_mean")
NET = gb.TwoLayer(4, 1, 3)
OVER = {"rate": [0.01, 0.02], "seed": range(4)}


def shift(problem, net, params):
    return jnp.sum(params["W1"]) + 1.0


def build(rate, seed, factor=1.0, key=None, **changes):
    params = gb.init.gaussian(NET, 0.4, key=seed)
    if (rate, seed) == (0.02, 2):
        params = {name: factor * value for name, value in params.items()}
    changes = {"record": {"loss": gb.observe.loss, "shift": shift}} | changes
    return gb.Setup(PROBLEM, NET, params, gb.Descent(rate, gb.Minibatch(2)), gb.Until(steps=40),
                    save_at=[0, 40], key=seed if key is None else key, **changes)  # fmt: skip


def sweep(store=None, make=build, over=OVER, chunk=3, **others):
    return gb.sweep(make, over, store=store, chunk=chunk, **others)


@pytest.fixture(scope="module")
def whole():
    return sweep()


@pytest.fixture
def performed(monkeypatch):
    """The members of every chunk that is computed in this process."""
    seen, perform = [], executors.perform

    def counted(job, bar):
        seen.append(job.wanted)
        return perform(job, bar)

    monkeypatch.setattr(executors, "perform", counted)
    return seen


def test_a_finished_store_is_the_same_dataset_and_computes_nothing(tmp_path, whole, performed):
    first = sweep(tmp_path)
    assert performed == [3, 3, 2]
    assert first.identical(whole)
    assert sweep(tmp_path).identical(whole)
    assert performed == [3, 3, 2]
    # Anybody can open the file, without gradbias.
    import xarray as xr

    with xr.open_dataset(tmp_path / "sweep.nc", engine="h5netcdf") as alone:
        np.testing.assert_array_equal(alone["shift_end"], whole["shift_end"])
        assert list(alone["seed"]) == [0, 1, 2, 3]
        assert alone["status"].attrs["flag_meanings"] == whole["status"].attrs["flag_meanings"]


def test_only_what_is_missing_is_computed(tmp_path, whole, performed):
    sweep(tmp_path)
    (tmp_path / "chunk-00001.npz").unlink()
    (tmp_path / "sweep.nc").unlink()
    assert sweep(tmp_path).identical(whole)
    assert performed == [3, 3, 2, 3]


def test_ctrl_c_keeps_finished_chunks_and_says_so(tmp_path, whole, monkeypatch):
    perform, calls = executors.perform, []

    def interrupted(job, bar):
        calls.append(job)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return perform(job, bar)

    monkeypatch.setattr(executors, "perform", interrupted)
    with pytest.raises(KeyboardInterrupt) as stopped:
        sweep(tmp_path)
    assert "1 of 3 chunks are stored" in stopped.value.__notes__[0]
    assert "the same call resumes" in stopped.value.__notes__[0]
    assert sweep(tmp_path).identical(whole)
    assert len(calls) == 4  # one, the one that was interrupted, and the two that were missing


def flipped(path, where):
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)


def damages():
    yield "cut", lambda path: path.write_bytes(path.read_bytes()[:-50])
    yield "empty", lambda path: path.write_bytes(b"")
    yield "text", lambda path: path.write_text("not a chunk")
    yield "swapped", lambda path: path.write_bytes((path.parent / "chunk-00001.npz").read_bytes())
    for where in (0.0, 0.5, 0.7, 0.9999):
        yield f"a bit at {where}", lambda path, where=where: flipped(path, where)


@pytest.mark.parametrize(("damage"), [d for _, d in damages()], ids=[n for n, _ in damages()])
def test_a_damaged_chunk_is_named_and_made_again(tmp_path, whole, performed, damage):
    sweep(tmp_path)
    (tmp_path / "sweep.nc").unlink()
    damage(tmp_path / "chunk-00000.npz")
    with pytest.warns(UserWarning, match="chunk-00000.npz is damaged"):
        again = sweep(tmp_path)
    assert again.identical(whole)
    assert performed == [3, 3, 2, 3]


def test_a_finished_chunk_is_read_once(tmp_path, whole, monkeypatch):
    """When a sweep goes on where it was stopped, and when only its result is missing."""
    sweep(tmp_path)
    reads = []
    read = Path.read_bytes

    def counted(path):
        reads.append(path.name)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    for missing in (["sweep.nc"], ["sweep.nc", "chunk-00001.npz"]):
        for name in missing:
            (tmp_path / name).unlink()
        reads.clear()
        assert sweep(tmp_path).identical(whole)
        assert sorted(reads) == ["chunk-00000.npz", "chunk-00001.npz", "chunk-00002.npz"]


def test_a_damaged_result_is_made_again_from_its_chunks(tmp_path, whole, performed):
    sweep(tmp_path)
    (tmp_path / "sweep.nc").write_bytes(b"\x89HDF but no more")
    with pytest.warns(UserWarning, match="sweep.nc is damaged"):
        assert sweep(tmp_path).identical(whole)
    assert performed == [3, 3, 2]


def other_shift(problem, net, params):
    return jnp.sum(params["W1"]) + 2.0


FACTOR = 3.0


def by_global(problem, net, params):
    return FACTOR * jnp.sum(params["W1"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"make": lambda rate, seed: build(rate, seed, factor=1 + 1e-16 + 2.3e-16)},
         [r"'rate': 0.02, 'seed': 2", r"params.W1: stored float64 of shape \(4, 3\)"]),
        ({"make": lambda rate, seed: build(rate + (seed == 3) * 0.01, seed)},
         [r"'seed': 3", r"dynamics.lr: stored 0.01, now 0.02"]),
        ({"make": lambda rate, seed: build(rate, seed, key=seed + (rate == 0.02))},
         [r"'rate': 0.02, 'seed': 0", "key: stored 0, now 1"]),
        ({"make": lambda rate, seed: build(rate, seed).replace(save_at=[1, 40])},
         ["save_at: stored .*0, 40.*, now .*1, 40"]),
        ({"record": {"loss": gb.observe.loss, "shift": other_shift}}, ["record.shift", "code"]),
        ({"record": {"loss": gb.observe.loss}}, ["record.shift: stored .*, now nothing"]),
        ({"over": {"rate": [0.01, 0.02], "seed": range(5)}},
         [r"over\['seed'\]: stored 4 values, now 5"]),
        ({"over": {"rate": [0.01, 0.03], "seed": range(4)}},
         [r"over\['rate'\]\[1\]: stored 0.02, now 0.03"]),
        ({"over": {"seed": range(4), "rate": [0.01, 0.02]}}, ["over: stored axes"]),
        ({"chunk": 4}, ["chunk: stored .*3.*, now .*4"]),
    ],
)  # fmt: skip
def test_what_changed_is_named(tmp_path, changed, words):
    sweep(tmp_path)
    before = sorted((f.name, f.stat().st_mtime_ns) for f in tmp_path.iterdir())
    with pytest.raises(ValueError, match="store") as refused:
        sweep(tmp_path, **changed)
    for word in words:
        refused.match(word)
    assert sorted((f.name, f.stat().st_mtime_ns) for f in tmp_path.iterdir()) == before


def test_a_number_that_an_observable_refers_to_is_part_of_it(tmp_path, monkeypatch):
    def make(rate, seed):
        return build(rate, seed, record={"x": by_global})

    sweep(tmp_path, make)
    monkeypatch.setitem(by_global.__globals__, "FACTOR", 4.0)
    with pytest.raises(ValueError, match=r"record.x.function.FACTOR: stored 3.0, now 4.0"):
        sweep(tmp_path, make)


def rewrite(file, **changes):
    """A description of a sweep as another version or machine would have written it."""
    about = json.loads(file.read_text()) | changes
    del about["checksum"]
    decides = {name: part for name, part in about.items() if name not in ("key", "environment")}
    about["key"] = _store._hash(decides)
    file.write_text(json.dumps(about | {"checksum": _store._hash(about)}))


def test_another_version_is_refused_and_another_machine_is_warned_of(tmp_path):
    sweep(tmp_path)
    file = tmp_path / "sweep.json"
    stored = json.loads(file.read_text())
    rewrite(file, environment=stored["environment"] | {"threads": 77, "jax": "0.1"})
    with pytest.warns(UserWarning, match="jax was 0.1, now.*threads was 77, now"):
        sweep(tmp_path)
    rewrite(file, gradbias="0.0.1")
    with pytest.raises(ValueError, match="gradbias: stored 0.0.1, now"):
        sweep(tmp_path)
    file.write_text("{}")
    with pytest.raises(ValueError, match="sweep.json is not a description of a sweep"):
        sweep(tmp_path)


def test_a_full_disk_leaves_nothing_half_written(tmp_path, whole, monkeypatch):
    sync = os.fsync
    full = []

    def fsync(handle):
        name = os.readlink(f"/proc/self/fd/{handle}")
        if "chunk-00001" in name and not full:
            full.append(name)
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="cannot write .* No space left on device") as refused:
        sweep(tmp_path)
    assert refused.value.errno == errno.ENOSPC
    assert "1 of 3 chunks are stored" in refused.value.__notes__[0]
    assert sorted(f.name for f in tmp_path.iterdir()) == ["chunk-00000.npz", "sweep.json"]
    assert sweep(tmp_path).identical(whole)


def test_too_little_room_for_the_result_is_said_before_it_is_written(tmp_path, whole, monkeypatch):
    import shutil

    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda path: usage._replace(free=10))
        with pytest.raises(OSError, match="sweep.nc needs"):
            sweep(tmp_path)
    assert sweep(tmp_path).identical(whole)


def test_leftovers_are_removed_once_they_are_old(tmp_path):
    old, young = tmp_path / ".a.1-1.unfinished", tmp_path / ".b.1-1.unfinished"
    for file in (old, young):
        file.write_bytes(b"half")
    os.utime(old, (0, 0))
    sweep(tmp_path)
    assert not old.exists()
    assert young.exists()


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="store must be a folder"):
        sweep(tmp_path / "file")


def test_values_are_read_when_they_are_used(tmp_path):
    ds = sweep(tmp_path)
    assert not ds["shift"].variable._in_memory
    assert ds["shift"].isel(rate=1, seed=2).load().shape == (2,)


@pytest.mark.parametrize("values", [["a", "b"], [True, False], [1.5, float("inf")], [2**40, -1]])
def test_axes_of_every_kind_survive_the_disk(tmp_path, values):
    def make(kind, seed):
        return build(0.01, seed)

    over = {"kind": values, "seed": [0, 1]}
    stored = sweep(tmp_path, make, over, chunk=None)
    assert stored.identical(sweep(None, make, over, chunk=None))
    assert stored["kind"].values.tolist() == values


def test_members_that_do_not_fit_into_memory_are_built_twice(whole, monkeypatch, tmp_path):
    from gradbias._sweeps import members

    monkeypatch.setattr(members, "KEPT_BYTES", 3 * 2**14 + 3000)
    points = []

    def make(rate, seed):
        points.append((rate, seed))
        return build(rate, seed)

    assert sweep(None, make).identical(whole)
    assert len(points) > 8
    assert len(set(points)) == 8
    draws = iter(range(100))
    with pytest.raises(ValueError, match="same Setup whenever.*params.W1"):
        sweep(None, lambda rate, seed: build(rate, next(draws), key=seed))


def test_a_job_and_its_code_survive_the_journey():
    """What a worker does with the bytes, here: the same bits; equal code unpacks to one object."""
    from gradbias._sweeps import pickling
    from gradbias._sweeps.chunking import chunks_of
    from gradbias._sweeps.grid import Grid
    from gradbias._sweeps.members import Members
    from gradbias.numerics.precision import float64

    scale = np.asarray(2.0)

    def make(rate, seed):
        def inner(problem, net, params):
            return scale * jnp.sum(params["W1"])

        return build(rate, seed, record={"x": inner})

    with float64():
        roster = Members(make, Grid.of(OVER), None, stored=True)
        chunks = chunks_of(roster, 3)
        assert len(chunks) == 3  # equal functions are one function
        starts = [chunk.starts(roster) for chunk in chunks]
        loaded = [pickling.unpack(pickling.pack(s)) for s in starts]
    functions = {id(start.setup.record["x"].function) for group in loaded for start in group}
    assert len(functions) == 1
    job = executors.Job(starts[0], 3, chunks[0].group.own, "")
    here = executors.perform(job)
    there = worker.work(pickling.pack(job))
    for name, value in here.piece.values.items():
        np.testing.assert_array_equal(value, there.piece.values[name])
