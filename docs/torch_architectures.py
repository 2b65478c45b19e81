"""Write docs/torch-architectures.md: what is found in each architecture that the tests build.

    python docs/torch_architectures.py

takes about a minute. The models are those of tests/torch_models/architectures.py, where the units
of every family are counted by hand.
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "torch-architectures.md"
HEAD = """# Architectures

What [`gbt.symmetries`](torch.md#symmetries) finds in {count} small models, all written in plain
torch for the tests, where the units of every family are counted from the structure. *Worst check*
is the largest relative change of any output, in float64 and by torch's own forward pass, when the
weights are moved at random along a family; normalisations have an epsilon of 0 or 1e-30 here, so
that nothing else is left of it. With the usual epsilons what feeds a normalisation holds
approximately, and that is said. *Seconds* are for one call on one core of a busy machine, most of
them for the model's graph. The page is written by `docs/torch_architectures.py`.

| architecture | units of its families | what they are | named | seconds | worst check |
| --- | --- | --- | --- | --- | --- |
"""


def row(name: str) -> str:
    """One architecture."""
    import gradbias.torch as gbt
    from torch_models.architectures import ARCHITECTURES
    from torch_models.test_architectures import built, changes

    model, given = built(name)
    began = time.perf_counter()
    found = gbt.symmetries(model, given)
    seconds = time.perf_counter() - began
    worst = max(changes(model, found, given), default=0.0)
    units = ", ".join(str(family.units) for family in found) or "none"
    # Of computed weights there are long lists; what kind they are is enough.
    named = "; ".join(
        dict.fromkeys(note.partition(",")[0].partition(":")[0] for note in found.notes())
    )
    check = f"{worst:.0e}" if len(found) else ""
    because = ARCHITECTURES[name].because
    return f"| {name} | {units} | {because} | {named} | {seconds:.1f} | {check} |"


def main() -> None:
    """Look at all of them."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    from torch_models.architectures import ARCHITECTURES

    row("MLP")  # the first call of torch.export takes seconds
    rows = [row(name) for name in ARCHITECTURES]
    PAGE.write_text(HEAD.format(count=len(rows)) + "\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
