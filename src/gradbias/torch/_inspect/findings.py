"""What `gradbias.torch.advise` says: rows with a verdict, the evidence, the theorem behind it."""

import dataclasses
from collections.abc import Iterator, Mapping

from ..._text.table import Table, number

APPLIES = "applies"
NEARLY = "approximately"
NOT = "does not apply"
MOST = 12


@dataclasses.dataclass(frozen=True)
class Finding:
    """One row.

    Attributes:
        topic: what it is about, such as "balance" or "conservation".
        verdict: "applies" where the theorem's hypotheses hold for this model and this optimiser;
            "approximately" where they do up to something that is named; "does not apply".
        statement: what follows, or why nothing does.
        evidence: the numbers that were measured, by name.
        theorem: an id of `gradbias.theorems`, or the statement itself where it is one line.
    """

    topic: str
    verdict: str
    statement: str
    evidence: Mapping[str, float]
    theorem: str


class Findings(Table):
    """At most twelve rows; printed, a table.

    Args:
        found: the rows.
        notes: lines below them.
    """

    columns = ("about", "verdict", "what was found, and why it is so")

    def __init__(self, found: tuple[Finding, ...], notes: tuple[str, ...] = ()):
        self.found = found[:MOST]
        self._notes = notes

    def __len__(self) -> int:
        return len(self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __getitem__(self, topic: str) -> Finding:
        for row in self.found:
            if row.topic == topic:
                return row
        raise KeyError(f"no row about {topic!r}: {', '.join(row.topic for row in self.found)}")

    def rows(self) -> list[tuple[str, ...]]:
        return [(f.topic, f.verdict, _told(f)) for f in self.found]

    def notes(self) -> list[str]:
        return list(self._notes)


def _told(row: Finding) -> str:
    numbers = ", ".join(f"{name} {number(value)}" for name, value in row.evidence.items())
    return f"{row.statement}{f' ({numbers})' if numbers else ''} [{row.theorem}]"
