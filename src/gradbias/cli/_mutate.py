"""`gradbias verify --mutate`: predictions made wrong on purpose, and who notices."""

import json
import sys
from pathlib import Path

from .._verdicts.mutate import Mutations, Power, Variant, mutations_of, rows_and_mutations_of
from .._verdicts.verify import Row, Verification, quick
from ._pool import cores, each
from ._verify import show, theorem_of, theorems_of, write

WIDTHS = (27, 10)


def run(
    only: str,
    instances: int,
    key: int,
    jobs: int,
    slow: bool,
    powers: Path | None,
    rows: Path | None,
) -> int:
    """Try, print, write; returns 1 if an error of 3 % passes without a reason.

    Args:
        only: a pattern of ids, or a file.
        instances: how many of each theorem.
        key: of the first of them.
        jobs: processes; 0 for one a core.
        slow: take slow theorems, too.
        powers: a file for what was tried.
        rows: a file for the rows of a plain verification, which is then done on the same runs.
    """
    theorems = theorems_of(only)
    names = [t.id for t in (theorems if slow else quick(theorems, only))]
    tasks = [(name, only, instances, key, rows is not None) for name in names]
    jobs = min(jobs or cores(), len(names))
    print(f"{len(names)} theorems, {instances} instances each, key {key}", flush=True)
    tried: list[Row | Power | Variant] = []
    for part in each(_of_one, tasks, jobs):
        tried += part
        for one in part:
            _show(one)
    tried.sort(key=lambda one: names.index(one.theorem))
    done = Mutations([one for one in tried if not isinstance(one, Row)])
    print("\n".join(["", *done.notes()]))
    if powers is not None:
        powers.parent.mkdir(parents=True, exist_ok=True)
        powers.write_text(json.dumps(done.to_json(), indent=1), encoding="utf-8")
        print(f"wrote {powers}", file=sys.stderr)
    if rows is None:
        return done.exit_code
    verified = Verification([one for one in tried if isinstance(one, Row)])
    print("\n".join(verified.notes()))
    write(rows, verified, names)
    return done.exit_code or verified.exit_code


def _of_one(
    name: str, only: str, instances: int, key: int, verified: bool
) -> list[Row | Power | Variant]:
    """What was tried with one theorem, which a process of the pool may not know yet."""
    theorem = theorem_of(name, only)
    if verified:
        return list(rows_and_mutations_of(theorem, instances, key))
    return list(mutations_of(theorem, instances, key))


def _show(one: Row | Power | Variant) -> None:
    if isinstance(one, Row):
        show(one)
        return
    if isinstance(one, Variant):
        word = "noticed" if one.noticed else f"NOT NOTICED {one.reason}".rstrip()
        print(f"{one.theorem.ljust(WIDTHS[0])}  {one.what}, key {one.key}: {word}", flush=True)
        return
    size = f"{one.power:.1e}".ljust(WIDTHS[1])
    word = "LETS 3 % PASS" if one.blunt else one.kind
    line = f"{one.theorem.ljust(WIDTHS[0])}  {size}  {one.quantity}, key {one.key}: {word}"
    print(f"{line} {one.reason}".rstrip(), flush=True)
