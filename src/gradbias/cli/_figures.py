"""`gradbias figures`: compute, draw, judge; one figure a line as soon as it is made."""

import ast
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..numerics.progress import CountProgress
from ._pool import cores, each

STORE = ".computed"  # inside the folder of the pictures


def run(
    only: str,
    every: bool,
    full: bool,
    show: bool,
    changes: Sequence[str],
    look: str,
    forms: Sequence[str],
    out: Path,
    key: int,
    jobs: int,
) -> int:
    """Make figures; returns 1 if something that must be seen is not."""
    with CountProgress("figures", at_once=True) as count:
        count.step(0, "reading what there is")
        names = _names(only, every)
        if show:
            count.beside(lambda: _list(names))
            return 0
        settings = dict(_setting(word) for word in changes)
        if settings and len(names) > 1:
            raise ValueError(f"--set is for one figure, but {only!r} matches {len(names)}")
        out.mkdir(parents=True, exist_ok=True)
        work = [(name, full, key, settings, look, tuple(forms), out) for name in names]
        size = "paper size" if full else "quick size"
        head = f"{len(names)} figures, {size}, key {key}, into {out}"
        count.beside(lambda: print(head, flush=True))
        missing = _make(work, min(jobs or cores(), len(work)), count)
    print(f"\n{missing} checks of figures fail" if missing else "\nall checks hold")
    return 1 if missing else 0


def _make(work: Sequence[tuple[Any, ...]], jobs: int, count: CountProgress) -> int:
    """Make figures, print each as soon as it is there; how many checks fail."""
    count.total = len(work)
    left = [name for name, *_ in work]
    missing = 0
    count.step(0, ", ".join(left[:jobs]))
    for name, text, bad in each(one, work, jobs):
        missing += bad
        left.remove(name)
        count.beside(functools.partial(print, text, flush=True))
        count.step(len(work) - len(left), ", ".join(left[:jobs]))
    return missing


def _names(only: str, every: bool) -> list[str]:
    from ..figures import find

    chosen = find(only)
    if only == "*" and not every:
        chosen = [figure for figure in chosen if figure.default]
    return [figure.id for figure in chosen]


def _list(names: list[str]) -> None:
    from ..figures import known

    for name in names:
        figure = known()[name]
        mark = "*" if figure.default else " "
        print(f"{mark} {name:<24} {figure.title}")
    print("\n* is in the default set; --all makes every one")


def _setting(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    if not equals or not name:
        raise ValueError(f"--set takes name=value, got {word!r}")
    try:
        return name, ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return name, text


def one(
    name: str,
    full: bool,
    key: int,
    settings: dict[str, Any],
    look: str,
    forms: tuple[str, ...],
    out: Path,
) -> tuple[str, str, int]:
    """Make one figure and write it; its id, its text, and how much is not seen."""
    from ..figures import make

    made = make(name, full=full, key=key, settings=settings, store=out / STORE, look=look)
    for form in forms:
        made.save(out, form)
    return name, str(made), sum(not seen.holds for seen in made.seen)
