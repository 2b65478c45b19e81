"""A page that needs nothing else: our look around a body, and for tables their filter."""

import html
from importlib import resources


def page(title: str, body: str, *, filters: bool = False) -> str:
    """The text of a page; all that it needs is inside.

    Args:
        title: of the window.
        body: HTML.
        filters: with the script that makes boxes filter tables; a page without one is static.
    """
    script = f"<script>\n{_resource('page.js')}</script>" if filters else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_resource('page.css')}</style></head>\n"
        f"<body><main>\n{body}\n</main>\n{script}</body></html>\n"
    )


def _resource(name: str) -> str:
    return resources.files("gradbias._text").joinpath(name).read_text(encoding="utf-8")
