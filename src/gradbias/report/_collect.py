"""What a report is made of: rows of a verification, figures, the machine."""

import dataclasses
import json
import os
import platform
from pathlib import Path
from typing import Any

from .. import __version__

FIRST = "which_minimum"


@dataclasses.dataclass(frozen=True)
class Content:
    """Everything that the page shows.

    Attributes:
        rows: of `gradbias verify`, grouped by theorem.
        figures: what is known of each, with its picture as text (`svg`).
        machine: what it was computed on.
        full: what is known of figures at the papers' sizes, without pictures.
    """

    rows: dict[str, list[dict[str, Any]]]
    figures: list[dict[str, Any]]
    machine: dict[str, str]
    full: list[dict[str, Any]]

    def count(self, *words: str) -> int:
        """How many rows have one of these verdicts."""
        return sum(row["verdict"] in words for rows in self.rows.values() for row in rows)

    def broken(self, kind: str) -> int:
        """How many controls of a kind ("control", "wrong formula") break."""
        rows = (row for rows in self.rows.values() for row in rows)
        return sum(r["verdict"] == "breaks" and r["what"].startswith(kind) for r in rows)

    @property
    def powers(self) -> list[float]:
        """For each theorem that has one the least power of its instances' equalities."""
        return [
            max(powers)
            for rows in self.rows.values()
            if (powers := [r["power"] for r in rows if r.get("power") and r.get("equality")])
        ]

    @property
    def seen(self) -> tuple[int, int]:
        """How much of what must be seen is seen, and how much there is."""
        found = [s["holds"] for figure in self.figures for s in figure["seen"]]
        return sum(found), len(found)


def collect(folder: Path) -> Content:
    """Read `verify.json`, `figures/` and `figures-full/` of a folder.

    Args:
        folder: what `gradbias verify --json` and `gradbias figures` wrote to.
    """
    pictures = folder / "figures"
    figures = [
        {**about, "svg": picture.read_text(encoding="utf-8")}
        for about in _figures(pictures)
        if (picture := pictures / f"{about['id']}.svg").exists()
    ]
    full = _figures(folder / "figures-full")
    return Content(_rows(folder / "verify.json"), figures, machine(), full)


def _rows(file: Path) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    if file.exists():
        for row in json.loads(file.read_text(encoding="utf-8"))["rows"]:
            grouped.setdefault(row["theorem"], []).append(row)
    return grouped


def _figures(folder: Path) -> list[dict[str, Any]]:
    """What is known of the figures in a folder, in the papers' order, which_minimum first."""
    from ..figures import known

    order = {name: number for number, name in enumerate([FIRST, *known()])}
    found = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")]
    return sorted(found, key=lambda about: order.get(about["id"], len(order)))


def machine() -> dict[str, str]:
    """Processor, system and versions, in words."""
    from .._engine.run import versions

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": f"{platform.machine()}, {cores} cores",
        "system": f"{platform.system()}, Python {platform.python_version()}",
        "gradbias": __version__,
        **{name: version for name, version in versions().items() if name != "gradbias"},
    }
