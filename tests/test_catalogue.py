"""Pages of theorems and examples that are made when the documentation is built; without Sphinx."""

import ast
import importlib.util
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import gradbias as gb
from explore.chromium import Chromium, executable

ROOT = Path(__file__).parents[1]
FILTERS = ("net", "problem", "dynamics", "paper")


def module(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


CATALOGUE = module("catalogue")
EXAMPLES = module("example_pages")
THEOREMS = gb.theorems.find()


class Reader(HTMLParser):
    """Articles with their attributes and text, and what each filter offers."""

    def __init__(self, text):
        super().__init__()
        self.articles = []
        self.texts = {}
        self.options = {}
        self._select = self._article = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "article":
            self._article = given["id"]
            self.articles.append(given)
            self.texts[self._article] = ""
        if tag == "select":
            self._select = given["name"]
            self.options[self._select] = []
        if tag == "option" and "value" not in given:
            self.options[self._select].append("")

    def handle_endtag(self, tag):
        if tag == "article":
            self._article = ""
        if tag == "select":
            self._select = ""

    def handle_data(self, data):
        if self._article:
            self.texts[self._article] += data
        elif self._select and self.options[self._select]:
            self.options[self._select][-1] += data


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return CATALOGUE.page(THEOREMS, tmp_path_factory.mktemp("none") / "claims.json")


@pytest.fixture(scope="module")
def page(text):
    return Reader(text)


def test_every_theorem_is_there_once(page):
    assert Counter(a["id"] for a in page.articles) == Counter(t.id for t in THEOREMS)
    for theorem in THEOREMS:
        shown = page.texts[theorem.id]
        assert f"gradbias verify {theorem.id}" in shown
        assert f'gb.predict(setup, only="{theorem.id}")' in shown
        assert "\\" not in shown, "a formula was left in LaTeX"
        words = theorem.statement.split("$")[0]
        assert words in shown
        assert all(hypothesis.name in shown for hypothesis in theorem.hypotheses)
        assert ("gradbias, 2026" in shown) == theorem.own


def test_filters_offer_what_is_there(page):
    for what in FILTERS:
        offered = page.options[what]
        used = {value for a in page.articles for value in a[f"data-{what}"].split("|")}
        assert len(offered) == len(set(offered))
        assert set(offered) == used - {""}
        assert all(a[f"data-{what}"] for a in page.articles)


@pytest.mark.parametrize("theorem", THEOREMS[::12], ids=lambda theorem: theorem.id)
def test_a_theorem_is_found_under_the_kinds_of_its_instances(page, theorem):
    setup = theorem.instances(0)
    article = next(a for a in page.articles if a["id"] == theorem.id)
    things = {"net": setup.net, "problem": setup.problem, "dynamics": setup.dynamics}
    for what, thing in things.items():
        names = {kind.__name__ for kind in type(thing).__mro__}
        if names & set(page.options[what]):
            assert names & set(article[f"data-{what}"].split("|")), what


def test_a_kind_that_a_theorem_is_not_about_does_not_find_it(page):
    found = {a["id"]: a["data-net"].split("|") for a in page.articles}
    assert "Diagonal" not in found["rank1.thm1"]
    assert {"Rank1", "Deep", "TwoLayer"} <= set(found["rank1.rowspace"])
    linear = next(t for t in THEOREMS if t.nets == (gb.LinearNet,))
    assert {"Deep", "Diagonal"} <= set(found[linear.id])


def test_verdicts(tmp_path, text):
    assert "was not run" in text
    assert "last verdict" not in text
    one = {"claim": "rank1.thm1", "verdicts": {"holds": 4, "inconclusive": 1}, "digits": 7}
    one |= {"power": 2.4e-7, "broken_hypotheses": 2, "wrong_formulas": 1}
    old = dict(one, claim="rank1.forgotten")
    file = tmp_path / "claims.json"
    about = {"version": "0.1.0", "date": "2026-02-03", "claims": [one, old]}
    file.write_text(json.dumps(about), encoding="utf-8")
    made = CATALOGUE.page(THEOREMS, file)
    shown = Reader(made).texts
    line = (
        "holds in 4 of 5 instances, 1 inconclusive, 7 digits, power 2e-07, 3 controls seen to fail"
    )
    assert line in shown["rank1.thm1"]
    assert "version 0.1.0, 2026-02-03" in made
    assert "rank1.forgotten" not in made
    assert "not in that verification" in shown["rank1.rowspace"]
    bound = dict(one, verdicts={"holds": 5}, digits=None, power=None, wrong_formulas=0)
    assert CATALOGUE.verdict(bound) == "holds in 5 of 5 instances, 2 controls seen to fail"


SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_is_shown_whole(script):
    """The blocks of its page, one after the other, are the script."""
    shown = EXAMPLES.page(script)
    code = "\n\n".join(re.findall(r"^```python\n(.*?)^```", shown, re.S | re.M))
    tree = ast.parse(script.read_text(encoding="utf-8"))
    words = ast.get_docstring(tree)
    if words is not None:
        del tree.body[0]
        assert words.splitlines()[-1].strip() in shown
    assert ast.dump(ast.parse(code)) == ast.dump(tree)
    assert re.match(r"# \S.*\n\n\{download\}", shown)
    assert "%%" not in shown


def test_quick_examples_show_what_they_print():
    outputs = module("outputs")
    assert set(EXAMPLES.QUICK) <= {script.stem for script in SCRIPTS}
    text = EXAMPLES.page(ROOT / "examples" / "which_depth.py")
    shown = outputs.with_outputs(text, list(outputs.printed_by(text, "which_depth")))
    problem = gb.problems.gaussian(n=20, d=60, informative=4, key=2)
    least = np.linalg.norm(np.linalg.lstsq(problem.X, problem.Y, rcond=None)[0])
    assert f"```text\ndistance to the min-norm solution (norm of that: {least:.3f})\n" in shown
    assert shown.count("```text") == 2
    assert "```text" not in text


def test_every_example_is_listed():
    made = EXAMPLES.pages(ROOT / "examples")
    assert len(SCRIPTS) > 10
    assert set(made) == {"examples"} | {f"example-{script.stem}" for script in SCRIPTS}
    assert all(f"\nexample-{script.stem}\n" in made["examples"] for script in SCRIPTS)


VISIBLE = "[...document.querySelectorAll('article')].filter((a) => a.checkVisibility()).length"
CHOOSE = """(() => { const field = document.forms[0].elements[%r];
field.value = %r; field.dispatchEvent(new Event('input', {bubbles: true})); })()"""


@pytest.fixture(scope="module")
def address(tmp_path_factory, text):
    """The page as HTML, with the script beside it."""
    folder = tmp_path_factory.mktemp("site")
    body = re.sub(
        r"^## (.*?)$(.*?)(?=^## |\Z)", r"<section><h2>\1</h2>\2</section>", text, flags=re.S | re.M
    )
    body = re.sub(r"^```.*\n", "", body, flags=re.M)
    script = (ROOT / "docs" / "static" / "theorems.js").read_text(encoding="utf-8")
    style = (ROOT / "docs" / "static" / "own.css").read_text(encoding="utf-8")
    file = folder / "page.html"
    head = f"<!doctype html><meta charset=utf-8><style>{style}</style>"
    file.write_text(f"{head}{body}<script>{script}</script>", encoding="utf-8")
    (folder / "plain.html").write_text(f"{head}{body}", encoding="utf-8")
    return file.as_uri()


@pytest.mark.skipif(executable() is None, reason="there is no Chromium on this machine")
def test_filters_in_a_browser(address, page):
    def count(what, value):
        return sum(value in a[f"data-{what}"].split("|") for a in page.articles)

    with Chromium() as browser:
        browser.open(address.replace("page.html", "plain.html"))
        browser.until("document.readyState === 'complete' && document.forms.length")
        assert browser.run(VISIBLE) == len(THEOREMS)
        assert not browser.run("document.forms[0].checkVisibility()")

        browser.open(address)
        browser.until("document.readyState === 'complete' && !document.forms[0]?.hidden")
        assert browser.run(VISIBLE) == len(THEOREMS)
        for what in FILTERS:
            for value in page.options[what]:
                browser.run(CHOOSE % (what, value))
                assert browser.run(VISIBLE) == count(what, value) > 0, value
            browser.run(CHOOSE % (what, ""))
        browser.run(CHOOSE % ("net", "Diagonal"))
        browser.run(CHOOSE % ("words", "SPARSE teacher"))
        found = browser.run(VISIBLE)
        assert 0 < found < count("net", "Diagonal")
        assert browser.run("document.querySelector('output').textContent") == (
            f"{found} of {len(THEOREMS)} theorems"
        )
        assert "rank1" not in browser.run("document.body.innerText.match(/^rank1.*$/m)?.[0] || ''")
        # A link to a theorem that is filtered away shows it again.
        browser.run("location.hash = '#rank1.rowspace'")
        browser.until(f"{VISIBLE} === {len(THEOREMS)}")
        # By keyboard: the button that empties the fields.
        browser.run(CHOOSE % ("words", "no such words"))
        assert browser.run(VISIBLE) == 0
        browser.run("document.forms[0].elements.words.focus()")
        for _ in range(5):
            browser.press("Tab")
        browser.press("Enter")
        browser.until(f"{VISIBLE} === {len(THEOREMS)}")
        # What is chosen is in the address.
        browser.open(f"{address}?net=Diagonal")
        browser.until(f"{VISIBLE} === {count('net', 'Diagonal')}")
