"""`python -m benchmarks [--only W1] [--quick] [--out out]`."""

import argparse
import json
import pathlib
import platform
from typing import Any

from .protocol import Check, check, compare, on_one_core

LINE = "{:<18}{:>8}{:>8}{:>10}{:>11}  {}"
HEADS = ("workload", "ratio", "target", "ours, s", "difference", "the best of the others; all")


def main() -> None:
    """Run all workloads, print a table, write out/bench.json."""
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--only", default="", help="workloads whose name starts with this")
    parser.add_argument("--quick", action="store_true", help="small jobs: a look, not a result")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    asked = parser.parse_args()
    on_one_core()
    from .registry import MODULES  # jax and torch start here, on one core

    print(LINE.format(*HEADS), flush=True)
    path = asked.out / ("bench-quick.json" if asked.quick else "bench.json")
    results: dict[str, Any] = {}
    for module in MODULES:
        for item in module.workloads(asked.quick):
            if item.name.startswith(asked.only):
                results[item.name] = run(item)
                print(row(item.name, results[item.name]), flush=True)
                write(path, results, asked.only)  # after each: a run that is stopped keeps its rows
    missed = [name for name, result in results.items() if result["ratio"] < result["target"]]
    print("all targets met" if not missed else f"missed: {', '.join(missed)}")


def run(item: Any) -> dict[str, Any]:
    """Measure a workload or a check."""
    return check(item) if isinstance(item, Check) else compare(item)


def row(name: str, result: dict[str, Any]) -> str:
    """A line of the table."""
    if "limit" in result:
        shown = f"{result['value']:.3g} {result['unit']}, at most {result['limit']:g}"
        return f"{name:<18}{result['ratio']:>9.2f}×{1:>8}×  {shown}"
    best = " and ".join(dict.fromkeys(result["best"].values()))
    others = ", ".join(f"{arm} {_times(ratio)}" for arm, ratio in result["ratios"].items())
    return LINE.format(
        name,
        _times(result["ratio"]),
        f"{result['target']:g}×",
        f"{result['gradbias_seconds']:.2f}",
        f"{result['max_difference']:.0e}",
        f"{best}; {others}",
    )


def _times(ratio: float) -> str:
    return f"{ratio:.0f}×" if ratio >= 100 else f"{ratio:.1f}×"


def write(path: pathlib.Path, results: dict[str, Any], only: str = "") -> None:
    """The results as JSON; those of some workloads are added to what is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if only and path.exists() else {}
    stamp = {
        "machine": platform.processor() or platform.machine(),
        "python": platform.python_version(),
    }
    known |= {name: {**result, **stamp} for name, result in results.items()}
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(known, indent=1))
    unfinished.replace(path)  # whole, or as it was


if __name__ == "__main__":
    main()
