"""Progress: silent for short runs, a live line for people, plain lines for logs."""

import io
import re
import sys
import types

import pytest

import gradbias as gb
from gradbias.numerics import progress
from gradbias.numerics.pace import Pace, duration
from gradbias.numerics.progress import CountProgress, Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_short_runs_stay_silent():
    stream = io.StringIO()
    with Progress("a run", stream=stream) as bar:
        bar.update(0.5, "step 10")
    assert stream.getvalue() == ""


def test_a_log_gets_plain_lines(impatient, clock):
    stream = io.StringIO()
    with Progress("a run", stream=stream) as bar:
        for second in range(5):
            clock[0] = second
            bar.update(second / 16, f"step {second}")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "a run: 0%, time left unknown, step 0"
    assert lines[-1] == "a run: 25%, about 12 s left, step 4"
    assert "\x1b" not in stream.getvalue()


def test_work_that_may_end_sooner_takes_at_most(impatient, clock):
    stream = io.StringIO()
    bar = Progress("a run", stream=stream)
    for second in range(5):
        clock[0] = second
        bar.update(second / 16, "gap 1", ends="at most")
    assert stream.getvalue().splitlines()[-1] == "a run: 25%, at most 12 s left, gap 1"


def test_compilation_is_not_progress():
    """A call of 20 s that compiles for 19 of them."""
    pace = Pace()
    for seconds, fraction in ((19.0, 0.001), (19.2, 0.2), (19.4, 0.4), (19.6, 0.6)):
        assert pace.left is None
        pace.look(seconds, fraction)
    assert pace.left == pytest.approx(0.4, rel=0.01)


@pytest.mark.parametrize("change", [0.1, 0.3, 3.0, 10.0])
def test_what_is_said_is_true_within_a_factor_of_two(change):
    """The pace changes in the middle of the work; once the change shows, nothing false is said."""
    pace, wrong, said = Pace(), 0, 0

    def moment(done):
        return 100 * (done if done < 0.5 else 0.5 + (done - 0.5) / change)

    for step in range(1, 1001):
        done = step / 1000
        pace.look(moment(done), done)
        since = moment(done) - moment(0.5)
        if pace.left is None or done < 0.5 or since < 0.1 * moment(done):
            continue
        said += 1
        true = moment(1.0) - moment(done)
        wrong += not true / 2 - 1e-9 <= pace.left <= 2 * true + 1e-9
    assert wrong == 0
    assert said > 100 or change > 1  # too little time is left to be sure


def test_few_looks_are_kept():
    pace = Pace()
    for step in range(10_000):
        pace.look(float(step), step / 20_000)
    assert len(pace.looks) < 300
    assert pace.left == pytest.approx(10_000, rel=0.01)


NET = gb.TwoLayer(4, 2, 5)
REGRESSION = gb.problems.gaussian(n=3, d=4, k=2, key=1, loss="half_mean")
START = gb.init.orthogonal(NET, 1e-3)


RUNS = {
    "steps": (gb.Descent(1e-3, gb.LabelNoise(0.1)), gb.Until(steps=2_000_000)),
    "gap": (gb.Descent(5e-6), gb.Until(gap=1e-16, steps=10**8)),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_says_the_truth_about_its_end(name, monkeypatch):
    """By the processor's clock, which other work on the machine does not disturb."""
    dynamics, until = RUNS[name]
    clock = progress.time.process_time
    said = []
    monkeypatch.setattr(progress.time, "monotonic", clock)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)

    def show(bar, done, note, line):
        said.append((clock(), bar.pace.left, line))

    monkeypatch.setattr(Progress, "_show", show)
    gb.simulate(gb.Setup(REGRESSION, NET, START, dynamics, until), reduce=False)
    end = clock()
    assert "left unknown" in said[0][2]
    told = [(end - at, left, line) for at, left, line in said if re.search(r"about \d+ s", line)]
    told = [row for row in told if row[0] > 0.5]  # at the end some compilation is left
    assert told
    for true, left, line in told:
        assert true / 2 <= left <= 2 * true, line


def test_things_are_counted(impatient):
    stream = io.StringIO()
    with CountProgress("figures", 3, stream=stream) as count:
        count.step(0, "rank1.1a")
        count.step(1, "rank1.1b")
    assert stream.getvalue().splitlines() == [
        "figures, 0 of 3: rank1.1a",
        "figures, 1 of 3: rank1.1b",
    ]


def test_a_short_count_stays_silent_unless_it_is_said_at_once():
    for at_once, lines in ((False, []), (True, ["figures, 0 of 3: one"])):
        stream = io.StringIO()
        with CountProgress("figures", 3, stream=stream, at_once=at_once) as count:
            count.step(0, "one")
            count.step(1, "two")  # too soon for a second line in a log
        assert stream.getvalue().splitlines() == lines


def test_what_is_printed_beside_a_live_line_goes_where_it_is_sent(impatient, monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with CountProgress("figures", 3, stream=stream) as count:
        count.step(0, "one")
        print("plain")
        count.beside(lambda: print("result"))
        count.step(1, "two")
    assert capsys.readouterr().out == "plain\nresult\n"
    assert "result" not in stream.getvalue()


def test_durations():
    said = [duration(s) for s in (42, 150, 8000, 400_000)]
    assert said == ["42 s", "2.5 min", "2.2 h", "4.6 days"]


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
