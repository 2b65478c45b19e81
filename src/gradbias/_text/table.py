"""Tables that people read: plain text of 80 columns, rich, HTML, pandas."""

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas
    import rich.table

WIDTH = 80


class Table:
    """Rows under named columns; subclasses say which."""

    columns: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, ...]]:
        """The cells, as text."""
        raise NotImplementedError

    def notes(self) -> list[str]:
        """Lines below the table."""
        return []

    def __str__(self) -> str:
        notes = [line for note in self.notes() for line in wrapped(note, WIDTH)]
        return "\n".join([*lines_of(self.columns, self.rows()), *notes])

    def __repr__(self) -> str:
        return str(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """The table as a pandas.DataFrame of text."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=list(self.columns))

    def __rich__(self) -> "rich.table.Table":
        import rich.table

        table = rich.table.Table(*self.columns, box=None, header_style="bold")
        for row in self.rows():
            table.add_row(*row)
        table.caption = "\n".join(self.notes()) or None
        table.caption_justify = "left"
        return table

    def _repr_html_(self) -> str:
        def line(cells: tuple[str, ...], tag: str) -> str:
            inside = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
            return f"<tr>{inside}</tr>"

        body = "".join(line(row, "td") for row in self.rows())
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes())
        return (
            f"<table><thead>{line(self.columns, 'th')}</thead><tbody>{body}</tbody></table>{notes}"
        )


def lines_of(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """The table in at most 80 columns; the last column wraps below itself."""
    if not rows:
        return []
    texts = [columns, *rows]
    widths = [max(len(row[i]) for row in texts) for i in range(len(columns))]
    left = sum(widths[:-1]) + 2 * (len(widths) - 1)
    last = max(12, WIDTH - left)
    lines: list[str] = []
    for row in texts:
        head = "  ".join(
            cell.ljust(width) for cell, width in zip(row[:-1], widths[:-1], strict=True)
        )
        parts = wrapped(row[-1], last) or [""]
        lines += [f"{head}  {parts[0]}".rstrip(), *(" " * left + part for part in parts[1:])]
    return lines


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most this width, the later ones two characters further in."""
    import textwrap

    return textwrap.wrap(
        text,
        width,
        break_long_words=False,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
    )


def number(value: float) -> str:
    """A number in a few characters: 1.2e-09, 0.31, 12.4."""
    if value == 0:
        return "0"
    return f"{value:.1e}" if not 1e-2 <= abs(value) < 1e4 else f"{value:.4g}"


def brief(value: "npt.ArrayLike") -> str:
    """A number as it is, an array by its shape and norm."""
    import numpy as np

    array = np.asarray(value)
    if array.ndim == 0:
        return number(float(array))
    shape = "×".join(map(str, array.shape)) if array.ndim > 1 else f"{array.size} values"
    return f"{shape}, norm {number(float(np.linalg.norm(array)))}"
