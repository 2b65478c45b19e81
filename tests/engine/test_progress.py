"""Progress: silent for short runs, a live line for people, plain lines for logs."""

import io
import sys
import types

import pytest

from gradbias._engine import progress
from gradbias._engine.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)


def test_short_runs_stay_silent():
    stream = io.StringIO()
    with Progress("a run", stream=stream) as bar:
        bar.update(0.5, "step 10")
    assert stream.getvalue() == ""


def test_a_log_gets_plain_lines(impatient):
    stream = io.StringIO()
    with Progress("a run", stream=stream) as bar:
        bar.update(0.0, "step 0")
        bar.update(0.25, "step 10, gap 1e-3")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "a run: 0%, time left unknown, step 0"
    assert lines[1].startswith("a run: 25%, ")
    assert lines[1].endswith(" s left, step 10, gap 1e-3")
    assert "\x1b" not in stream.getvalue()


def test_a_terminal_gets_one_live_line_that_leaves_no_trace(impatient, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with Progress("a run", stream=stream) as bar:
        for i in range(5):
            bar.update(i / 5, f"step {i}")
    text = stream.getvalue()
    assert "a run" in text
    assert "80%" in text
    assert text.endswith("\x1b[2K")  # the line is erased at the end


def test_it_can_be_switched_off(impatient):
    stream = Terminal()
    with Progress("a run", show=False, stream=stream) as bar:
        bar.update(0.5, "step 1")
    assert stream.getvalue() == ""


def notebook(monkeypatch, kernel):
    """What a notebook's process has loaded; returns what it shows."""
    shown = []

    class Handle:
        def update(self, data, raw):
            shown.append(data["text/plain"])

    class Display(types.ModuleType):
        def display(self, *_, **__):
            return Handle()

        def get_ipython(self):
            return types.SimpleNamespace(kernel=kernel)

    for name, module in (("ipykernel", None), ("IPython", None), ("IPython.display", None)):
        monkeypatch.setitem(sys.modules, name, module or Display(name))
    return shown


def test_a_notebook_gets_one_line_that_is_written_over(impatient, monkeypatch):
    shown = notebook(monkeypatch, kernel="a kernel")
    with Progress("a run", stream=io.StringIO()) as bar:
        bar.update(0.5, "step 1")
        bar.update(0.75, "step 2")
    assert [line.split(",")[0] for line in shown] == ["a run: 50%", "a run: 75%", ""]


def test_a_script_that_has_only_imported_ipykernel_gets_plain_lines(impatient, monkeypatch):
    """As one with dask has."""
    shown, stream = notebook(monkeypatch, kernel=None), io.StringIO()
    with Progress("a run", stream=stream) as bar:
        bar.update(0.5, "step 1")
    assert shown == []
    assert stream.getvalue().startswith("a run: 50%")
