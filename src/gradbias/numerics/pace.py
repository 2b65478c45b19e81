"""How long work will still take, said only once that is known."""

TIMED = 0.5  # seconds of work that an estimate needs
LOOKS = 4  # and looks at it
AGREE = 1.5  # paces that differ by more say nothing about the time left
KEPT = 256  # looks; every other one is dropped beyond


class Pace:
    """How fast a fraction grows, from looks at it.

    What was before the first look was compilation and does not count. Of the time since then the
    last half, quarter and eighth are compared: as long as their paces differ, it is not known when
    the work will be done.
    """

    def __init__(self) -> None:
        self.looks: list[tuple[float, float]] = []

    def look(self, now: float, fraction: float) -> None:
        """Note that this fraction was done by then."""
        self.looks.append((now, fraction))
        if len(self.looks) > KEPT:
            self.looks = [self.looks[0], *self.looks[2:-1:2], self.looks[-1]]

    @property
    def left(self) -> float | None:
        """Seconds until all is done; None while that is unknown."""
        if len(self.looks) < LOOKS:
            return None
        now, done = self.looks[-1]
        elapsed = now - self.looks[0][0]
        if elapsed < TIMED:
            return None
        paces = [self._pace_since(now - elapsed / part) for part in (2, 4, 8)]
        if min(paces) <= 0 or max(paces) > AGREE * min(paces):
            return None
        return (1 - done) / paces[1]

    def _pace_since(self, moment: float) -> float:
        """Fraction per second from the last look before a moment until now."""
        began, before = next(look for look in reversed(self.looks) if look[0] <= moment)
        now, done = self.looks[-1]
        return (done - before) / (now - began)


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    for unit, size in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
