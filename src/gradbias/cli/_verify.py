"""`gradbias verify`: theorems against simulation, a row as soon as it is known."""

import dataclasses
import importlib.util
import itertools
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ..numerics.log import say
from ..numerics.progress import CountProgress
from ._pool import cores, each

if TYPE_CHECKING:
    from .._verdicts.verify import Row, Verification
    from ..theorems import Theorem

WIDTHS = (27, 10, 9, 9)
Task: TypeAlias = tuple[str, str, int, int]  # id, pattern or file, instances, key


def run(
    only: str, instances: int, key: int, jobs: int, file: Path | None, slow: bool = False
) -> int:
    """Verify, print, write; returns the exit code."""
    with CountProgress("verify", at_once=True) as count:
        count.step(0, "reading theorems")
        from .._verdicts.verify import Row, Verification, quick
        from ..theorems import find

        theorems = theorems_of(only)
    names = [t.id for t in (theorems if slow else quick(theorems, only))]
    left_out = len(theorems) - len(names)
    jobs = min(jobs or cores(), len(names))
    print(f"{len(names)} theorems, {instances} instances each, key {key}", flush=True)
    print(f"instance 2 again: gradbias verify ID --key {key + 2} --instances 1", flush=True)
    found: list[Row] = []
    for row in _rows([(name, only, instances, key) for name in names], jobs):
        found.append(row)
        show(row)
    done = Verification(sorted(found, key=lambda row: names.index(row.theorem)))
    print("\n".join(["", *done.notes()]))
    if left_out:
        print(f"{left_out} slow ones were left out: --all takes them, too")
    if file is not None:
        write(file, done, [t.id for t in find(theorems)])
    return done.exit_code


def theorems_of(only: str) -> "list[Theorem]":
    """Theorems by a pattern of ids, or the ones that a Python file makes."""
    from ..theorems import Theorem, find, known, register

    if not only.endswith(".py"):
        return find(only)
    path = Path(only)
    if not path.is_file():
        raise ValueError(f"there is no file {only!r}")
    before = set(known())
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for value in vars(module).values():
        if isinstance(value, Theorem) and value.id not in known():
            register(value)
    fresh = [theorem for name, theorem in known().items() if name not in before]
    if not fresh:
        raise ValueError(f"{only!r} makes no theorem: a gb.Theorem at its top level would do")
    return fresh


def _rows(tasks: list[Task], jobs: int) -> "Iterator[Row]":
    """Rows as soon as they are known; a process of a pool gives back those of one theorem."""
    parts = each(_of_one, tasks, jobs) if jobs > 1 else (_one_by_one(*task) for task in tasks)
    return itertools.chain.from_iterable(parts)


def _of_one(name: str, only: str, instances: int, key: int) -> "list[Row]":
    return list(_one_by_one(name, only, instances, key))


def _one_by_one(name: str, only: str, instances: int, key: int) -> "Iterator[Row]":
    """The rows of one theorem, which a process of the pool may not know yet."""
    from .._verdicts.verify import rows_of

    return rows_of(theorem_of(name, only), instances, key)


def theorem_of(name: str, only: str) -> "Theorem":
    """A theorem by its id, also in a process that has not read the file that makes it."""
    from ..theorems import known

    if only.endswith(".py") and name not in known():
        theorems_of(only)
    return known()[name]


def show(row: "Row") -> None:
    from .._verdicts.verify import cells

    *numbers, word = cells(row)
    what = numbers.pop(1)
    head = "  ".join(t.ljust(w) for t, w in zip(numbers, WIDTHS, strict=True))
    print(f"{head}  {what}: {word}", flush=True)
    if row.traceback:
        print(row.traceback, file=sys.stderr, flush=True)


def write(file: Path, done: "Verification", names: list[str]) -> None:
    """JSON knows no NaN and no infinity: what was not measured, or has no power, is null."""
    rows = [
        {
            **{k: _plain(v) for k, v in dataclasses.asdict(row).items()},
            "command": row.command,
        }
        for row in done
    ]
    content = {"theorems": names, "exit_code": done.exit_code, "rows": rows}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
    say(f"wrote {file}")


def _plain(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value
