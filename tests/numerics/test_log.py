"""What is not a result goes through the logger "gradbias"."""

import logging

import pytest

from gradbias.numerics import progress
from gradbias.numerics.log import say
from gradbias.numerics.progress import CountProgress, Progress


@pytest.fixture(autouse=True)
def as_it_was():
    log = logging.getLogger("gradbias")
    before = log.handlers[:], log.level, log.propagate
    log.handlers[:], log.level, log.propagate = [], logging.NOTSET, True
    yield log
    log.handlers[:], log.level, log.propagate = before


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)


def test_without_any_setting_lines_go_to_stderr_once(impatient, capsys):
    with Progress("a run") as bar:
        bar.update(0.5, "step 1")
    with CountProgress("figures", 2) as count:
        count.step(1, "b")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["a run: 50%, time left unknown, step 1", "figures, 1 of 2: b"]


def test_a_level_silences(impatient, capsys, as_it_was):
    as_it_was.setLevel(logging.WARNING)
    with Progress("a run") as bar:
        bar.update(0.5, "step 1")
    say("wrote a file")
    assert capsys.readouterr().err == ""


def test_a_handler_gets_the_lines_and_stderr_none(impatient, capsys, as_it_was):
    got = []

    class Mine(logging.Handler):
        def emit(self, record):
            got.append((record.name, record.levelname, record.getMessage()))

    as_it_was.addHandler(Mine())
    say("100 % of it")
    assert got == [("gradbias", "INFO", "100 % of it")]
    assert capsys.readouterr().err == ""


def test_a_file_gets_the_lines(tmp_path, as_it_was):
    handler = logging.FileHandler(tmp_path / "log.txt")
    as_it_was.addHandler(handler)
    say("θ moved")
    handler.close()
    assert (tmp_path / "log.txt").read_text() == "θ moved\n"
