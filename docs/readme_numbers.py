"""Bring the pictures and numbers of README and docs/performance.md up to date: `make readme`.

Numbers come from out/verify.json and out/power.json, which `make verify-all` writes, and from
out/bench.json of `make bench`.
A text between `<!-- NAME -->` and `<!-- end -->` is replaced.
"""

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
README, OUT = ROOT / "README.md", ROOT / "out"
PERFORMANCE = ROOT / "docs" / "performance.md"
PICTURES = ("which_minimum", "spectral.1a", "zeroloss.recovery", "margin.five")
# What a workload of the benchmarks is, for a reader.
WORKLOADS = {
    "W1": "100 rank-1 nets × 20 000 steps of GD and SGD, recorded",
    "W2 gaussian": "deep net, 4 layers of 100, Gaussian start",
    "W2 orthogonal": "the same, orthogonal layers",
    "W2 balanced": "the same, balanced",
    "W3": "25 two-layer nets, width 500 to 10 000, to convergence",
    "W4": "autoencoder 100-2000-100, fresh samples at every step",
    "W5 simulate": "label-noise SGD on 100 diagonal nets",
    "W5 limit": "the same by its limiting flow",
    "Flow balanced": "gradient flow of 100 balanced two-layer nets, to 1e-12",
    "Flow gaussian": "the same, Gaussian starts",
    "Diffusion": "the SDE of label noise, 1000 diagonal nets × 10 000 steps",
    "W1 fresh process": "the first job from a fresh Python",
    "W6 projector": "tangent projector, D = 2000, against dense algebra",
    "W6 drift": "drift along the manifold, D = 2000, against dense algebra",
}
SHORT = ("W1", "W2 gaussian", "W2 balanced", "W3", "W4", "W5 simulate", "Flow balanced")


def verdicts() -> str:
    """The count of the last verification, in a sentence."""
    rows = json.loads((OUT / "verify.json").read_text(encoding="utf-8"))["rows"]
    words = [row["verdict"] for row in rows]
    theorems = len({row["theorem"] for row in rows})
    bad = sum(word in ("refuted", "does not break", "not shown", "error") for word in words)
    broken = [row["what"].split()[0] for row in rows if row["verdict"] == "breaks"]
    power = json.loads((OUT / "power.json").read_text(encoding="utf-8"))
    worst: dict[tuple[str, str], float] = {}  # of an equality's instances
    for one in power["rows"]:
        if one["kind"] == "equality" and one["power"] is not None:
            place = one["theorem"], one["quantity"]
            worst[place] = max(one["power"], worst.get(place, 0.0))
    return (
        f"The last `make verify-all`: {theorems} theorems on fresh random instances, "
        f"{words.count('holds')} instances hold, {broken.count('control')} broken hypotheses and "
        f"{broken.count('wrong')} wrong formulas are seen to fail, {words.count('shown')} errata "
        f"are shown by numbers, {bad} rows speak against a theorem, {words.count('inconclusive')} "
        f"are inconclusive. Half of the {len(worst)} equalities would notice a prediction "
        f"that is {statistics.median(worst.values()):.0e} off; {len(power['blunt'])} quantities "
        "let 3 % pass."
    )


BATCHED, LOOP = "PyTorch, members in one tensor", "PyTorch, a loop over members"


def speed(every: bool = False) -> str:
    """The ratios of the last benchmark, the best rival first; every one is for docs/performance."""
    found = json.loads((OUT / "bench.json").read_text(encoding="utf-8"))
    missing = sorted(set(WORKLOADS) - set(found))
    if missing:
        raise ValueError(f"out/bench.json lacks {missing}: run `make bench` as a whole")
    lines = [
        "| job | times faster than the best rival | which | PyTorch in one tensor | PyTorch loop |",
        "|---|---|---|---|---|",
    ]
    lines += [_line(w, found[n]) for n, w in WORKLOADS.items() if every or n in SHORT]
    return "\n".join(lines)


def _line(words: str, row: dict[str, Any]) -> str:
    """A check says which part of the other's time is taken; it has one rival, dense algebra."""
    if "limit" in row:
        return f"| {words} | {_rounded(1 / row['value'])} | dense algebra | | |"
    best = ", ".join(dict.fromkeys(row["best"].values()))
    others = [row["ratios"].get(arm) for arm in (BATCHED, LOOP)]
    shown = ["" if ratio is None else _rounded(ratio) for ratio in others]
    return f"| {words} | {_rounded(row['ratio'])} | {best} | {' | '.join(shown)} |"


def _rounded(ratio: float) -> str:
    """Two digits: the machine does not repeat more."""
    digits = max(0, len(str(int(ratio))) - 2)
    return f"{round(ratio, -digits if digits else 1):,.{0 if ratio >= 10 else 1}f}"


def put(text: str, name: str, new: str) -> str:
    """The text with one of its marked places replaced."""
    pattern = rf"(<!-- {name} -->\n).*?(\n<!-- end -->)"
    if not re.search(pattern, text, re.S):
        raise ValueError(f"the text has no place <!-- {name} --> … <!-- end -->")
    return re.sub(pattern, lambda found: found[1] + new + found[2], text, flags=re.S)


def main() -> None:
    """Replace what the files in out/ know."""
    import gradbias as gb

    text = README.read_text(encoding="utf-8")
    for name, file, make in (
        ("verdicts", "verify.json", verdicts),
        ("speed", "bench.json", speed),
    ):
        if (OUT / file).exists():
            text = put(text, name, make())
        else:
            print(f"there is no out/{file}; the {name} stay as they were", file=sys.stderr)
    README.write_text(text, encoding="utf-8")
    if (OUT / "bench.json").exists():
        page = put(PERFORMANCE.read_text(encoding="utf-8"), "speed", speed(every=True))
        PERFORMANCE.write_text(page, encoding="utf-8")
    for name in PICTURES:
        made = gb.figures.make(name, store=OUT / "figures" / ".computed")
        made.save(ROOT / "docs" / "pictures", "png")
        (ROOT / "docs" / "pictures" / f"{name}.json").unlink()


if __name__ == "__main__":
    main()
