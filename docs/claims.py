"""Make docs/claims.md and docs/claims.json from the last `make verify-all`.

Every theorem is one claim: what it says, to how many digits runs agree with it, which change of the
prediction they would have noticed, and what was seen to fail. Nothing is written by hand; to add a
claim is to add a theorem.
"""

import collections
import datetime
import json
import math
from pathlib import Path
from typing import Any

import gradbias as gb

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out"
HEAD = """# Claims

Every theorem that gradbias knows, as the last `make verify-all` saw it: version {version}, {date}.
The same for programs is [claims.json](claims.json).

- **digits**: to how many digits the worst instance agrees with the prediction. A bound has none.
- **power**: the smallest change of the prediction that the worst instance would have refuted.
- **control**: how many broken hypotheses and wrong formulas were seen to fail.
- **corrections**: places of the paper that a reader should know about, by [kind](made/errata.md).

To add a claim, [add a theorem](own-theorems.md#a-theorem-of-your-own).
"""


def claims(out: Path) -> list[dict[str, Any]]:
    """A claim for each theorem of `out/verify.json`, in its order."""
    verified = json.loads((out / "verify.json").read_text(encoding="utf-8"))
    powers = json.loads((out / "power.json").read_text(encoding="utf-8"))["rows"]
    rows = collections.defaultdict(list)
    for row in verified["rows"]:
        rows[row["theorem"]].append(row)
    equalities = collections.defaultdict(list)
    for row in powers:
        if row["kind"] == "equality" and row["power"] is not None:
            equalities[row["theorem"]].append(row["power"])
    known = {theorem.id: theorem for theorem in gb.theorems.find()}
    return [claim(known[name], rows[name], equalities[name]) for name in rows if name in known]


def claim(theorem: Any, rows: list[dict[str, Any]], powers: list[float]) -> dict[str, Any]:
    """One theorem: its source, its statement, and what was measured."""
    instances = [row for row in rows if row["what"].startswith("instance")]
    errors = [row["error"] for row in instances if row["equality"] and row["error"] is not None]
    broken = [row["what"].split()[0] for row in rows if row["verdict"] == "breaks"]
    kinds = collections.Counter(erratum.kind for erratum in theorem.errata)
    return {
        "claim": theorem.id,
        "paper": "gradbias (2026)" if theorem.own else str(theorem.source),
        "title": theorem.title,
        "statement": theorem.statement,
        "verdicts": dict(collections.Counter(row["verdict"] for row in instances)),
        "digits": digits(max(errors)) if errors else None,
        "power": max(powers) if powers else None,
        "broken_hypotheses": broken.count("control"),
        "wrong_formulas": broken.count("wrong"),
        "corrections": {kind: kinds[kind] for kind in gb.theorems.KINDS if kinds[kind]},
        "command": f"gradbias verify {theorem.id}",
    }


def digits(error: float) -> int:
    """Of agreement: 3 for a relative error of 0.001; 16 at most, all that float64 has."""
    return 16 if error == 0 else max(0, min(16, math.floor(-math.log10(error))))


def page(found: list[dict[str, Any]], version: str, date: str) -> str:
    """The claims as Markdown, a table a paper."""
    parts = [HEAD.format(version=version, date=date)]
    for paper in dict.fromkeys(one["paper"] for one in found):
        parts.append(f"## {paper}\n")
        parts.append("| claim | holds | digits | power | control | corrections |")
        parts.append("|---|---|---|---|---|---|")
        parts += [line(one) for one in found if one["paper"] == paper]
        parts.append("")
    return "\n".join(parts)


def line(one: dict[str, Any]) -> str:
    """A claim's row of the table."""
    total = sum(one["verdicts"].values())
    power = "" if one["power"] is None else f"{one['power']:.0e}"
    kinds = ", ".join(f"{count} {kind}" for kind, count in one["corrections"].items())
    cells = [
        f"`{one['claim']}` {one['title']}",
        f"{one['verdicts'].get('holds', 0)} of {total}",
        "" if one["digits"] is None else str(one["digits"]),
        power,
        str(one["broken_hypotheses"] + one["wrong_formulas"]),
        kinds,
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write both files."""
    found = claims(OUT)
    date = datetime.date.fromtimestamp((OUT / "verify.json").stat().st_mtime).isoformat()
    about = {"version": gb.__version__, "date": date, "claims": found}
    text = json.dumps(about, indent=1, ensure_ascii=False)
    (ROOT / "docs" / "claims.json").write_text(text + "\n", encoding="utf-8")
    (ROOT / "docs" / "claims.md").write_text(page(found, gb.__version__, date), encoding="utf-8")
    print(f"{len(found)} claims, in docs/claims.md and docs/claims.json")


if __name__ == "__main__":
    main()
