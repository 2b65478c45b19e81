"""`make fuzz` itself: a few of its cases, and that it finds a number that is wrong."""

import collections

import numpy as np
import pytest

import gradbias as gb
from fuzz import by_hand, closures, kinds
from fuzz.__main__ import main, run
from fuzz.kinds import KINDS, Wrong
from fuzz.rounding import allowance
from gradbias._engine import prepare
from gradbias.reductions import reduce

SLOW = pytest.mark.slow


def test_a_few_cases_agree(capsys):
    assert run([("descent", 64), ("descent", 65), ("sweep", 1)], 100) == 0
    assert "3 passed, 0 failed" in capsys.readouterr().out


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


def reduced_with_an_error(problem, net, params):
    """What the library finds, with a way back that is off by a millionth in the first layer."""
    found = reduce(problem, net, params)
    if isinstance(found, str):
        return found
    first, *later = found.lift.bases
    return found._replace(lift=found.lift._replace(bases=[first * (1 + 1e-6), *later]))


@pytest.mark.parametrize(
    ("kind", "where", "name", "cases"),
    [
        ("closure", closures, "reduce", range(64, 104)),
        ("descent", prepare, "find_reduction", range(64, 72)),
        pytest.param("classifier", prepare, "find_reduction", range(64, 72), marks=SLOW),
        pytest.param("optimiser", prepare, "find_reduction", range(8), marks=SLOW),
    ],
)
def test_a_reduced_run_that_is_off_by_a_millionth_is_found(kind, where, name, cases, monkeypatch):
    def outcomes():
        for number in cases:
            try:
                yield KINDS[kind](number).note
            except Wrong:
                yield "wrong"

    before = list(outcomes())
    monkeypatch.setattr(where, name, reduced_with_an_error)
    after = list(outcomes())
    pairs = collections.Counter(zip(before, after, strict=True))
    found, missed = pairs["reduced", "wrong"], pairs["reduced", "reduced"]
    assert found >= len(cases) / 3
    assert missed <= found / 10  # first layers that stay zero
    # Where nothing is reduced, or rounding alone decides the run, there is nothing to find.
    assert all(was == now for was, now in pairs if was != "reduced")


def test_what_rounding_may_do_is_what_it_does():
    """Of a thousand random displacements, none is beyond what a few others allow."""
    rng = np.random.default_rng(0)
    for twins in (4, 7):
        sizes = np.abs(rng.normal(size=(1 + twins, 200_000)))
        ratio = np.sort(sizes[0] / sizes[1:].max(axis=0))
        assert ratio[-20] < allowance(twins) < 50  # 1e-4 of them lie beyond ratio[-20]
        exceeded = np.mean(ratio > allowance(twins) / 10)
        assert exceeded <= 2e-6 * 10**twins  # falls as the power that the allowance is made of


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
