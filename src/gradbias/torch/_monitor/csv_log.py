"""Scalars to a CSV file, a row per measurement."""

import csv
import os
from collections.abc import Mapping
from pathlib import Path


class CsvLog:
    """`log(values, step)`: appends a row; readable while training goes on.

    A column that was not there in the first row is not added later, since a file that is being
    read cannot change its header.

    Args:
        path: the file; one that exists is replaced at the first row.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self._columns: list[str] = []

    def __call__(self, values: Mapping[str, float], step: int) -> None:
        """Append one row."""
        if not self._columns:
            self._columns = ["step", *values]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text("")
            self._write(self._columns)
        row = {"step": step, **values}
        self._write([row.get(column, "") for column in self._columns])

    def _write(self, row: list) -> None:
        with self.path.open("a", newline="") as file:
            csv.writer(file).writerow(row)
