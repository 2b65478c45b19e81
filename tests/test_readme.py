"""The README's example prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

import gradbias as gb
from test_docs import OUTPUTS

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.smoke
def test_the_example_prints_what_is_shown():
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.S).groups()
    assert len(code.strip().splitlines()) == 6
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == shown


def test_the_other_blocks_print_what_is_shown():
    """They go on where the example ends; the theorem holds, with an honest expected error."""
    names, printed = {}, ""
    for code, shown in re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.S):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, names)
        assert OUTPUTS.differences(shown, out.getvalue()) == []
        printed += out.getvalue()
    assert README.count("```python") == README.count("```\n\n```\n")
    expected = re.search(r"^holds (\S+)$", printed, re.M).group(1)
    assert 1e-5 < float(expected) < 1e-2
    moved, far = map(float, re.findall(r"layers (\S+), distance to min-norm (\S+)", printed)[0])
    assert 0 < moved < far


def test_the_order_and_the_length():
    """What it is, a picture, install, an example, what is special, how fast, where next."""
    assert len(README.splitlines()) <= 120
    order = ["# gradbias", "docs/pictures/", "## Install", "## Six lines", "## Three things",
             "## How fast", "## Where next"]  # fmt: skip
    places = [README.index(words) for words in order]
    assert places == sorted(places)


def test_no_link_is_broken():
    root = Path(__file__).parents[1]
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (root / target).exists(), target


def test_the_first_screen():
    top = "\n".join(README.splitlines()[:14])
    assert "implicit bias" in README.splitlines()[0]
    assert "Not here (yet)" in top
    for picture in re.findall(r"\]\((docs/.*?\.png)\)", README):
        assert (Path(__file__).parents[1] / picture).stat().st_size < 300_000


def test_the_count_of_theorems_is_the_count():
    """`make readme` writes it; a theorem that was added since is missing there."""
    told = re.search(r"The last `make (verify|verify-all)`: (\d+) theorems", README)
    every = told.group(1) == "verify-all"
    theorems = gb.theorems.find()
    assert int(told.group(2)) == sum(every or not theorem.slow for theorem in theorems)
