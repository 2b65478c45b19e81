"""How the pages are built: `make docs`. Nothing here needs a network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import pages  # noqa: E402  (beside this file)

import gradbias  # noqa: E402

project = "gradbias"
author = "the authors of gradbias"
release = gradbias.__version__
version = release.partition("+")[0]  # without the commit
extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinxcontrib.bibtex",
]
html_theme = "furo"
html_title = f"gradbias {version}"
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["own.css"]
html_js_files = [("theorems.js", {"defer": "defer"})]
copybutton_selector = "div:not(.highlight-text) > div.highlight pre"  # not of what is printed
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the blocks run in tests/test_docs.py, where a failure has a name
bibtex_bibfiles = ["made/papers.bib"]
exclude_patterns = ["build"]
suppress_warnings = ["myst.xref_missing"]


def without_claims(app, page, text):
    """The page of claims is written by `make verify-all`; without it the list leaves it out."""
    if page != "index":
        return
    app.env.note_dependency("claims.md")  # the list is read again when it comes or goes
    if not (HERE / "claims.md").exists():
        text[0] = text[0].replace("\nclaims\n", "\n")


def setup(app):
    """Pages that are made from the package itself, and formulas as MathML."""
    pages.write_all(HERE / "made", HERE.parent / "out" / "figures")
    app.add_html_math_renderer("mathml", (pages.inline, None), (pages.block, None))
    app.connect("source-read", without_claims)
