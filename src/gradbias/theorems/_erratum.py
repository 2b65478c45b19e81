"""Where a printed formula is wrong, and the evidence."""

import dataclasses
from collections.abc import Callable
from typing import Literal

from ._claims import Predict

Kind = Literal["false", "misprint", "unproved", "loose", "convention", "reading"]
KINDS = ("false", "misprint", "unproved", "loose", "convention", "reading")
ERRORS = ("false", "misprint")  # of the paper; the others are not
APART = 10.0  # the two forms, in units of what the numbers are uncertain by
AGREES = 4.0  # the corrected form and the truth, in the same units
ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Numbers that speak for a correction, against a truth found without it.

    Attributes:
        printed: how far the printed form is from the truth; for a bound, measured ÷ printed bound.
        corrected: the same of the corrected form.
        uncertainty: how well the two numbers are known: rounding, or the standard error of a
            truth that is estimated, in the same units.
        tolerance: how far a right form may be from the truth; 4 × the uncertainty if None. More
            only where a next order is known to be that large.
    """

    printed: float
    corrected: float
    uncertainty: float = ROUNDING
    tolerance: float | None = None

    @property
    def allowed(self) -> float:
        """How far from the truth the corrected form may be."""
        return AGREES * self.uncertainty if self.tolerance is None else self.tolerance


@dataclasses.dataclass(frozen=True)
class Erratum:
    """A place of a paper that a reader should know about.

    Attributes:
        where: the place in the paper: "Eq (55)".
        printed: the printed form, LaTeX between dollars.
        corrected: the form that holds.
        kind: "false" (the claim is wrong), "misprint" (the paper's own neighbouring line has it
            right), "unproved" (a gap in the proof, the claim is not refuted), "loose" (true, the
            constant is not the best), "convention", or "reading": how we read a text that lost
            pieces when it was converted, to be checked against the PDF; no verdict on the paper.
        evidence: key → Evidence, for errors of the paper only; see `shown`.
        bound: the evidence is about bounds: a counter-example violates the printed one.
        predict: the printed form in the place of the theorem's `predict`; the runs refute it.
        quote: what is printed, as it stands in the text at hand, white space aside.
        note: what else a reader should know.
    """

    where: str
    printed: str
    corrected: str
    kind: Kind
    evidence: Callable[[int], Evidence] | None = None
    bound: bool = False
    predict: Predict | None = None
    quote: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {self.kind!r}")
        if self.evidence is not None and self.kind not in ERRORS:
            raise ValueError(f"evidence is for the kinds {ERRORS}, not for {self.kind!r}")

    def shown(self, evidence: Evidence) -> bool:
        """Does the evidence show the printed form wrong, and the corrected one right?

        The two must be apart by more than 10 × what they are uncertain by; the corrected form must
        agree with the truth and the printed one must not. A printed bound must be violated, and
        the corrected one must not.
        """
        printed = evidence.printed
        corrected = evidence.corrected
        doubt = evidence.uncertainty
        apart = printed - corrected > APART * doubt
        if self.bound:
            return bool(apart and printed > 1 + APART * doubt and corrected <= 1 + doubt)
        return bool(apart and corrected <= evidence.allowed < printed)
