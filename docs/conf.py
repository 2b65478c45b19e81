"""How the pages are built: `make docs`. Nothing here needs a network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import pages  # noqa: E402  (beside this file)

import gradbias  # noqa: E402

project = "gradbias"
author = "the authors of gradbias"
version = release = gradbias.__version__
extensions = [
    "myst_nb",
    "sphinxcontrib.bibtex",
]
html_theme = "furo"
html_title = "gradbias"
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["own.css"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the blocks run in tests/test_docs.py, where a failure has a name
bibtex_bibfiles = ["made/papers.bib"]
exclude_patterns = ["build"]
suppress_warnings = ["myst.xref_missing"]


def setup(app):
    """Pages that are made from the package itself, and formulas as MathML."""
    pages.write_all(HERE / "made", HERE.parent / "out" / "figures")
    app.add_html_math_renderer("mathml", (pages.inline, None), (pages.block, None))
