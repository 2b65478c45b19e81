"""Where a printed formula is wrong, and the evidence."""

import dataclasses
from collections.abc import Callable
from typing import Literal

Kind = Literal["numeric", "bound", "ill-typed", "unproved", "loose", "convention"]
KINDS = ("numeric", "bound", "ill-typed", "unproved", "loose", "convention")
TESTED = ("numeric", "bound")
FACTOR, SIGMAS = 100.0, 5.0


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Numbers that speak for a correction.

    Attributes:
        printed: the error of the printed form; for a bound, measured ÷ printed bound.
        corrected: the same of the corrected form.
        z: where both are estimated, how many standard errors the printed form is away.
    """

    printed: float
    corrected: float
    z: float | None = None


@dataclasses.dataclass(frozen=True)
class Erratum:
    """A correction of a printed formula.

    Attributes:
        where: the place in the paper: "Eq (55)".
        printed: the printed form, LaTeX between dollars.
        corrected: the form that holds.
        kind: "numeric" (the printed error is ≥ 100 × the corrected one, or z ≥ 5), "bound" (a
            stored counter-example violates the printed bound), "ill-typed" (shapes do not fit),
            or "unproved", "loose", "convention": listed, not tested.
        evidence: key → Evidence; needed for "numeric" and "bound".
        note: what else a reader should know.
    """

    where: str
    printed: str
    corrected: str
    kind: Kind
    evidence: Callable[[int], Evidence] | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {self.kind!r}")
        if (self.evidence is not None) != (self.kind in TESTED):
            raise ValueError(
                f"an erratum of kind {self.kind!r} must "
                f"{'have' if self.kind in TESTED else 'not have'} evidence"
            )

    def shown(self, found: Evidence) -> bool:
        """Does the evidence show the printed form wrong, and the corrected one right?"""
        if self.kind == "bound":
            return bool(found.printed > 1 and found.corrected <= 1)
        if found.z is not None:
            return bool(found.z >= SIGMAS and found.printed > found.corrected)
        return bool(found.printed >= FACTOR * found.corrected and found.printed > 0)
