"""Progress of a long run: a line on a terminal or in a notebook, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import Any, TextIO

PATIENCE = 1.0  # seconds before anything is shown: short runs stay silent
PLAIN_EVERY = 10.0  # seconds between plain lines in a log


class Progress:
    """Shows how far a run is and when it will be done.

    Args:
        label: what runs.
        show: None shows it only where a person may be looking; True or False decide.
    """

    def __init__(self, label: str, show: bool | None = None, stream: TextIO | None = None):
        self.label = label
        self.show = show
        self.stream = sys.stderr if stream is None else stream
        self.began = time.monotonic()
        self.last_line = self.began
        self.live: _NotebookLine | _TerminalBar | None = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.live is not None:
            self.live.close()

    def update(self, fraction: float, note: str) -> None:
        """Say that this fraction is done; `note` is what the line ends with."""
        now = time.monotonic()
        if self.show is False or now - self.began < PATIENCE:
            return
        if self.live is None and _in_a_notebook():
            self.live = _NotebookLine()
        elif self.live is None and self.stream is not None and self.stream.isatty():
            self.live = _TerminalBar(self.label, self.stream)
        if self.live is not None:
            self.live.show(fraction, note, self._line(fraction, note, now))
        elif self.stream is not None and now - self.last_line >= PLAIN_EVERY:
            self.last_line = now
            print(self._line(fraction, note, now), file=self.stream, flush=True)

    def _line(self, fraction: float, note: str, now: float) -> str:
        left = (now - self.began) * (1 - fraction) / max(fraction, 1e-9)
        eta = f"{left:.0f} s left" if fraction > 0 else "time left unknown"
        return f"{self.label}: {fraction:.0%}, {eta}, {note}"


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

    def show(self, fraction: float, note: str, line: str) -> None:
        self.handle.update({"text/plain": line}, raw=True)

    def close(self) -> None:
        self.handle.update({"text/plain": ""}, raw=True)


class _TerminalBar:
    """A bar with the time that is left; it leaves no trace."""

    def __init__(self, label: str, stream: TextIO | None):
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            TaskProgressColumn,
            TextColumn,
            TimeRemainingColumn,
        )

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(file=stream),
            transient=True,
        )
        self.bar.start()
        self.task = self.bar.add_task(label, total=1.0, note="")

    def show(self, fraction: float, note: str, line: str) -> None:
        self.bar.update(self.task, completed=fraction, note=note)

    def close(self) -> None:
        self.bar.stop()
