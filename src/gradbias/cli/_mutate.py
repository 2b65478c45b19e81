"""`gradbias verify --mutate`: predictions made wrong on purpose, and who notices."""

import json
import sys
from pathlib import Path

from .._verdicts.mutate import Mutations, Power, Variant, mutations_of
from .._verdicts.verify import quick
from ..theorems import known
from ._pool import cores, each
from ._verify import theorems_of

WIDTHS = (27, 10)


def run(only: str, instances: int, key: int, jobs: int, file: Path | None, slow: bool) -> int:
    """Try, print, write; returns 1 if an error of 3 % passes without a reason."""
    theorems = theorems_of(only)
    names = [t.id for t in (theorems if slow else quick(theorems, only))]
    tasks = [(name, only, instances, key) for name in names]
    jobs = min(jobs or cores(), len(names))
    print(f"{len(names)} theorems, {instances} instances each, key {key}", flush=True)
    tried: list[Power | Variant] = []
    for part in each(_of_one, tasks, jobs):
        tried += part
        for one in part:
            _show(one)
    done = Mutations(sorted(tried, key=lambda one: names.index(one.theorem)))
    print("\n".join(["", *done.notes()]))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(done.to_json(), indent=1), encoding="utf-8")
        print(f"wrote {file}", file=sys.stderr)
    return done.exit_code


def _of_one(name: str, only: str, instances: int, key: int) -> list[Power | Variant]:
    """What was tried with one theorem, which a process of the pool may not know yet."""
    if only.endswith(".py") and name not in known():
        theorems_of(only)
    return list(mutations_of(known()[name], instances, key))


def _show(one: Power | Variant) -> None:
    if isinstance(one, Variant):
        word = "noticed" if one.noticed else f"NOT NOTICED {one.reason}".rstrip()
        print(f"{one.theorem.ljust(WIDTHS[0])}  {one.what}, key {one.key}: {word}", flush=True)
        return
    size = f"{one.power:.1e}".ljust(WIDTHS[1])
    word = "LETS 3 % PASS" if one.blunt else one.kind
    line = f"{one.theorem.ljust(WIDTHS[0])}  {size}  {one.quantity}, key {one.key}: {word}"
    print(f"{line} {one.reason}".rstrip(), flush=True)
