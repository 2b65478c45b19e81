"""The README's example prints what the README says."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.smoke
def test_the_example_prints_what_is_shown():
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.S).groups()
    assert len(code.strip().splitlines()) == 6
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {})
    assert printed.getvalue() == shown


def test_the_other_blocks_run():
    """They go on where the example ends; the theorem holds, with an honest expected error."""
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for code in re.findall(r"```python\n(.*?)```", README, re.S):
            exec(code, names)
    word, expected = printed.getvalue().splitlines()[-1].split()
    assert word == "holds"
    assert 1e-5 < float(expected) < 1e-2


def test_the_first_screen():
    top = "\n".join(README.splitlines()[:14])
    assert "implicit bias" in README.splitlines()[0]
    assert "Not here (yet)" in top
    picture = re.search(r"\]\((docs/.*?\.png)\)", README).group(1)
    assert (Path(__file__).parents[1] / picture).stat().st_size < 300_000
