"""How long a sweep will take, said before it is long."""

from typing import TextIO

from ..numerics.pace import duration
from ..numerics.progress import Ends, Progress

WORTH_SAYING = 30.0  # seconds


class SweepProgress(Progress):
    """Progress of a whole sweep; once it is clear that it takes long, it says so, in logs too.

    Args:
        label: what runs.
        show: as in `Progress`; False says nothing at all.
        total: the cost of all that is to do, in any unit.
        stream: as in `Progress`.
    """

    def __init__(self, label: str, show: bool | None, total: float, stream: TextIO | None = None):
        super().__init__(label, show, stream)
        self.total = total
        self.spent = 0.0
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

    def update(self, fraction: float, note: str, ends: Ends = "about") -> None:
        """Show how far all chunks are."""
        super().update(fraction, note, ends)
        left = self.pace.left
        if left is not None and ends != "unknown":
            self.say(left, ends=ends)

    def say(self, seconds: float, how: str = "", ends: Ends = "about") -> None:
        """Print an estimate of what is left, once, if it is long."""
        if self.said or self.show is False or seconds < WORTH_SAYING:
            return
        self.said = True
        line = f"{self.label}: {ends} {duration(seconds)}{how}"
        self.beside(lambda: self._write(line))


class ChunkProgress(Progress):
    """The progress of one chunk as part of the whole."""

    def __init__(self, whole: SweepProgress, cost: float):
        self.whole = whole
        self.cost = cost

    def update(self, fraction: float, note: str, ends: Ends = "about") -> None:
        """Show how far this chunk is."""
        whole = self.whole
        whole.update((whole.spent + self.cost * fraction) / whole.total, note, ends)
