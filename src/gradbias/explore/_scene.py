"""A scene: what can be moved, what is predicted then, what is run, and the code of the picture."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

from .._engine.setup import Setup
from .._verdicts.predict import predict
from ..theorems import Checked, Theorem, known, to_html
from ._picture import Json

# Name of a control → its value, complete and checked; whole numbers are floats, too.
State: TypeAlias = Mapping[str, float]
DIGITS = 6  # significant, of a value in a link


@dataclasses.dataclass(frozen=True)
class Slider:
    """One slider.

    Attributes:
        name: in links and in states.
        label: on the page.
        value: where it stands at first.
        low: the least value.
        high: the largest.
        step: between positions; of the exponent of ten where it is logarithmic.
        log: does the slider move in the logarithm?
    """

    name: str
    label: str
    value: float
    low: float
    high: float
    step: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """Does it take whole numbers only?"""
        return self.step == 1 and not self.log

    def checked(self, given: str | float) -> float:
        """The value, or a refusal that names the control."""
        kind = "a whole number" if self.whole else "a number"
        needs = f"{self.name} must be {kind} from {self.low:g} to {self.high:g}, got {given!r:.40}"
        try:
            value = float(given)
        except ValueError:
            raise ValueError(needs) from None
        if not self.low <= value <= self.high or (self.whole and value != round(value)):
            raise ValueError(needs)
        return (
            value if value == 0 else round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scene:
    """One page of the explorer.

    Attributes:
        id: in links.
        title: what it is about.
        look: one sentence, what to look for.
        controls: the sliders.
        predicted: state → panels and numbers, without a step of training.
        simulated: state → what runs add to the panels and to the numbers.
        setups: state → the setup that each theorem is asked about.
        code: state → the program that makes the same picture.
        note: what is said where no theorem is asked.
        warm: states whose runs compile everything that sliders can ask for.
    """

    id: str
    title: str
    look: str
    controls: tuple[Slider, ...]
    predicted: Callable[[State], Json]
    simulated: Callable[[State], Json]
    setups: Callable[[State], Mapping[str, Setup]]
    code: Callable[[State], str]
    note: str = ""
    warm: tuple[Mapping[str, float], ...] = ({},)

    def state(self, given: Mapping[str, str | float] | None = None) -> dict[str, float]:
        """All values: the given ones, checked, and the first positions of the others.

        Args:
            given: by name of control.
        """
        given = given or {}
        names = [control.name for control in self.controls]
        unknown = sorted(set(given) - set(names))
        if unknown:
            raise ValueError(f"{self.id} has no control {unknown[0]!r}; it has {', '.join(names)}")
        return {c.name: c.checked(given.get(c.name, c.value)) for c in self.controls}

    def about(self) -> Json:
        """What the page needs to build the controls."""
        controls = [
            {**dataclasses.asdict(control), "whole": control.whole} for control in self.controls
        ]
        return {
            "id": self.id,
            "title": self.title,
            "look": self.look,
            "note": self.note,
            "controls": controls,
        }

    def theorems(self, state: State) -> list[Json]:
        """Statements, and how far each hypothesis is met in this state."""
        return [_asked(known()[name], setup) for name, setup in self.setups(state).items()]


def _asked(theorem: Theorem, setup: Setup) -> Json:
    told = predict(setup, theorem, progress=False)
    applies = len(told) == 1
    checked = told[0].hypotheses if applies else theorem.check(setup)
    error = told[0].expected_error if applies else None
    return {
        "id": theorem.id,
        "title": theorem.title,
        "source": "gradbias" if theorem.own else str(theorem.source or ""),
        "statement": to_html(theorem.statement),
        "applies": applies,
        "state": "applies" if applies else told.why_not(theorem.id),
        "expected_error": error,
        "hypotheses": [_hypothesis(one) for one in checked],
    }


def _hypothesis(checked: Checked) -> Json:
    limit = checked.hypothesis.at_most
    return {
        "name": checked.hypothesis.name,
        "met": checked.met,
        "graded": checked.hypothesis.graded,
        "margin": None if checked.yes_or_no or math.isnan(checked.margin) else checked.margin,
        "at_most": limit if math.isfinite(limit) else None,
        "words": str(checked),
    }
