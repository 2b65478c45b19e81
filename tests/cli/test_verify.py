"""`gradbias verify` and `gradbias theorems`, with a file of one's own."""

import json
import shutil
from pathlib import Path

import pytest

from gradbias import theorems as th
from gradbias.cli import main

TOY = Path(__file__).parent.parent / "theorems" / "toy.py"


@pytest.fixture
def own(tmp_path):
    """A file that makes one theorem; what it registers is forgotten afterwards."""

    def write(line):
        path = tmp_path / "mine.py"
        shutil.copy(TOY, path)
        path.write_text(path.read_text() + f"\n\n{line}\n")
        return str(path)

    yield write
    th.unregister("toy.frozen")


def test_a_file_of_ones_own(own, tmp_path, capsys):
    rows = tmp_path / "rows.json"
    path = own("MINE = theorem()")
    assert main(["verify", path, "--instances", "2", "--jobs", "1", "--json", str(rows)]) == 0
    said = capsys.readouterr().out
    assert "instance 1: holds" in said and "breaks" in said
    found = json.loads(rows.read_text())
    assert found["exit_code"] == 0 and len(found["rows"]) == 3
    assert found["rows"][1]["command"].endswith("--key 1 --instances 1")


def test_exit_code_of_a_theorem_that_is_wrong(own, capsys):
    path = own('MINE = theorem(predict=lambda s: {"theta": 1.1 * predict(s)["theta"]})')
    assert main(["verify", path, "--instances", "1", "--jobs", "1"]) == 1
    assert "refuted" in capsys.readouterr().out


def test_two_processes_give_the_same_rows(own, capsys):
    path = own('A = theorem()\nB = theorem(id="toy.other")')
    try:
        assert main(["verify", path, "--instances", "1", "--jobs", "2"]) == 0
        assert capsys.readouterr().out.count("holds") == 2
    finally:
        th.unregister("toy.other")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["verify", "no.such"], "no theorem matches"),
        (["verify", "missing.py"], "there is no file"),
        (["verify", "--instances", "0"], "--instances must be at least 1"),
        (["verify", "--jobs", "-1"], "--jobs must be at least 0"),
        (["theorems", "no.such"], "no theorem matches"),
    ],
)
def test_wrong_words_get_a_sentence(words, sentence, capsys):
    assert main(words) == 3
    assert sentence in capsys.readouterr().err


def test_a_file_without_theorems(tmp_path, capsys):
    path = tmp_path / "empty.py"
    path.write_text("x = 1\n")
    assert main(["verify", str(path)]) == 3
    assert "makes no theorem" in capsys.readouterr().err
