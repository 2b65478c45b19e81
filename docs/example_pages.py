"""A page for each script of examples/, from its cells; who builds the pages runs the quick ones."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

# They take seconds, write no file and open no window: their pages show what they print.
QUICK = ("which_depth", "digits_separator", "predict_and_check", "label_noise_sparse")
CELL = re.compile(r"^# %%(.*)\n", re.M)


class Cell(NamedTuple):
    """A piece of a script, without its marks."""

    code: bool
    text: str


def pages(folder: Path) -> dict[str, str]:
    """Name of a page → its Markdown: the list of all, and one for each script.

    Args:
        folder: where the scripts are.
    """
    scripts = sorted(folder.glob("*.py"))
    made = {f"example-{script.stem}": page(script) for script in scripts}
    listed = "\n".join(made)
    made["examples"] = (
        "# Examples\n\nScripts to copy and change; each runs offline, in seconds to minutes, by "
        "`python examples/NAME.py`.\n\n"
        f"```{{toctree}}\n:maxdepth: 1\n{listed}\n```\n"
    )
    return made


def page(script: Path) -> str:
    """Its words as text and its code as blocks; above them where to get it.

    Args:
        script: a file of Python.
    """
    title, *rest = cells(script.read_text(encoding="utf-8"))
    head, _, words = title.text.partition("\n")
    link = f"{{download}}`examples/{script.name} <../../examples/{script.name}>`"
    parts = [head, link, words.strip(), *(_shown(cell) for cell in rest)]
    return "\n\n".join(part for part in parts if part) + "\n"


def cells(source: str) -> list[Cell]:
    """Those of a script in the percent format; of another one its docstring and the rest.

    Args:
        source: the text of the script.
    """
    if not CELL.match(source):
        words, code = _docstring(source)
        return [Cell(False, words), Cell(True, code)]
    _, *pieces = CELL.split(source)
    found = []
    for mark, text in zip(pieces[::2], pieces[1::2], strict=True):
        if "[markdown]" in mark:
            found.append(Cell(False, re.sub(r"^# ?", "", text, flags=re.M).strip()))
        elif text.strip():
            found.append(Cell(True, text.strip("\n")))
    return found


def _docstring(source: str) -> tuple[str, str]:
    """Its first line as a heading, and the code below it."""
    tree = ast.parse(source)
    words = ast.get_docstring(tree)
    if words is None:
        raise ValueError(f"an example must begin with a cell or a docstring, got {source[:80]!r}")
    head, _, text = words.partition("\n")
    code = source.splitlines()[tree.body[0].end_lineno :]
    return f"# {head.rstrip('.')}\n{text}", "\n".join(code).strip("\n")


def _shown(cell: Cell) -> str:
    return f"```python\n{cell.text}\n```" if cell.code else cell.text
