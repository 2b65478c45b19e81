"""Imbalance and width: every theorem holds, every control breaks, every erratum shows."""

import dataclasses
import math

import numpy as np
import pytest

import gradbias as gb
from gradbias import theorems as th
from gradbias.theorems import imbalance
from gradbias.theorems.imbalance import _facts as facts
from gradbias.theorems.imbalance import _instances as cases
from theorem_cases import each_theorem

THEOREMS = {theorem.id: theorem for theorem in imbalance.THEOREMS}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("theorem", each_theorem(imbalance.THEOREMS))
def test_holds_and_its_controls_break(theorem):
    found = gb.verify(theorem, instances=1, key=7)
    assert found.exit_code == 0, str(found)
    assert any(row.verdict == "holds" for row in found)
    assert sum(row.verdict == "breaks" for row in found) == len(theorem.controls)


def test_only_what_is_probable_or_at_a_point_has_no_control():
    without = {name for name, theorem in THEOREMS.items() if not theorem.controls}
    assert without == {"imbalance.lemma1", "imbalance.lemmaE.1", "imbalance.thm2"}


@pytest.mark.parametrize("theorem", imbalance.THEOREMS, ids=lambda theorem: theorem.id)
def test_reads_well(theorem):
    texts = [theorem.statement, *(t for e in theorem.errata for t in (e.printed, e.corrected))]
    assert not any("\\" in th.to_unicode(text) for text in texts)
    assert 0 < len(theorem.title) <= 48


def told(theorem, setup):
    """The prediction, or the hypothesis that fails."""
    checked = THEOREMS[theorem].check(setup)
    failed = [str(c) for c in checked if not c.met]
    return failed[0] if failed else THEOREMS[theorem].tell(setup)


def expected(theorem, setup):
    return sum(c.expected_error for c in THEOREMS[theorem].check(setup))


def judged(theorem, setup):
    """Quantity → verdict, of one theorem on one setup."""
    from gradbias._verdicts.judge import judge_runs
    from gradbias._verdicts.predict import Prediction
    from gradbias._verdicts.runs import execute

    chosen = THEOREMS[theorem]
    checked = chosen.check(setup)
    assert all(c.met for c in checked), [str(c) for c in checked if not c.met]
    verdicts = judge_runs(Prediction(chosen, setup, checked), execute(chosen.runs_of(setup)))
    return {verdict.quantity: verdict for verdict in verdicts}


@pytest.mark.parametrize("key", range(4))
def test_descent_stays_below_its_widened_bound_and_the_widening_is_small(key):
    """Theorem 1 for GD, stepped in NumPy: with the level that is kept, and an O(lr) widening."""
    reference = 0.0
    for lr in (1e-3, 1e-2):
        setup = cases.descent(key, lr)
        assert facts.relative_step(setup) <= 1
        margin = expected("imbalance.thm1", setup)
        bound = told("imbalance.thm1", setup).claims["excess loss"].value
        X, Y, rate = setup.problem.X, setup.problem.labels, 2 * lr * setup.problem.weight
        (W1, W2), k = (setup.params[name] for name in ("W1", "W2")), 0
        for at, limit in zip(setup.save_at, bound, strict=True):
            if at > 1500:
                break
            while k < at:
                pull = rate * X.T @ (X @ W1 @ W2 - Y)
                W1, W2, k = W1 - pull @ W2.T, W2 - W1.T @ pull, k + 1
            assert float(setup.problem.excess()(W1 @ W2)) <= limit * (1 + margin)
        assert margin > 5 * reference
        reference = margin
    assert 0 < margin < 1


def test_bounds_are_not_vacuous():
    """Somewhere each one is nearly attained, as far as the sheet of numbers says it can be."""
    runs = {"run": gb.simulate(cases.setup(3))}
    certificate = facts.cert(cases.setup(3))
    k = THEOREMS["imbalance.rates"].measure_on(runs)["k ≥ kA"]
    assert certificate.asymptotic_rate > 0.3 * k[-1]
    assert certificate.kA > 0.08 * k[-1]
    sharper = told("imbalance.eq42", cases.setup(3)).claims
    assert sharper["distance, sharper"].value < 0.9 * sharper["distance"].value
    found = judged("imbalance.thm2", cases.wide(0))
    assert 1e-3 < found["distance ÷ bound"].measured < 1


def test_a_net_that_is_too_narrow_is_told_how_wide_it_must_be():
    setup = cases.wide(0)
    half = gb.TwoLayer(3, 1, 200)
    narrow = setup.replace(net=half, params=gb.init.inverse_width(half, 0.5, key=0))
    assert "wide enough: threshold ÷ width (1.6, at most 1)" in told("imbalance.lemma1", narrow)
    uneven = setup.replace(params={**setup.params, "W2": 3 * setup.params["W2"]})
    assert "one normal law" in told("imbalance.thm2", uneven)


def test_near_misses_name_the_hypothesis():
    assert "VU2ᵀ = 0 and U1U2ᵀ = 0" in told("imbalance.prop1", cases.setup(0))
    assert "U1ᵀU1 = VᵀV" in told("imbalance.balanced", cases.setup(0))
    assert "weight decay" in told("imbalance.thm1", cases.decaying(0))
    assert "c is positive" in told("imbalance.thm1", cases.balanced(0))
    assert "at most 1" in told("imbalance.thm1", cases.descent(0, 0.2))
    schedule = cases.setup(0, dynamics=gb.Descent(lambda step: 0.01))
    assert "could not be computed" in told("imbalance.thm1", schedule)


def test_minibatches_end_at_least_norm_too():
    """Proposition 1 asks for no flow and no small step: labels that can be fitted are enough."""
    start = cases.projected(1)
    problem = gb.Regression(start.problem.X, start.problem.X @ start.problem.min_norm, 0.5)
    moves = gb.Descent(0.05, gb.noise.Minibatch(2))
    setup = cases.setup(1, start.params, moves, problem)
    assert judged("imbalance.prop1", setup)["theta"].verdict == "holds"
    noisy = setup.replace(problem=start.problem)
    assert "noise dies out" in told("imbalance.prop1", noisy)


ODD = {
    "one of everything": (1, 1, 1, 1),
    "no direction unseen": (2, 4, 2, 3),
    "more outputs than inputs": (3, 2, 4, 2),
    "width one": (4, 2, 2, 1),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_sizes_are_judged_or_refused_in_words(what):
    d, n, k, width = ODD[what]
    rng = np.random.default_rng(0)
    problem = gb.Regression.half_sum(rng.normal(size=(n, d)), rng.normal(size=(n, k)))
    net = gb.TwoLayer(d, k, width)
    setup = gb.Setup(problem, net, gb.init.gaussian(net, 0.5, key=1), gb.Flow())
    for name, theorem in THEOREMS.items():
        checked = theorem.check(setup)
        assert all(math.isfinite(c.margin) or not c.met for c in checked), name
        if all(c.met for c in checked) and not theorem.given:
            values = [claim.value for claim in theorem.tell(setup).claims.values()]
            # Of the start itself a bound on the loss says nothing: it is infinite there.
            assert all(np.isfinite(value).any() and not np.isnan(value).any() for value in values)


def test_zero_data_and_zero_labels():
    setup = cases.setup(0)
    empty = setup.replace(problem=gb.Regression.half_sum(np.zeros((5, 7)), np.ones((5, 2))))
    for name in ("imbalance.eq7", "imbalance.thm1", "imbalance.prop1", "imbalance.bias_law"):
        assert "not all zero" in told(name, empty)
    start = cases.projected(0)
    nothing = gb.Regression.half_sum(start.problem.X, np.zeros((5, 2)))
    predicted = told("imbalance.prop1", start.replace(problem=nothing)).claims["theta"]
    assert not predicted.value.any() and predicted.scale > 0


def test_a_start_at_a_minimum_stays_below_its_bound():
    problem, theta = cases.regression(3), cases.regression(3).min_norm
    U, s, Vt = np.linalg.svd(theta, full_matrices=False)
    params = {"W1": np.zeros((7, 8)), "W2": np.zeros((8, 2))}
    params["W1"][:, :2], params["W2"][:2] = 2 * U * s, Vt / 2
    params["W1"][:, 4:] = problem.row_space @ np.eye(3, 4)
    found = judged("imbalance.thm1", cases.setup(3, params, problem=problem))
    assert found["log size"].verdict == "holds"
    # The run ends where it starts, and of the start the bound on the loss says nothing.
    assert found["excess loss"].reason == "the bound is not finite"


@pytest.mark.slow
@pytest.mark.parametrize(
    "theorem", [t for t in imbalance.THEOREMS if t.paper_size is not None], ids=lambda t: t.id
)
def test_holds_at_the_size_of_the_paper(theorem):
    at_size = dataclasses.replace(theorem, instances=theorem.paper_size, controls=(), errata=())
    found = gb.verify(at_size, instances=1)
    assert found.exit_code == 0, str(found)
