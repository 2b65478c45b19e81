"""Theorems about classification: they hold, their controls break, and users are told of them."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theorems.margin import THEOREMS
from theorem_cases import each_theorem


@pytest.mark.one_in(4)
@pytest.mark.parametrize("theorem", each_theorem(THEOREMS))
def test_theorem(theorem):
    found = gb.verify(theorem, instances=1, key=7)
    assert found.exit_code == 0, str(found)
    assert theorem.controls and "\\" not in gb.theorems.to_unicode(theorem.statement)


def linear(problem, dynamics, until, **named):
    net = gb.Deep([problem.d, problem.k])
    return gb.Setup(
        problem, net, {"W1": np.zeros((problem.d, problem.k))}, dynamics, until, **named
    )


def test_a_flow_is_told_of_its_offset():
    """By hand: two orthogonal samples of lengths a and b have the multipliers 1/a² and 1/b²."""
    problem = gb.Classification([[2.0, 0.0], [0.0, -1.0]], [1, -1], "exponential")
    setup = linear(problem, gb.Flow(clock="loss", rtol=1e-10), gb.Until(log_time=12))
    verdicts = gb.check(setup, only="margin.offset").verdicts
    found = next(v for v in verdicts if v.quantity == "multipliers")
    assert found.verdict == "holds" and found.power < 0.03
    np.testing.assert_allclose(np.ravel(found.predicted), [0.25, 1.0], rtol=1e-9)


def test_data_that_cannot_be_separated_have_no_offset():
    problem = gb.Classification([[1.0], [2.0]], [1, -1])
    setup = linear(problem, gb.Flow(), gb.Until(time=10))
    words = " ".join(str(gb.predict(setup, only="margin.offset")).split())
    assert "margin.offset needs that the data are separable" in words


def test_the_gap_is_what_is_between_the_bounds():
    """With weights that are made here, and the ℓ1 norm by hand."""
    problem = gb.problems.separable(6, 4, key=3, loss="exponential")
    w = np.random.default_rng(0).normal(size=4)
    m = problem.y * (problem.X @ w)
    p = np.exp(-m) / np.exp(-m).sum()
    pulled = (p * problem.y) @ problem.X
    width = np.abs(pulled).max() - m.min() / np.abs(w).sum()
    gap = gb.theory.margin.duality_gap(problem, w, gb.geometry.L1)
    assert gap.misalignment >= 0 and gap.entropy >= 0
    assert gap.misalignment + gap.entropy == pytest.approx(width, rel=1e-12)


@pytest.mark.parametrize(
    ("loss", "w", "words"), [("logistic", 1.0, "exponential"), ("exponential", 0.0, "zero")]
)
def test_where_the_gap_is_nothing_is_said(loss, w, words):
    problem = gb.problems.separable(6, 4, key=3, loss=loss)
    with pytest.raises(ValueError, match=words):
        gb.theory.margin.duality_gap(problem, np.full(4, w))


def test_more_data_than_a_solver_takes_in_seconds_are_not_solved_for():
    rng = np.random.default_rng(0)
    problem = gb.Classification(rng.normal(size=(2000, 5)), np.arange(2000) % 10, "cross_entropy")
    told = gb.predict(linear(problem, gb.Flow(), gb.Until(time=10)), only="margin.offset")
    assert "needs at most 5000 constraints" in " ".join(str(told).split())
    assert "constraints" not in vars(problem) and "separability" not in vars(problem)
