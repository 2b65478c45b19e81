"""How a run ended: a word to compare with, and a sentence that says what to do."""

import dataclasses
import enum
import html


class Ending(enum.IntEnum):
    """Why a run stopped; the numbers are what a sweep stores."""

    CONVERGED = 0
    CONVERGED_TO_TOLERANCE = 1
    REACHED_STEPS = 2
    REACHED_TIME = 3
    STUCK_AT_A_SADDLE = 4
    STATIONARY = 5
    DIVERGED = 6
    INTEGRATOR_FAILED = 7
    STEPS_TOO_SMALL = 8

    @property
    def words(self) -> str:
        """The name as people say it: "converged to tolerance"."""
        return self.name.lower().replace("_", " ")


SENTENCES = {
    Ending.CONVERGED: (
        "The excess loss reached the gap that was asked for; where the minimum is unknown, as much "
        "time again would lower the loss by less than it."
    ),
    Ending.CONVERGED_TO_TOLERANCE: (
        "The excess loss no longer falls at this integrator's tolerance, or in double precision; "
        "a smaller rtol and atol in Flow, or a larger gap in Until, would end in `converged`."
    ),
    Ending.REACHED_STEPS: "All steps were taken.",
    Ending.REACHED_TIME: "The time is up.",
    Ending.STUCK_AT_A_SADDLE: (
        "The gradient vanishes far from zero excess loss. Probable causes: (1) the init is zero or "
        "very small, and the run needs more time to leave the origin; (2) the init is balanced "
        "with the wrong orientation and flows into a saddle; (3) a layer is narrower than the rank "
        "of the solution, and the run came to a saddle of that net."
    ),
    Ending.STEPS_TOO_SMALL: (
        "A step no longer changes the parameters, in double precision, although the gradient is "
        "about what it was at the start. Use a larger learning rate, data in larger units, more "
        "time in Flow, or another start if this one was at rest."
    ),
    Ending.STATIONARY: (
        "The gradient of the objective vanishes, and the gap that was asked for is not reached: "
        "with weight decay the minimum of the objective lies above that of the loss; a net that "
        "is narrower than the rank of the solution cannot reach it; for a non-linear net it may be "
        "a local minimum."
    ),
    Ending.DIVERGED: (
        "The parameters became infinite; the state before is kept. Use a smaller learning rate "
        "(below 2 / sharpness) or a smaller init."
    ),
    Ending.INTEGRATOR_FAILED: (
        "The integrator's steps are too small to get anywhere. Probable causes: (1) the problem is "
        "stiff (its largest and smallest rates are many powers of ten apart) and too large for the "
        "implicit method of Flow, or solver='explicit' was asked for; (2) the loss has "
        "kinks, as with relu; (3) its gradient is not a number there. Descent may be the tool, "
        "or a larger rtol and atol."
    ),
}


MISSED = (
    " The excess loss was not seen at or below the gap that was asked for (Descent looks on steps "
    "divisible by check_every): more steps or time, or a larger gap, would do."
)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Status:
    """How and where a run ended.

    Equal to another Status, to an `Ending`, or to its words: `run.status == "converged"`.

    Attributes:
        ending: why it stopped.
        at: the step or time of it.
        axis: "step" or "time".
        asked: was there a gap to reach?
        reason: what explains this end beyond its usual sentence; empty if nothing does.
    """

    ending: Ending
    at: float
    axis: str
    asked: bool = False
    reason: str = ""

    @property
    def sentence(self) -> str:
        """What this means and what to do about it."""
        limits = (Ending.REACHED_STEPS, Ending.REACHED_TIME)
        missed = self.asked and self.ending in limits
        if self.reason and self.ending is Ending.INTEGRATOR_FAILED:
            return self.reason  # instead of causes that are merely probable
        said = SENTENCES[self.ending] + (MISSED if missed else "")
        return f"{said} {self.reason}".rstrip()

    @property
    def where(self) -> str:
        """The step or time, readable."""
        return str(int(self.at)) if self.axis == "step" else f"{self.at:g}"

    def __repr__(self) -> str:
        return f"{self.ending.words} at {self.axis} {self.where}. {self.sentence}"

    def _repr_html_(self) -> str:
        head = f"{self.ending.words} at {self.axis} {self.where}"
        return f"<p><b>{html.escape(head)}</b>. {html.escape(self.sentence)}</p>"

    def __str__(self) -> str:
        if self.ending is Ending.DIVERGED:
            return f"diverged at {self.axis} {self.where}"
        return self.ending.words

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Status):
            return (self.ending, self.at) == (other.ending, other.at)
        if isinstance(other, str):
            return other in (str(self), self.ending.words)
        return isinstance(other, Ending) and self.ending is other

    def __hash__(self) -> int:
        return hash(self.ending)
