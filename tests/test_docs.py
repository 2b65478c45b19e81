"""Every python block of the documentation runs, in one namespace per file."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from gradbias.theorems import known, unregister

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(autouse=True)
def forgotten():
    """What a page registers is gone when it has run."""
    before = set(known())
    yield
    for theorem_id in set(known()) - before:
        unregister(theorem_id)


def blocks(path):
    return re.findall(r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


def run(path):
    """The blocks one after the other; what they print."""
    names = {"__name__": path.stem}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for i, block in enumerate(blocks(path), start=1):
            exec(compile(block, f"{path.name}, block {i}", "exec"), names)
    return printed.getvalue()


# Lists of other pages, and pages that are made when the documentation is built.
WITHOUT_CODE = ("index", "architecture", "bibliography", "performance")
PAGES = sorted(path for path in DOCS.rglob("*.md") if "made" not in path.parts)


def marked(path):
    """The papers' own pages are long; the others run with every test."""
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * ("papers" in path.parts))


@pytest.mark.parametrize("path", [marked(path) for path in PAGES])
def test_blocks_run(path):
    assert blocks(path) or path.stem in WITHOUT_CODE
    if path.stem.startswith("torch"):
        pytest.importorskip("torch")
    run(path)


OWN = DOCS / "own-nets-and-noise.md"


def test_own_net_and_noise_are_as_short_as_promised():
    """A net in five lines, a law in ten."""
    lengths = {}
    for block in blocks(OWN):
        name = re.match(r"class (\w+)", block)
        if name:
            lengths[name.group(1)] = len(block.strip().splitlines())
    assert lengths["Cubic"] <= 5
    assert lengths["Dropped"] <= 10


def test_the_checks_say_what_the_text_says():
    printed = run(OWN)
    assert printed.count("nothing wrong in") == 2
    assert "symmetries()['a'] does not hold" in printed
    assert re.search(
        r"weights have a variance of (0\.9|1)\S* in sample .* but 0\.5 is claimed", printed
    )
