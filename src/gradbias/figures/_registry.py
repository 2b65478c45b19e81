"""All figures, paper by paper."""

import fnmatch
import functools
import importlib

from ..numerics.names import suggestion
from ._figure import Figure

# One package a paper, in the order in which they are shown; each has FIGURES.
FIVE = ("rank1", "spectral", "zeroloss", "imbalance", "equilibrium")
PAPERS: tuple[str, ...] = ("overview", *FIVE, "optimiser", "margin")


@functools.cache
def known() -> dict[str, Figure]:
    """Every figure by its id."""
    found: dict[str, Figure] = {}
    for paper in PAPERS:
        for figure in importlib.import_module(f".{paper}", __package__).FIGURES:
            if figure.id in found:
                raise ValueError(f"two figures have the id {figure.id!r}")
            found[figure.id] = figure
    return found


def one(name: str) -> Figure:
    """The figure with this id."""
    if name not in known():
        near = suggestion(name, known()) or f"; there are {', '.join(known())}"
        raise ValueError(f"there is no figure {name!r}{near}")
    return known()[name]


def find(only: str = "*") -> list[Figure]:
    """The figures whose id matches a pattern such as "rank1.*".

    Args:
        only: a shell pattern or an id.
    """
    matching = [f for name, f in known().items() if fnmatch.fnmatchcase(name, only)]
    if not matching:
        near = suggestion(only, known()) or f"; there are {', '.join(known())}"
        raise ValueError(f"no figure matches {only!r}{near}")
    return matching
