"""What a theorem needs to be true, as a number that can be looked at."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from .._engine.setup import Setup
from ._topics import has

TRUE = 0.5  # between the margins of true, 0, and not true, 1


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A checkable hypothesis: `margin(setup)` must not exceed `at_most`.

    Attributes:
        name: what must be true, in a few words: "init is balanced".
        margin: setup → how far from true; 0 is exactly true.
        at_most: up to where the hypothesis counts as met.
        graded: the theorem still predicts while it is only nearly true. The margin is then the
            relative error that this brings, it widens the tolerance, and beyond `at_most` the
            prediction is of no use.
        order: for a graded one, what the error is made of: "O(lr)".
    """

    name: str
    margin: Callable[[Setup], float]
    at_most: float
    graded: bool = False
    order: str = ""

    def __post_init__(self) -> None:
        if not callable(self.margin):
            raise ValueError(f"margin must be a function of a setup, got {self.margin!r:.80}")
        if not self.at_most >= 0:
            raise ValueError(f"at_most must not be negative, got {self.at_most!r}")

    @property
    def yes_or_no(self) -> bool:
        """Is it made by `kind`, true or not, with nothing between?"""
        return self.at_most == TRUE and not self.graded

    def check(self, setup: Setup) -> "Checked":
        """Look at one setup.

        A margin that cannot be computed there (its mathematics refuses the data) is not met, and
        must not keep the other theorems from being asked.
        """
        try:
            margin = float(self.margin(setup))
            known = "" if margin <= self.at_most else has(self.name, setup)
            return Checked(self, margin, has=known)
        except dataclasses.FrozenInstanceError:
            raise  # the setup was changed, which is no matter of this hypothesis
        except Exception as error:
            return Checked(self, math.nan, str(error).strip().split("\n")[0])


@dataclasses.dataclass(frozen=True)
class Checked:
    """A hypothesis, looked at on one setup.

    Attributes:
        hypothesis: which one.
        margin: what was found; NaN where it could not be computed, which is not met.
        why: what was said where it could not be computed.
        has: what the setup has of what a broken hypothesis speaks of: "3 outputs".
    """

    hypothesis: Hypothesis
    margin: float
    why: str = ""
    has: str = ""

    @property
    def met(self) -> bool:
        """Is the hypothesis true here, or nearly so for a graded one?"""
        return self.margin <= self.hypothesis.at_most

    @property
    def expected_error(self) -> float:
        """The relative error that a graded hypothesis brings; 0 for a hard one."""
        return self.margin if self.hypothesis.graded else 0.0

    def __str__(self) -> str:
        name = self.hypothesis.name
        if not self.met:
            return f"needs: {name} ({self._found})" if self._found else f"needs: {name}"
        if self.hypothesis.graded and self.margin > 0:
            order = self.hypothesis.order or name
            return f"up to {order}: expected ≤ {self.margin:.1e}"
        return name if self.yes_or_no else f"{name} ({self.margin:.2g})"

    @property
    def yes_or_no(self) -> bool:
        """Is its margin no measure, but 0 for true and 1 for not?"""
        return self.hypothesis.yes_or_no and self.margin in (0, 1)

    @property
    def _found(self) -> str:
        """What was found where it is not met."""
        limit = self.hypothesis.at_most
        if math.isnan(self.margin):
            return "could not be computed" + (f": {self.why}" if self.why else "")
        if self.yes_or_no:
            return f"this setup has {self.has}" if self.has else ""
        allowed = f"at most {limit:.2g}" if limit else "must be 0"
        if self.hypothesis.graded:
            return f"expected error {self.margin:.2g}, {allowed}"
        return f"{self.margin:.2g}, {allowed}"


def kind(name: str, holds: Callable[[Setup], Any]) -> Hypothesis:
    """A hypothesis that is true or not: its margin is 0 or 1.

    Args:
        name: what must be true.
        holds: setup → truth.
    """
    return Hypothesis(name, lambda setup: 0.0 if holds(setup) else 1.0, TRUE)
