"""The content of all members of a sweep, column by column, and where two of them differ."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from ..numerics.fingerprint import Lines

ABSENT = "nothing"


class FingerprintTable:
    """Lines of many members; what is the same in all of them is held once."""

    def __init__(self) -> None:
        self.count = 0
        self.columns: dict[str, _Column] = {}

    def add(self, lines: Lines) -> None:
        """The lines of one more member."""
        for name, line in lines.items():
            if name not in self.columns:
                self.columns[name] = _Column(self.count)
            self.columns[name].add(line)
        self.count += 1
        if len(self.columns) > len(lines):
            for column in self.columns.values():
                column.fill(self.count)

    def difference(self, member: int, lines: Lines) -> str | None:
        """The first line in which a member differs from what the table says."""
        for name in dict.fromkeys([*self.columns, *lines]):
            known = self.columns[name].at(member) if name in self.columns else ABSENT
            if known != lines.get(name, ABSENT):
                return f"{name}: first {known}, now {lines.get(name, ABSENT)}"
        return None

    def differences(self, now: "FingerprintTable") -> Iterator[tuple[int, str, str, str]]:
        """Member, name, stored and present line, wherever two tables of equal length differ."""
        names = list(dict.fromkeys([*now.columns, *self.columns]))
        changed = [name for name in names if not self._same(name, now)]
        for member in range(self.count):
            for name in changed:
                lines = [t.columns[name].at(member) if name in t.columns else ABSENT
                         for t in (self, now)]  # fmt: skip
                if lines[0] != lines[1]:
                    yield member, name, lines[0], lines[1]

    def as_json(self) -> dict[str, Any]:
        """The table as JSON."""
        columns = {
            name: {"lines": column.lines, "of": column.short()}
            for name, column in self.columns.items()
        }
        return {"count": self.count, "columns": columns}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "FingerprintTable":
        """What `as_json` made."""
        table = cls()
        table.count = stored["count"]
        for name, column in stored["columns"].items():
            table.columns[name] = _Column(0)
            table.columns[name].lines = column["lines"]
            of = column["of"]
            table.columns[name].of = [of] * table.count if isinstance(of, int) else of
        return table

    def digest(self) -> str:
        """One word for all of it."""
        text = json.dumps(self.as_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _same(self, name: str, now: "FingerprintTable") -> bool:
        mine = self.columns.get(name)
        other = now.columns.get(name)
        if mine is None or other is None:
            return False
        return mine.lines == other.lines and mine.of == other.of


class _Column:
    """The line of every member under one name, as the number of a line."""

    def __init__(self, missing: int):
        self.lines: list[str] = []
        self.numbers: dict[str, int] = {}
        self.of: list[int] = []
        self.fill(missing)

    def add(self, line: str) -> None:
        number = self.numbers.setdefault(line, len(self.lines))
        if number == len(self.lines):
            self.lines.append(line)
        self.of.append(number)

    def fill(self, count: int) -> None:
        while len(self.of) < count:
            self.add(ABSENT)

    def at(self, member: int) -> str:
        return self.lines[self.of[member]]

    def short(self) -> int | list[int]:
        return 0 if len(self.lines) == 1 else self.of
