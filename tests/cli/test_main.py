"""How the command ends: exit codes, one sentence instead of a traceback."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gradbias
from gradbias.cli import main


@pytest.fixture
def example(monkeypatch):
    """Put another study in the place of the example's; what it got is recorded."""

    def put(behaviour):
        seen = []

        def run(out):
            seen.append(out)
            behaviour()

        module = ModuleType("gradbias.cli._example")
        module.run = run
        monkeypatch.setitem(sys.modules, "gradbias.cli._example", module)
        return seen

    return put


def raising(error: BaseException):
    def behaviour():
        raise error

    return behaviour


@pytest.mark.parametrize(
    ("words", "out"),
    [
        (["example"], Path("out")),
        (["example", "--out", "a b/c"], Path("a b/c")),
        (["example", "--out=x"], Path("x")),
    ],
)
def test_example_gets_its_directory(example, words, out):
    seen = example(lambda: None)
    assert main(words) == 0
    assert seen == [out]


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["example", "--help"]])
def test_help_is_not_an_error(words, capsys):
    assert main(words) == 0
    assert "usage: gradbias" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [["exampel"], ["example", "--uot", "x"], ["example", "--out"], ["--version", "1"], [""]],
)
def test_wrong_usage_is_never_a_commands_own_answer(example, words, capsys):
    seen = example(lambda: None)
    assert main(words) == 3
    assert seen == []
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    "error", [ValueError("lr must be greater than 0, got -1"), PermissionError(13, "No", "out")]
)
def test_a_problem_is_one_line(example, error, capsys):
    example(raising(error))
    assert main(["example"]) == 3
    said = capsys.readouterr().err
    assert said.startswith(f"gradbias: {error} (")
    assert said.count("\n") == 1


def test_the_traceback_is_shown_on_request(example, monkeypatch):
    monkeypatch.setenv("GRADBIAS_TRACEBACK", "1")
    example(raising(ValueError("lr")))
    with pytest.raises(ValueError, match=r"^lr$"):
        main(["example"])


def test_a_bug_is_not_hidden(example):
    example(raising(ZeroDivisionError("bug")))
    with pytest.raises(ZeroDivisionError):
        main(["example"])


def test_interrupted(example, capsys):
    example(raising(KeyboardInterrupt()))
    assert main(["example"]) == 130
    assert capsys.readouterr().err == "gradbias: interrupted\n"


def test_words_come_from_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gradbias", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("gradbias ")


def in_a_process(code: str, stdout: int, **env: str) -> subprocess.CompletedProcess[str]:
    source = str(Path(gradbias.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", f"import sys; from gradbias.cli import _main; {code}"],
        env={**os.environ, "PYTHONPATH": source, **env},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )


def test_help_on_a_terminal_without_unicode():
    done = in_a_process(
        "sys.exit(_main.main(['--help']))", subprocess.PIPE, PYTHONIOENCODING="ascii"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "example" in done.stdout


def test_a_reader_that_has_gone_is_no_error():
    reads, writes = os.pipe()
    os.close(reads)
    say = "lambda: print('x' * 10**6)"
    done = in_a_process(f"_main.COMMANDS['say'] = {say}; sys.exit(_main.main(['say']))", writes)
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")


OWN = """
import numpy as np
import gradbias as gb
from theorems import toy

mine = toy.theorem(id="mine.frozen", title="what data do not see")
"""


@pytest.fixture
def own(tmp_path):
    """A file with a theorem of one's own, as docs/own-theorems.md has it."""
    from gradbias.theorems import unregister

    file = tmp_path / "my_theorem.py"
    file.write_text(OWN)
    yield str(file)
    unregister("mine.frozen")
    unregister("mine.other")


def test_theorems_shows_those_of_a_file(own, capsys):
    assert main(["theorems", own]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("mine.frozen  what data do not see")
    assert "no weight decay: at most 0" in shown
    with open(own, "a") as file:
        file.write('other = toy.theorem(id="mine.other")\n')
    assert main(["theorems", own]) == 0  # now there are two, and the first is known already
    assert "mine.other" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "label"),
    [(["theorems", "rank1.thm1"], "theorems, "), (["figures", "--list"], "figures, "),
     (["verify", "rank1.nothing"], "verify, ")],
)  # fmt: skip
def test_commands_say_at_once_what_they_do(words, label, capsys):
    """Reading all theorems takes seconds, in which nothing else could be seen."""
    main(words)
    assert capsys.readouterr().err.startswith(label)
