"""Files are there completely or not at all."""

import errno
import os
from pathlib import Path

import pytest

import gradbias as gb
from gradbias.numerics.files import remove_stale, replacing, write_atomically


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_file_is_written_and_replaced(tmp_path):
    for content in (b"one", memoryview(b"two")):
        write_atomically(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == b"two"
    assert names(tmp_path) == ["a"]


FAILURES = {
    "a full disk": OSError(errno.ENOSPC, "No space left on device"),
    "Ctrl-C": KeyboardInterrupt(),
    "a mistake": RuntimeError("planted"),
}


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, where, failure):
    (tmp_path / "a").write_bytes(b"old")

    def fail(*args):
        raise FAILURES[failure]

    with monkeypatch.context() as patched:
        if where == "write":
            patched.setattr(Path, "write_bytes", lambda path, content: (path.touch(), fail()))
        else:
            patched.setattr(os, where, fail)
        with pytest.raises(type(FAILURES[failure])) as raised:
            write_atomically(tmp_path / "a", b"new")
    if failure == "a full disk":
        assert raised.value.errno == errno.ENOSPC
        assert raised.value.filename == str(tmp_path / "a")
        assert "cannot write 3 bytes" in str(raised.value)
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_file_and_folder_are_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    write_atomically(tmp_path / "a", b"one")
    assert synced == [(tmp_path / "a").stat().st_ino, tmp_path.stat().st_ino]


def test_a_folder_that_cannot_be_synced_is_no_failure(tmp_path, monkeypatch):
    def refused(*args):
        raise PermissionError("not here")

    monkeypatch.setattr(os, "open", refused)
    write_atomically(tmp_path / "a", b"one")
    assert (tmp_path / "a").read_bytes() == b"one"


def test_two_writers_have_files_of_their_own(tmp_path):
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as other:
        assert one != other
        one.write_bytes(b"one")
        other.write_bytes(b"other")
    assert names(tmp_path) == ["a"]


def test_what_a_killed_process_left_is_removed_later(tmp_path):
    with pytest.raises(KeyboardInterrupt), replacing(tmp_path / "a") as temporary:
        leftover = tmp_path / temporary.name.replace(".a.", ".b.")
        leftover.write_bytes(b"half")
        raise KeyboardInterrupt
    remove_stale(tmp_path)
    assert names(tmp_path) == [leftover.name]
    os.utime(leftover, (0, 0))
    remove_stale(tmp_path)
    assert names(tmp_path) == []


def test_a_run_is_saved_whole_or_not_at_all(tmp_path, monkeypatch):
    net = gb.Diagonal(2)
    problem = gb.problems.gaussian(n=2, d=2, key=0)
    start = gb.init.gaussian(net, 0.1, key=1)
    run = gb.simulate(gb.Setup(problem, net, start, gb.Descent(0.1), gb.Until(steps=2)))

    def full(*args):
        raise FAILURES["a full disk"]

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="cannot write"):
        run.save(tmp_path / "run.nc")
    assert names(tmp_path) == []
