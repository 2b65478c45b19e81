"""Pictures and numbers on disk; every file says which command, version and key made it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..plot import size, style

if TYPE_CHECKING:
    from ._make import Made

FORMATS = ("svg", "pdf", "png", "csv", "gif")
FRAMES_PER_SECOND = 12


def write(made: "Made", path: Path, form: str) -> Path:
    """Write one file; returns its path."""
    if form not in FORMATS:
        raise ValueError(f"form must be one of {FORMATS}, got {form!r}")
    if form == "csv":
        return _table(made, path)
    if form == "gif":
        return _animation(made, path)
    with style(made.look):  # resolution and the names inside an svg are part of the style
        made.picture().savefig(path, format=form, metadata=_metadata(made, form))
    return path


def _words(made: "Made") -> str:
    return f"{made.command}; gradbias {__version__}; key {made.settings.key}"


def _metadata(made: "Made", form: str) -> dict[str, Any]:
    title = f"{made.figure.id}: {made.figure.title}"
    words = _words(made)
    if form == "svg":
        return {"Title": title, "Description": words, "Creator": "gradbias", "Date": None}
    if form == "pdf":
        return {"Title": title, "Subject": words, "Creator": "gradbias", "CreationDate": None}
    return {"Title": title, "Description": words, "Software": f"gradbias {__version__}"}


def _table(made: "Made", path: Path) -> Path:
    """Long form, a number a line: variable, its coordinates, value."""
    import csv

    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {_words(made)}\n")
        out = csv.writer(file)
        out.writerow(["variable", "where", "value"])
        for name, array in made.data.data_vars.items():
            for where, value in array.to_series().items() if array.ndim else [((), array.item())]:
                places = where if isinstance(where, tuple) else (where,)
                named = zip(array.dims, places, strict=True)
                out.writerow([name, " ".join(f"{dim}={place}" for dim, place in named), value])
    return path


def _animation(made: "Made", path: Path) -> Path:
    from matplotlib.animation import PillowWriter
    from matplotlib.figure import Figure as Canvas

    if made.figure.frames is None:
        raise ValueError(f"{made.figure.id} does not move: gif is for figures with frames")
    with style(made.look):
        canvas = Canvas(figsize=size(made.look, made.figure.wide, made.figure.height))
        film = made.figure.frames(canvas, made.data, made.settings)
        writer = PillowWriter(fps=FRAMES_PER_SECOND, metadata={"comment": _words(made)})
        film.save(path, writer=writer, dpi=110)
    return path
