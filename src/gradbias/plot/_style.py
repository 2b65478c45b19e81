"""Two looks, as contexts: a column of a printed page, and a slide. Nothing global is touched."""

import contextlib
from collections.abc import Iterator
from typing import Any

# Colours that stay apart for colour-blind readers and, by their lightness, in grey print
# (Okabe and Ito). Theory is always BLACK, simulation coloured.
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREEN = "#009E73"
PURPLE = "#CC79A7"
YELLOW = "#E69F00"
SKY = "#56B4E9"
GREY = "#777777"
BLACK = "#000000"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, GREY)

# inches: one column of a journal, and both
COLUMN = 3.25
PAGE = 6.75
_COMMON: dict[str, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "savefig.dpi": 200,
    "svg.hashsalt": "gradbias",  # the same picture is the same file
    "svg.fonttype": "path",  # a page looks the same without our fonts
    "mathtext.fontset": "dejavusans",
    "axes.unicode_minus": True,
}
_PAPER: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
    "axes.linewidth": 0.7,
    "figure.figsize": (COLUMN, 0.72 * COLUMN),
}
_SLIDE: dict[str, Any] = {
    "font.size": 18,
    "axes.titlesize": 18,
    "legend.fontsize": 15,
    "lines.linewidth": 2.5,
    "lines.markersize": 9,
    "axes.linewidth": 1.4,
    "figure.figsize": (13.33, 7.5),
}
STYLES = {"paper": _PAPER, "slide": _SLIDE}


@contextlib.contextmanager
def style(name: str = "paper") -> Iterator[None]:
    """Draw in one of our styles: `with gb.plot.style("slide"): gb.plot.loss(run)`.

    Args:
        name: "paper" (a column of 3.25 in, 8 pt) or "slide" (16:9, 18 pt).
    """
    if name not in STYLES:
        raise ValueError(f"name must be one of {sorted(STYLES)}, got {name!r}")
    import matplotlib as mpl
    from cycler import cycler

    settings: Any = {**_COMMON, **STYLES[name], "axes.prop_cycle": cycler(color=COLOURS)}
    with mpl.rc_context(settings):
        yield


def size(name: str, wide: bool = False, height: float = 0.72) -> tuple[float, float]:
    """Width and height in inches of a picture in a style.

    Args:
        name: the style.
        wide: two columns instead of one.
        height: as a part of one column's width; a slide has its own.
    """
    if name == "slide":
        return STYLES["slide"]["figure.figsize"]
    return (PAGE if wide else COLUMN, height * COLUMN)
