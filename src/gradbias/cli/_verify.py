"""`gradbias verify`: theorems against simulation, a row as soon as it is known."""

import concurrent.futures
import dataclasses
import importlib.util
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WIDTHS = (27, 10, 9)


def run(what: str, instances: int, key: int, jobs: int, file: Path | None) -> int:
    """Verify, print, write; returns the exit code."""
    from .._verify import Row, Verification, quick
    from ..theorems import find

    theorems = _theorems(what)
    names = [t.id for t in quick(theorems, what)]
    left_out = len(theorems) - len(names)
    jobs = min(jobs or cores(), len(names))
    print(f"{len(names)} theorems, {instances} instances each, key {key}", flush=True)
    print(f"instance i again: gradbias verify ID --key {key}+i --instances 1", flush=True)
    found: list[Row] = []
    for row in _rows(names, what, instances, key, jobs):
        found.append(row)
        _show(row)
    done = Verification(sorted(found, key=lambda row: names.index(row.theorem)))
    print("\n".join(["", *done.notes()]))
    if left_out:
        print(f"{left_out} slow ones were left out; name one by its id to run it")
    if file is not None:
        _write(file, done, [t.id for t in find(theorems)])
    return done.exit_code


def cores() -> int:
    """The cores that this process may use; more than four jobs only wait for each other."""
    return min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)


def _theorems(what: str) -> list[Any]:
    """Theorems by a pattern of ids, or the ones that a Python file makes."""
    from ..theorems import Theorem, find, known, register

    if not what.endswith(".py"):
        return find(what)
    path = Path(what)
    if not path.is_file():
        raise ValueError(f"there is no file {what!r}")
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
        raise ValueError(f"{what!r} makes no theorem: a gb.Theorem at its top level would do")
    return fresh


def _rows(names: list[str], what: str, instances: int, key: int, jobs: int) -> Iterator[Any]:
    if jobs == 1:
        from .._verify import rows_of
        from ..theorems import known

        for name in names:
            yield from rows_of(known()[name], instances, key)
        return
    # Not fork: a forked child hangs once jax has run in its parent.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, context, _quiet_start) as pool:
        work = [pool.submit(_of_one, name, what, instances, key) for name in names]
        try:
            for done in concurrent.futures.as_completed(work):
                yield from done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _quiet_start() -> None:
    # One BLAS thread a process: two beside XLA's wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _of_one(name: str, what: str, instances: int, key: int) -> list[Any]:
    """The rows of one theorem, in a process of the pool."""
    from .._verify import rows_of
    from ..theorems import known

    if what.endswith(".py") and name not in known():
        _theorems(what)
    return list(rows_of(known()[name], instances, key))


def _show(row: Any) -> None:
    from .._verify import cells

    name, what, error, allowed, word = cells(row)
    head = "  ".join(t.ljust(w) for t, w in zip((name, error, allowed), WIDTHS, strict=True))
    print(f"{head}  {what}: {word}", flush=True)


def _write(file: Path, done: Any, names: list[str]) -> None:
    """JSON knows no NaN: what was not measured is null."""
    rows = [
        {
            **{k: None if v != v else v for k, v in dataclasses.asdict(row).items()},
            "command": row.command,
        }
        for row in done
    ]
    content = {"theorems": names, "exit_code": done.exit_code, "rows": rows}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")
    print(f"wrote {file}", file=sys.stderr)
