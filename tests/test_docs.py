"""Every python block of the documentation runs, and prints what the page shows below it."""

import ast
import importlib.util
import re
import subprocess
import sys
import textwrap
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


def outputs_module():
    spec = importlib.util.spec_from_file_location("outputs", DOCS / "outputs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


OUTPUTS = outputs_module()


def blocks(path):
    return [code for code, _ in OUTPUTS.blocks(path.read_text(encoding="utf-8"))]


def run(path):
    """What the page's blocks print."""
    return "".join(OUTPUTS.printed(path))


# Lists of other pages, and pages that are made when the documentation is built.
WITHOUT_CODE = (
    *("index", "architecture", "bibliography", "glossary", "performance", "torch-architectures"),
    *("changelog", "claims"),
)
PAGES = sorted(path for path in DOCS.rglob("*.md") if "made" not in path.parts)


def marked(path):
    """The papers' own pages are long; the others run with every test."""
    return pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * ("papers" in path.parts))


@pytest.mark.parametrize("path", [marked(path) for path in PAGES])
def test_blocks_run(path):
    assert blocks(path) or path.stem in WITHOUT_CODE
    torch = path.stem.startswith("torch")
    if torch:
        pytest.importorskip("torch")
    printed = list(OUTPUTS.printed(path))
    if torch:  # it prints times and sizes of the machine
        return
    shown = [out for _, out in OUTPUTS.blocks(path.read_text(encoding="utf-8"))]
    found = [d for one, other in zip(shown, printed, strict=True)
             for d in OUTPUTS.differences(one, other)]  # fmt: skip
    assert found == [], "python docs/outputs.py writes what is printed now"


def test_the_comparison_of_outputs_can_fail():
    same = "error 3.9e-11, theta [1.881 1.141]\n  2 compilations, 0.31 s\n"
    assert OUTPUTS.differences(same, same.replace("3.9e-11", "7.6e-14")) == []
    assert (
        OUTPUTS.differences(same, same.replace("2 compilations, 0.31", "0 compilations, 9")) == []
    )
    assert OUTPUTS.differences(same, same.replace("1.881", "1.884")) == []
    for old, new in (("1.881", "1.981"), ("theta", "beta"), ("3.9e-11", "3.9e-3"), (" 1.141", "")):
        assert OUTPUTS.differences(same, same.replace(old, new)), new
    assert OUTPUTS.differences(same, same + "more\n")
    page = "```python\nprint(1)\n```\n\ntext\n\n```python\nx = 2\n```\n\n```text\nold\n```\n"
    made = OUTPUTS.with_outputs(page, ["1\n", ""])
    assert made == "```python\nprint(1)\n```\n\n```text\n1\n```\n\ntext\n\n```python\nx = 2\n```\n"


def fragments(text):
    """Indented pieces that are Python."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    for piece in re.findall(r"(?:^    .*\n|^\n)+", plain, re.M):
        code = textwrap.dedent(piece).strip()
        try:
            ast.parse(code)
        except SyntaxError:
            continue
        if re.search(r"[=(]", code):
            yield code


@pytest.mark.parametrize("name", ["after-zero-loss", "sweeps"])
def test_fragments_use_no_name_that_the_page_does_not_make(name, tmp_path):
    """They take too long to run here; pasted after the blocks they must work."""
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    found = list(fragments(text))
    assert found
    page = tmp_path / "page.py"
    page.write_text("\n".join([*blocks(DOCS / f"{name}.md"), *found]), encoding="utf-8")
    check = ["ruff", "check", "--isolated", "--select", "F821", "-q", str(page)]
    done = subprocess.run([sys.executable, "-m", *check], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_norms_in_tables_are_norms():
    """In a row of a table a backslash before a bar is taken away: a norm became a modulus."""
    for path in PAGES:
        rows = [row for row in path.read_text(encoding="utf-8").splitlines() if row[:1] == "|"]
        assert not [row for row in rows if "\\|" in row], path.name


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
