"""What a check found."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Report:
    """The outcome of `check_net` or `check_noise`; `print` it.

    Attributes:
        subject: what was checked.
        checked: what was looked at; a check that an earlier finding makes impossible is left out.
        findings: what is wrong, a sentence each.
    """

    subject: str
    checked: tuple[str, ...]
    findings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Was nothing found?"""
        return not self.findings

    def __str__(self) -> str:
        if self.ok:
            return f"{self.subject}: nothing wrong in {', '.join(self.checked)}"
        numbered = [f"  {i}. {text}" for i, text in enumerate(self.findings, start=1)]
        return "\n".join([f"{self.subject}: {len(self.findings)} found", *numbered])


class Notes:
    """A report while it is being written."""

    def __init__(self, subject: object):
        self.subject = f"{subject!r:.80}"
        self.checked: list[str] = []
        self.findings: list[str] = []
        self.single = False  # was single precision found? It has many symptoms

    def begin(self, what: str) -> None:
        """Say what is looked at next."""
        self.checked.append(what)

    def find(self, sentence: str) -> None:
        """Say what is wrong."""
        self.findings.append(sentence)

    def close(self, raise_on_error: bool) -> Report:
        """The report; as an error if something was found and that is wanted."""
        report = Report(self.subject, tuple(self.checked), tuple(self.findings))
        if raise_on_error and not report.ok:
            raise ValueError(str(report))
        return report


def said(error: Exception) -> str:
    """The first line of an error, with its kind."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]:.200}" if lines else type(error).__name__
