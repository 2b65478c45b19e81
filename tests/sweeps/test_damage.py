"""Everything that is read back is checked: a flipped bit or a lost end is never a number."""

import json
import shutil
import warnings

import numpy as np
import pytest
import xarray as xr

import gradbias as gb

PROBLEM = gb.Regression.half_sum(np.eye(1), np.ones(1))
NET = gb.nets.linear(lambda p: p["a"])


def build(lr):
    until = gb.Until(steps=4)
    return gb.Setup(PROBLEM, NET, {"a": np.zeros(1)}, gb.Descent(lr), until, save_at=[0, 4])


def sweep(store):
    return gb.sweep(build, {"lr": [0.1, 0.2, 0.3]}, store=store, chunk=2, progress=False).load()


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    return folder, sweep(folder)


FILES = ("sweep.json", "sweep.nc", "chunk-00000.npz", "chunk-00001.npz")


def flips(size, count):
    """Bytes spread over a file, its first and last among them."""
    return sorted(
        {0, 1, size - 33, size - 1, *np.linspace(0, size - 1, count).astype(int).tolist()}
    )


def read_back(sound, tmp_path, name, content):
    """Resume a store with one file changed: what came of it, and what was said."""
    folder, _ = sound
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    if name.startswith("chunk"):
        (tmp_path / "sweep.nc").unlink()  # else nobody needs the chunks
    (tmp_path / name).write_bytes(content)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = sweep(tmp_path)
        except ValueError as error:
            return None, str(error)
    return found, " ".join(str(w.message) for w in said)


def check(sound, tmp_path, name, content):
    found, words = read_back(sound, tmp_path, name, content)
    if found is None:
        assert name in words
    else:
        assert found.identical(sound[1])
        assert name in words or name == "sweep.json"  # white space there may be anything


@pytest.mark.parametrize("count", [3, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FILES)
def test_flipped_bits_are_noticed(sound, tmp_path, name, count):
    content = (sound[0] / name).read_bytes()
    for i, at in enumerate(flips(len(content), count)):
        changed = bytearray(content)
        changed[at] ^= 1 << (i % 8)
        check(sound, tmp_path, name, bytes(changed))


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kept", [0, 31, -32, -1])
def test_a_lost_end_is_noticed(sound, tmp_path, name, kept):
    check(sound, tmp_path, name, (sound[0] / name).read_bytes()[:kept])


def test_other_programs_read_the_result_as_ever(sound):
    with xr.open_dataset(sound[0] / "sweep.nc", engine="h5netcdf") as data:
        np.testing.assert_array_equal(data["loss"], sound[1]["loss"])


def test_a_store_that_does_not_say_where_it_was_begun(sound, tmp_path):
    about = json.loads((sound[0] / "sweep.json").read_text(encoding="utf-8"))
    del about["environment"], about["checksum"]
    text = json.dumps(about).encode()
    found, words = read_back(sound, tmp_path, "sweep.json", text)
    assert found.identical(sound[1])
    assert "does not say where" in words


def test_a_saved_run_is_checked(tmp_path):
    file = tmp_path / "run.nc"
    run = gb.simulate(build(0.1), progress=False)
    run.save(file)
    content = file.read_bytes()
    assert gb.load(file).data.identical(run.data)
    for i, at in enumerate(flips(len(content), 60)):
        changed = bytearray(content)
        changed[at] ^= 1 << (i % 8)
        file.write_bytes(changed)
        with pytest.raises(ValueError, match=r"run\.nc"):
            gb.load(file)
    for kept in (0, 1, 100, len(content) // 2, len(content) - 32, len(content) - 1):
        file.write_bytes(content[:kept])
        with pytest.raises(ValueError, match=r"run\.nc"):
            gb.load(file)
