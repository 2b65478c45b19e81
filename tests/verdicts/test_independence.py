"""What is predicted and what is measured share no formula: a run of each, with every call noted."""

import dataclasses
import sys
from pathlib import Path

import jax
import pytest

import gradbias
from gradbias import theorems as th
from gradbias._verdicts.reached_rows import reached
from gradbias._verdicts.runs import execute

ROOT = Path(gradbias.__file__).parent
# Rooms whose functions say something about training: formulas, not coordinates.
FORMULAS = ("theory", "limit", "symmetry", "_manifold")
# What both may call there: how a problem is read, coordinates, and linear algebra.
MAY_SHARE = {
    "theory/_problem": "X, Y, weight, rank and singular vectors of a problem",
    "theory/_units": "powers of two in front of everything",
    "theory/diagonal/_problem": "X, Y and refusals of a diagonal net",
    "theory/diagonal/_fits": "X, Y and refusals of a diagonal net",
    "theory/imbalance/_coordinates": "layers in the singular vectors of the data",
    "theory/spectral/_svd": "singular values",
    "theory/symmetry/_moments": "moments of the data",
}
# Formulas that are shared nevertheless. None may be added.
EXCEPTIONS = {
    # The noise of two layers in closed form, which tests hold against brute force; what is
    # compared is where it balances.
    ("theory/symmetry/_factorisation", "factorisation_noise"),
    ("theory/symmetry/_factorisation", "factors"),
}
QUICK = {
    "rank1.thm1",
    "spectral.cor3.1",
    "spectral.gamma_eff",
    "zeroloss.lemma6.5",
    "imbalance.lemma1",
    "equilibrium.thm4.3.2",
}


def called(function):
    """The functions of the library that a call runs: file without its ending, and name."""
    names = set()

    def note(frame, event, arg):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            place = path.relative_to(ROOT).with_suffix("").as_posix()
            names.add((place, frame.f_code.co_qualname))

    jax.clear_caches()  # what was traced before would not be called again
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return names


def shared_formulas(theorem, key=0):
    """The formulas that both its prediction and its measurement call."""
    setup = theorem.instances(key)
    runs = reached(execute(theorem.runs_of(setup)))
    measured = called(lambda: theorem.measure_on(runs))
    # A setup of its own: what is remembered for one is not looked up for the other.
    predicted = called(lambda: theorem.tell(theorem.instances(key), runs))
    assert predicted and measured
    return {
        (place, name)
        for place, name in predicted & measured
        if place.split("/")[0] in FORMULAS
        and place not in MAY_SHARE
        and name.split(".")[0] not in {"<module>", "<lambda>"}
    }


def _cases():
    for theorem in th.find("*"):
        slow = theorem.slow or theorem.id not in QUICK
        yield pytest.param(theorem, id=theorem.id, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("theorem", list(_cases()))
def test_prediction_and_measurement_share_no_formula(theorem):
    assert shared_formulas(theorem) <= EXCEPTIONS


def test_a_shared_formula_is_found():
    from gradbias.theory.spectral import limit_singular_values

    right = next(iter(th.find("spectral.cor3.1")))

    def measure(run):
        limit_singular_values(run.theta, 0.1, run.setup.problem.d)
        return right.measure(run)

    copied = dataclasses.replace(right, id="toy.copied", measure=measure)
    shared = shared_formulas(copied)
    assert ("theory/spectral/_layers", "limit_singular_values") in shared
