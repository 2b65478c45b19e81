"""`gradbias report`: verify, draw, and put all of it on one page."""

from pathlib import Path

from ..numerics.log import say
from ..numerics.progress import CountProgress

LOOK = "paper"


def run(out: Path, fresh: bool, every: bool, instances: int, key: int, jobs: int) -> int:
    """Make what is missing, then the page; returns the worst exit code of the parts."""
    from . import _figures, _verify

    folder = out.parent
    codes = [0]
    if fresh or not (folder / "verify.json").exists():
        codes.append(_verify.run("*", instances, key, jobs, folder / "verify.json"))
    if fresh or every or not any((folder / "figures").glob("*.json")):
        pictures = folder / "figures"
        codes.append(
            _figures.run("*", every, False, False, (), LOOK, ("svg",), pictures, key, jobs)
        )
    with CountProgress("report", at_once=True) as count:
        count.step(0, "errata, computed anew")
        from ..report import write

        page = write(folder, out)
    say(f"wrote {page} and {folder / 'errata.json'}")
    # 1 (refuted, not seen) is worse than 2 (inconclusive).
    return 1 if 1 in codes else max(codes)
