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
        self.label, self.show = label, show
        self.stream = sys.stderr if stream is None else stream
        self.began = time.monotonic()
        self.last_line = self.began
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def update(self, fraction: float, note: str) -> None:
        """Say that this fraction is done; `note` is what the line ends with."""
        now = time.monotonic()
        if self.show is False or self.stream is None or now - self.began < PATIENCE:
            return  # a program without a console has no stream
        if self._lively():
            self._draw(fraction, note)
        elif now - self.last_line >= PLAIN_EVERY:
            self.last_line = now
            left = (now - self.began) * (1 - fraction) / max(fraction, 1e-9)
            eta = f"{left:.0f} s left" if fraction > 0 else "time left unknown"
            print(f"{self.label}: {fraction:.0%}, {eta}, {note}", file=self.stream, flush=True)

    def _lively(self) -> bool:
        return self.stream.isatty() or "ipykernel" in sys.modules

    def _draw(self, fraction: float, note: str) -> None:
        if self.bar is None:
            self.bar = _bar(self.stream)
            self.bar.start()
            self.task = self.bar.add_task(self.label, total=1.0, note=note)
        self.bar.update(self.task, completed=fraction, note=note)


def _bar(stream: TextIO) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    notebook = "ipykernel" in sys.modules
    console = Console(file=None if notebook else stream)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
        transient=True,
    )
