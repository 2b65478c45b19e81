"""Every formula that is shown becomes MathML: no raw command is left in a page."""

import pytest

import gradbias as gb
from gradbias.theorems import to_html, to_unicode


def shown() -> list[str]:
    texts = []
    for theorem in gb.theorems.find("*"):
        texts += [theorem.statement, theorem.title]
        for e in theorem.errata:
            texts += [e.printed, e.corrected, e.note]
    for figure in gb.figures.find():
        texts += [figure.title, figure.caption]
    return texts


def test_no_raw_command_is_left():
    for text in shown():
        assert "\\" not in to_html(text), text
        assert "\\" not in to_unicode(text), text


def test_names_of_functions_are_translated():
    assert "\\" not in to_html(r"$\sign x + \tr A + \asinh b$")
    assert to_unicode(r"$\tr A$") == "tr A"


def test_unknown_commands_are_refused():
    with pytest.raises(ValueError, match=r"unknown command '\\\\nonsense'"):
        to_html(r"$\nonsense x$")
