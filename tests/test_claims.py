"""The board of claims says what the files of a verification say."""

import importlib.util
import json
from pathlib import Path

import pytest

import gradbias as gb

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def claims():
    spec = importlib.util.spec_from_file_location("claims", DOCS / "claims.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(what, verdict, error=None, equality=False):
    return {
        "theorem": "rank1.thm1", "what": what, "verdict": verdict, "error": error,
        "equality": equality,
    }  # fmt: skip


def test_a_claim_is_its_worst_instance(claims, tmp_path):
    rows = [
        row("instance 0", "holds", 3e-12, True),
        row("instance 1", "holds", 2e-5, True),
        row("instance 2", "inconclusive"),
        row("control (balance)", "breaks", 0.5),
        row("wrong formula (half)", "breaks", 0.5),
        row("control (rank)", "does not break", 0.5),
    ]
    powers = [
        {"theorem": "rank1.thm1", "kind": kind, "power": power}
        for kind, power in (("equality", 1e-8), ("equality", 4e-3), ("bound", 0.7))
    ]
    (tmp_path / "verify.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "power.json").write_text(json.dumps({"rows": powers}))
    (found,) = claims.claims(tmp_path)
    assert found["verdicts"] == {"holds": 2, "inconclusive": 1}
    assert (found["digits"], found["power"]) == (4, 4e-3)
    assert (found["broken_hypotheses"], found["wrong_formulas"]) == (1, 1)
    page = claims.page([found], "1.2", "today")
    assert "| 2 of 3 | 4 | 4e-03 | 2 |" in page and "version 1.2, today" in page


@pytest.mark.parametrize(("error", "digits"), [(0.0, 16), (1e-30, 16), (1e-3, 3), (0.5, 0), (7, 0)])
def test_digits(claims, error, digits):
    assert claims.digits(error) == digits


def test_the_board_is_of_theorems_that_there_are(claims):
    board = json.loads((DOCS / "claims.json").read_text(encoding="utf-8"))
    known = {theorem.id for theorem in gb.theorems.find()}
    assert {one["claim"] for one in board["claims"]} <= known
    page = (DOCS / "claims.md").read_text(encoding="utf-8")
    assert page == claims.page(board["claims"], board["version"], board["date"])
