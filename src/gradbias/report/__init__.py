"""One self-contained page with all verdicts, figures and errata."""

import os
from pathlib import Path

from ._collect import Content, collect
from ._errata import Correction, corrections
from ._errata import write as _write_errata
from ._page import errata_table, page

__all__ = [
    "Content",
    "Correction",
    "collect",
    "corrections",
    "errata_table",
    "page",
    "write",
]


def write(folder: str | os.PathLike[str], out: str | os.PathLike[str]) -> Path:
    """Write the report of what a folder holds, and `errata.json` beside it.

    Args:
        folder: what `gradbias verify --json FOLDER/verify.json` and `gradbias figures --out
            FOLDER/figures` wrote to.
        out: the HTML file.
    """
    path = Path(out)
    found = corrections()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(collect(Path(folder)), found), encoding="utf-8")
    _write_errata(path.parent / "errata.json", found)
    return path
