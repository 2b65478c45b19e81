"""The report is one page that needs nothing else, and says what its parts say."""

import html.parser
import json
import re
import shutil
import subprocess

import pytest

import gradbias as gb
from gradbias import report

ROW = {
    "theorem": "rank1.thm1",
    "verdict": "holds",
    "quantity": "theta",
    "error": 1e-12,
    "allowed": 1e-8,
    "separation": None,
    "key": 0,
    "seconds": 0.5,
    "reason": "",
    "command": "gradbias verify rank1.thm1 --key 0 --instances 1",
}
ROWS = [
    {**ROW, "what": "instance 0"},
    {**ROW, "what": "control (init is balanced)", "verdict": "breaks", "separation": 1e9},
    {**ROW, "what": "erratum: App. A.2", "verdict": "shown"},
    {**ROW, "theorem": "rank1.lemma1", "what": "instance 0", "verdict": "refuted", "reason": "a<b"},
]
FIGURE = {
    "id": "which_minimum",
    "title": "One & all",
    "caption": r"Both $\theta$ and <x>.",
    "command": "gradbias figures which_minimum",
    "seconds": 1.25,
    "settings": {"key": 0},
    "seen": [{"what": "error", "value": 1e-9, "needs": "needs ≤ 1e-08", "holds": True}],
}
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"></svg>'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = tmp_path_factory.mktemp("out")
    (at / "figures").mkdir()
    (at / "verify.json").write_text(json.dumps({"rows": ROWS}))
    (at / "figures" / "which_minimum.json").write_text(json.dumps(FIGURE))
    (at / "figures" / "which_minimum.svg").write_text(SVG)
    large = {**FIGURE, "command": "gradbias figures which_minimum --full", "seconds": 321.4}
    (at / "figures-full").mkdir()
    (at / "figures-full" / "which_minimum.json").write_text(json.dumps(large))
    (at / "figures-full" / "which_minimum.svg").write_text(SVG)
    return at


@pytest.fixture(scope="module")
def text(folder):
    errata = report.corrections("imbalance.*")
    page = report.page(report.collect(folder), errata)
    (folder / "report.html").write_text(page, encoding="utf-8")
    return page


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links, self.sources = [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        self.sources += [attrs["src"]] if "src" in attrs else []


def test_it_needs_nothing_else(text):
    tags = Tags()
    tags.feed(text)
    assert all(source.startswith("data:") for source in tags.sources)
    assert all(link.startswith("#") for link in tags.links)
    assert "<link" not in text
    assert "@import" not in text


def test_every_link_leads_somewhere(text):
    tags = Tags()
    tags.feed(text)
    assert len(set(tags.ids)) == len(tags.ids)
    assert {link[1:] for link in tags.links} <= set(tags.ids)


def test_it_says_what_the_rows_say(text):
    assert re.search(r"<b>2</b><span>theorems tried", text)
    assert re.search(r"<b>1</b><span>speak against", text)
    assert "✗ refuted" in text
    assert "a&lt;b" in text
    assert "1 hold" in text
    assert "gradbias figures which_minimum" in text
    assert "&lt;x&gt;" in text
    assert "<math" in text


def test_it_lists_the_times_at_the_papers_sizes(text, tmp_path):
    assert "<td>321</td>" in text
    assert "1 of 1 seen" in text
    assert text.count("<img") == 1
    assert "Not run here" in report.page(report.collect(tmp_path), [])


def test_errata_are_complete_and_say_how_they_were_read(folder):
    found = report.corrections("imbalance.*")
    assert len(found) == sum(len(t.errata) for t in gb.theorems.find("imbalance.*"))
    for correction in found:
        assert correction.compared_with_newest == "no"
        assert correction.read
        assert correction.command.startswith("gradbias theorems imbalance.")


@pytest.mark.slow
def test_a_browser_shows_it(folder, text):
    """The filter, run by a real browser: `?` and script are inside the page."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("there is no chromium")
    probe = (
        "<script>addEventListener('load', () => { const box = document.getElementById('filter');"
        "box.value = 'lemma1'; box.dispatchEvent(new Event('input'));"
        "document.title = document.getElementById('shown').textContent + '|' + "
        "getComputedStyle(document.querySelector('math')).display; });"
        "addEventListener('error', (e) => { document.body.dataset.error = e.message; });</script>"
    )
    page = folder / "probed.html"
    page.write_text(text.replace("</head>", probe + "</head>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"]
    flags += ["--disable-background-networking", f"--user-data-dir={folder / 'profile'}"]
    done = subprocess.run(
        [browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert "<title>1 of 2|" in done.stdout
    assert "data-error" not in done.stdout
