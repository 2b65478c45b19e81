"""`make fuzz` itself: a few of its cases, and that it finds a number that is wrong."""

import numpy as np
import pytest

import gradbias as gb
from fuzz import by_hand, kinds
from fuzz.__main__ import main, run


def test_a_few_cases_agree(capsys):
    assert run([("descent", 64), ("descent", 65), ("sweep", 1)], 100) == 0
    assert "3 cases, 0 failed" in capsys.readouterr().out


def test_a_wrong_number_is_found_and_repeated_by_its_seed(capsys, monkeypatch):
    """One part in a million, in one entry of one layer, at one save."""
    right = by_hand.descent

    def wrong(case, saves):
        path = right(case, saves)
        name = next(iter(path.states))
        state = path.states[name].copy()
        state[2].flat[np.argmax(np.abs(state[2]))] *= 1 + 1e-6
        return path._replace(states={**path.states, name: state})

    monkeypatch.setattr(by_hand, "descent", wrong)
    assert main(["--seed", "descent:64"]) == 1
    out = capsys.readouterr().out
    assert "SEED=descent:64" in out and "1 failed" in out


def test_a_store_that_answers_with_other_numbers_is_found(capsys, monkeypatch):
    """As a store does that serves what it did not check."""
    right, calls = gb.sweep, []

    def wrong(*given, **named):
        calls.append(1)
        data = right(*given, **named).load()
        return data if len(calls) == 1 else data.assign(loss=data["loss"] * (1 + 1e-15))

    monkeypatch.setattr(kinds.gb, "sweep", wrong)
    monkeypatch.setattr(kinds, "_damage", lambda rng, place: [("none", "none")])
    assert run([("store", 1)], 100) == 1
    assert "without a word" in capsys.readouterr().out


@pytest.mark.parametrize("seed", ["descent", "other:3", "descent:x"])
def test_a_seed_that_is_none_is_a_sentence(seed, capsys):
    assert main(["--seed", seed]) == 2
    assert "KIND:NUMBER" in capsys.readouterr().out
