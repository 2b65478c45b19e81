"""How long a sweep will take, said before it is long."""

import sys
import time
from typing import TextIO

from .._engine.progress import Progress

WORTH_SAYING = 30.0  # seconds
TIMED = 0.5  # seconds of work that an estimate is made from


class SweepProgress(Progress):
    """Progress of a whole sweep; once it is clear that it takes long, it says so, in logs too.

    Args:
        label: what runs.
        show: None shows progress only where a person may be looking; False says nothing at all.
        total: the cost of all that is to do, in any unit.
    """

    def __init__(self, label: str, show: bool | None, total: float, stream: TextIO | None = None):
        super().__init__(label, show, stream)
        self.total = total
        self.spent = 0.0
        self.first: tuple[float, float] | None = None
        self.said = False

    def __enter__(self) -> "SweepProgress":
        return self

    def part(self, cost: float) -> "ChunkProgress":
        """The progress of one chunk, as part of the whole."""
        return ChunkProgress(self, cost)

    def finish(self, cost: float, note: str) -> None:
        """A chunk is done."""
        self.spent += cost
        self.update(self.spent / self.total, note)

    def update(self, fraction: float, note: str) -> None:
        """Show how far all chunks are."""
        now = time.monotonic()
        if self.first is None:
            self.first = now, fraction  # what was before it was compilation
        elapsed = now - self.first[0]
        gained = fraction - self.first[1]
        if elapsed >= TIMED and gained > 0:
            self.say(elapsed / gained * (1 - fraction))
        super().update(fraction, note)

    def _line(self, fraction: float, note: str, now: float) -> str:
        """By the pace since the first look: what was before it was compilation."""
        since, before = self.first or (now, fraction)
        gained = fraction - before
        left = f"{duration((now - since) / gained * (1 - fraction))} left" if gained > 0 else ""
        return f"{self.label}: {fraction:.0%}, {left or 'time left unknown'}, {note}"

    def say(self, seconds: float, how: str = "") -> None:
        """Print an estimate of what is left, once, if it is long."""
        if self.said or self.show is False or seconds < WORTH_SAYING or sys.stderr is None:
            return
        self.said = True
        line = f"{self.label}: about {duration(seconds)}{how}"
        print(line, file=self.stream, flush=True)


class ChunkProgress(Progress):
    """The progress of one chunk as part of the whole."""

    def __init__(self, whole: SweepProgress, cost: float):
        self.whole = whole
        self.cost = cost

    def update(self, fraction: float, note: str) -> None:
        """Show how far this chunk is."""
        whole = self.whole
        whole.update((whole.spent + self.cost * fraction) / whole.total, note)


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
