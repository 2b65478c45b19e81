"""Progress of long work: a line on a terminal or in a notebook, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, TextIO, TypeAlias

from .log import say
from .pace import Pace, duration

PATIENCE = 1.0  # seconds before anything is shown: short runs stay silent
PLAIN_EVERY = 10.0  # seconds between plain lines in a log

Ends: TypeAlias = Literal["about", "at most", "unknown"]


class Progress:
    """Shows how far a run is and when it will be done.

    Args:
        label: what runs.
        show: None shows it on terminals, in notebooks and, as plain lines, in logs; False never.
        stream: where to; if None, a live line on stderr, and plain lines to the logger "gradbias".
    """

    def __init__(self, label: str, show: bool | None = None, stream: TextIO | None = None):
        self.label = label
        self.show = show
        self.stream = stream
        self.began: float = time.monotonic()
        self.last_line: float = self.began
        self.pace: Pace = Pace()
        self.live: _NotebookLine | _TerminalBar | None = None
        self.owner: bool = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.live is not None and self.owner:
            _shared.line = None
            self.live.close()

    def update(self, fraction: float, note: str, ends: Ends = "about") -> None:
        """Say that this fraction is done.

        Args:
            fraction: between 0 and 1.
            note: what the line ends with.
            ends: what the pace of the fraction says about the end: "about" when it is, "at most"
                how long it takes, or nothing ("unknown").
        """
        now = time.monotonic()
        self.pace.look(now, fraction)
        if self.show is False or now - self.began < PATIENCE:
            return
        left = self._left(ends)
        self._show(fraction, f"{left}, {note}", f"{self.label}: {fraction:.0%}, {left}, {note}")

    def _left(self, ends: Ends) -> str:
        seconds = None if ends == "unknown" else self.pace.left
        return "time left unknown" if seconds is None else f"{ends} {duration(seconds)} left"

    def _show(self, fraction: float, note: str, line: str) -> None:
        now = time.monotonic()
        if self.live is None and not _shared.silent:
            self.live = self._live_line()
        if self.live is not None:
            self.live.show(self.label, fraction, note, line)
        elif not _shared.silent and now - self.last_line >= PLAIN_EVERY:
            self.last_line = now
            self._write(line)

    def _write(self, line: str) -> None:
        """A plain line: to the logger, or to the stream that was given."""
        if self.stream is None:
            say(line)
        else:
            print(line, file=self.stream, flush=True)

    def _live_line(self) -> "_NotebookLine | _TerminalBar | None":
        """The line of the work that this is a part of, or one of its own."""
        if _shared.line is not None:
            return _shared.line
        if _in_a_notebook():
            _shared.line = _NotebookLine()
        stream = sys.stderr if self.stream is None else self.stream
        if _shared.line is None and stream is not None and stream.isatty():
            _shared.line = _TerminalBar(stream)
        self.owner = _shared.line is not None
        return _shared.line

    def beside(self, write: Callable[[], object]) -> None:
        """Call what prints something else, with the live line out of its way."""
        if isinstance(self.live, _TerminalBar):
            self.live.bar.stop()
            write()
            self.live.bar.start()
        else:
            write()


class CountProgress(Progress):
    """Shows which of several things is being done, with no word on time: they are unequal.

    Args:
        label: what is counted.
        total: how many there are; None as long as that is not known.
        show: as in `Progress`.
        stream: as in `Progress`.
        at_once: say so from the first step on, in a log too, instead of when it takes long.
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        show: bool | None = None,
        stream: TextIO | None = None,
        at_once: bool = False,
    ):
        super().__init__(label, show, stream)
        self.total = total
        self.patience: float = 0.0 if at_once else PATIENCE
        if at_once:
            self.last_line = -PLAIN_EVERY

    def __enter__(self) -> "CountProgress":
        return self

    def step(self, done: int, what: str) -> None:
        """So many are done, and `what` is next."""
        if self.show is False or time.monotonic() - self.began < self.patience:
            return
        note = what if self.total is None else f"{done} of {self.total}: {what}"
        self._show(done / (self.total or 1), note, f"{self.label}, {note}")


class _Shared:
    """What all progress of this process shares: one live line, or none at all."""

    line: "_NotebookLine | _TerminalBar | None" = None
    silent = False


_shared = _Shared()


def silence() -> None:
    """Show nothing from now on: this process works for another one."""
    _shared.silent = True


def _in_a_notebook() -> bool:
    """Is there a kernel that shows output? Other libraries import ipykernel without one."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython  # pyright: ignore[reportMissingImports]

    return getattr(get_ipython(), "kernel", None) is not None


class _NotebookLine:
    """One output that is written over; rich would want a widget library for it."""

    def __init__(self) -> None:
        from IPython.display import display  # pyright: ignore[reportMissingImports]

        self.handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def show(self, label: str, fraction: float, note: str, line: str) -> None:
        self.handle.update({"text/plain": line}, raw=True)

    def close(self) -> None:
        self.handle.update({"text/plain": ""}, raw=True)


class _TerminalBar:
    """A bar with the time that passed and a note; it leaves no trace."""

    def __init__(self, stream: TextIO | None):
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=Console(file=stream),
            transient=True,
            redirect_stdout=False,  # what commands print goes where it is sent
            redirect_stderr=False,
        )
        self.bar.start()
        self.task = self.bar.add_task("", total=1.0, note="")

    def show(self, label: str, fraction: float, note: str, line: str) -> None:
        self.bar.update(self.task, description=label, completed=fraction, note=note)

    def close(self) -> None:
        self.bar.stop()
