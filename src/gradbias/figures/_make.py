"""From a figure to a picture with its verdicts."""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import xarray as xr

from .. import __version__
from .._text.table import lines_of
from ..plot import size, style
from ._figure import Canvas, Check, Figure, Settings
from ._files import write
from ._lab import computed
from ._registry import one

Scalar: TypeAlias = int | float | str | bool


@dataclasses.dataclass(frozen=True, eq=False)
class Made:
    """A figure that was computed.

    Attributes:
        figure: what it is.
        settings: the numbers that were used.
        data: what is drawn.
        seen: what had to be seen, and whether it was.
        seconds: how long the computation took, now or when it was made.
        command: the line that makes it again.
        look: "paper" or "slide".
    """

    figure: Figure
    settings: Settings
    data: xr.Dataset
    seen: list[Check]
    seconds: float
    command: str
    look: str

    @property
    def holds(self) -> bool:
        """Whether everything that must be seen is seen."""
        return all(seen.holds for seen in self.seen)

    def picture(self) -> Canvas:
        """The matplotlib Figure."""
        import matplotlib.figure

        with style(self.look):
            across = size(self.look, self.figure.wide, self.figure.height)
            canvas = matplotlib.figure.Figure(figsize=across, layout="constrained")
            self.figure.draw(canvas, self.data, self.settings)
            canvas.draw_without_rendering()  # layout and text are fixed while the style holds
        return canvas

    def save(self, folder: str | os.PathLike[str], form: str = "svg") -> Path:
        """Write the picture, or its numbers, with what made it; returns the file.

        Args:
            folder: made if it does not exist.
            form: svg, pdf, png, csv or gif.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = write(self, folder / f"{self.figure.id}.{form}", form)
        about = folder / f"{self.figure.id}.json"
        about.write_text(json.dumps(self.about(path.name), indent=1), encoding="utf-8")
        return path

    def about(self, file: str) -> dict[str, Any]:
        """What a report needs to know of it."""
        return {
            "id": self.figure.id,
            "title": self.figure.title,
            "caption": self.figure.caption,
            "file": file,
            "command": self.command,
            "version": __version__,
            "settings": {name: _plain(value) for name, value in self.settings.items()},
            "seconds": round(self.seconds, 2),
            "seen": [
                {"what": s.what, "value": float(s.value), "needs": s.needs, "holds": bool(s.holds)}
                for s in self.seen
            ],
        }

    def __str__(self) -> str:
        columns = ("checked", "measured", "needs", "")
        rows = [(s.what, f"{s.value:.4g}", s.needs, verdict(s)) for s in self.seen]
        title = f"{self.figure.id}: {self.figure.title} ({self.seconds:.1f} s)"
        return "\n".join([title, *lines_of(columns, rows)])

    __repr__ = __str__


def verdict(seen: Check) -> str:
    """In a word."""
    return "seen" if seen.holds else "NOT SEEN"


def make(
    figure: str | Figure,
    *,
    full: bool = False,
    key: int = 0,
    settings: Mapping[str, Any] | None = None,
    store: str | os.PathLike[str] | None = None,
    look: str = "paper",
    progress: bool | None = False,
) -> Made:
    """Compute a figure and judge what it shows.

    Args:
        figure: its id, such as "rank1.5a", or a Figure.
        full: at the paper's size.
        key: an integer that decides every draw.
        settings: own values of some of its settings.
        store: a folder in which results are kept; a second call takes them from there.
        look: "paper" or "slide".
        progress: show a line while it runs; None where a person may be looking.

    Returns:
        What was made; `.picture()` is a matplotlib Figure, `.save("out")` writes it.
    """
    figure = one(figure) if isinstance(figure, str) else figure
    chosen = figure.settings(full, key, settings)
    data = computed(figure, chosen, None if store is None else Path(store), progress)
    checks = figure.seen(data, chosen)
    seconds = float(data.attrs["seconds"])
    command = _command(figure, full, key, settings)
    return Made(figure, chosen, data, checks, seconds, command, look)


def _command(figure: Figure, full: bool, key: int, changes: Mapping[str, Any] | None) -> str:
    words = ["gradbias figures", figure.id]
    words += ["--full"] if full else []
    words += [f"--key {key}"] if key else []
    words += [f"--set {name}={value}" for name, value in (changes or {}).items()]
    return " ".join(words)


def _plain(value: Scalar | Iterable[Scalar]) -> Scalar | list[Scalar]:
    return value if isinstance(value, (int, float, str, bool)) else list(value)
