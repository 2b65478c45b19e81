"""When to measure: every so many steps, and never for more than a share of the training time."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping


class Clock:
    """Counts steps and seconds.

    Args:
        every: the shortest interval between measurements, in steps.
        budget: the largest share of training time that measurements may take.

    Attributes:
        step: how many steps were taken.
        spent: seconds on measuring.
        measurements: how many of everything.
        now: where the time comes from, in seconds.
    """

    def __init__(self, every: int, budget: float):
        self.every = every
        self.budget = budget
        self.step = 0
        self.spent = 0.0
        self.measurements = 0
        self.now: Callable[[], float] = time.perf_counter
        # of `spent`, what was spent since the first step
        self._expected = 0.0
        self._inside = 0.0
        self._start: float | None = None
        self._end: float | None = None

    @property
    def training(self) -> float:
        """Seconds of training since the first step began, without ours."""
        if self._start is None:
            return 0.0
        end = self.now() if self._end is None else self._end
        return end - self._start - self._inside

    @property
    def used(self) -> float:
        """The share of training time that went into measuring."""
        return self.spent / self.training if self.training > 0 else 0.0

    def expect(self, seconds: float) -> None:
        """What the next measurement will cost, as far as is known before the first."""
        self._expected = seconds

    def tick(self) -> None:
        """A step begins."""
        if self._start is None:
            self._start = self.now()
        self.step += 1

    def looks(self) -> bool:
        """Is the step that has begun one to look at? What is cheap is measured at each."""
        return self.step % self.every == 0

    def due(self) -> bool:
        """Is it one to measure all of?

        While the budget does not cover what was spent and what the next measurement will cost,
        such steps pass, and the interval grows.
        """
        if not self.looks():
            return False
        return self.spent + self._expected <= self.budget * self.training

    def stop(self) -> None:
        """Training has ended: what is done from now on does not slow it down."""
        if self._end is None:
            self._end = self.now()

    def state(self) -> dict[str, float]:
        """What a run that goes on later must know."""
        counts = {"step": self.step, "measurements": self.measurements}
        times = {"spent": self.spent, "expected": self._expected, "training": self.training}
        return {**counts, **times}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from `state`; the time in between does not count."""
        self.step = int(state["step"])
        self.measurements = int(state["measurements"])
        self.spent = state["spent"] + self.spent
        self._expected = state["expected"]
        self._inside = 0.0
        self._end = None
        if self.step:
            self._start = self.now() - state["training"]

    @contextlib.contextmanager
    def ours(self, measurement: bool = False) -> Iterator[None]:
        """Seconds in here are the monitor's."""
        begin = self.now()
        try:
            yield
        finally:
            self.measurements += measurement
            if self._end is None:
                self._spend(self.now() - begin, measurement)

    def _spend(self, seconds: float, measurement: bool) -> None:
        self.spent += seconds
        if self._start is not None:
            self._inside += seconds
        if measurement:
            self._expected = 1.25 * seconds  # the next one may take a little longer
