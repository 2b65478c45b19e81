"""How to cite gradbias itself: read from CITATION.cff, which forges and archives read too."""

import re
from pathlib import Path

FILE = "CITATION.cff"
YEAR = 2026
NAME = f"gradbias, {YEAR}"  # how results of our own are cited


def own_entry() -> str:
    """The BibTeX entry of the library, with the version that runs."""
    from .. import __version__

    text = _file().read_text(encoding="utf-8")
    authors = re.findall(r'^ +- name: "?([^"\n]+)', text, re.M)
    fields = {
        "author": " and ".join(f"{{{author}}}" for author in authors),
        "title": f"{{{_field(text, 'title')}}}",
        "year": str(YEAR),
        "version": __version__,
        "license": _field(text, "license"),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join(["@software{gradbias,", *lines, "}"])


def _file() -> Path:
    """In a wheel it lies in the package, in a clone at the top."""
    package = Path(__file__).parents[1]
    inside = package / FILE
    return inside if inside.exists() else package.parents[1] / FILE


def _field(text: str, name: str) -> str:
    match = re.search(rf'^{name}: "?([^"\n]+)', text, re.M)
    if match is None:
        raise ValueError(f"{FILE} has no line `{name}: …`")
    return match[1]
