"""One small theorem through predict, compare, check, verify and its author's check."""

import dataclasses

import numpy as np
import pytest

import gradbias as gb
from gradbias import theorems as th
from theorems import toy


@pytest.fixture
def known():
    theorem = gb.register(toy.theorem())
    yield theorem
    th.unregister(theorem.id)


def test_predict_says_what_applies(known):
    told = gb.predict(toy.setup(0))
    assert np.isfinite(told["toy.frozen"].value["theta"]).all()
    assert "toy.frozen" in str(told)
    assert max(map(len, str(told).splitlines())) <= 80


def test_predict_names_the_hypothesis_that_fails(known):
    told = gb.predict(toy.setup(0, decay=0.31), only="toy.*")
    assert len(told) == 0
    assert "toy.frozen needs no weight decay" in str(told)
    in_full = str(gb.predict(toy.setup(0, decay=0.31), only="toy.*", full=True))
    assert "toy.frozen does not apply: needs: no weight decay (0.31, must be 0)" in in_full
    with pytest.raises(KeyError, match="no weight decay"):
        told["toy.frozen"]


def test_theorems_about_other_nets_are_one_line(known):
    net = gb.Rank1(d=toy.D, depth=2, width=3)
    setup = gb.Setup(
        gb.problems.gaussian(n=2, d=toy.D, key=0), net, gb.init.gaussian(net, 0.5, key=0), gb.Flow()
    )
    assert "not asked: 1 about other nets" in str(gb.predict(setup, only="toy.*"))


def test_compare_holds_and_refutes(known):
    setup = toy.setup(0)
    run = gb.simulate(setup)
    assert gb.compare(run, gb.predict(setup, "toy.*"))["toy.frozen"].verdict == "holds"
    wrong = toy.theorem(
        id="toy.wrong", predict=lambda s: {"theta": toy.predict(s)["theta"] * 1.001}
    )
    verdict = gb.compare(run, _prediction(wrong, setup))[0]
    assert verdict.verdict == "refuted"
    assert verdict.error == pytest.approx(1e-3, rel=0.1)


def _prediction(theorem, setup):
    from gradbias._verdicts.predict import Prediction

    return Prediction(theorem, setup, theorem.check(setup))


def test_what_did_not_converge_refutes_nothing(known):
    setup = toy.setup(0, until=gb.Until(gap=1e-24, time=0.3))
    verdict = gb.compare(gb.simulate(setup), gb.predict(setup, "toy.*"))["toy.frozen"]
    assert verdict.verdict == "inconclusive"
    assert "reached time" in verdict.reason


def test_an_uncertified_prediction_refutes_nothing(known):
    setup = toy.setup(0)

    def vague(setup):
        return th.Told({"theta": toy.predict(setup)["theta"] * 1.001}, residual=1e-2)

    verdict = gb.compare(gb.simulate(setup), _prediction(toy.theorem(predict=vague), setup))[0]
    assert verdict.verdict == "inconclusive"
    assert "residual is 0.01" in verdict.reason


def test_graded_hypotheses_widen_what_is_allowed(known):
    grade = th.Hypothesis("the step is small", lambda s: 2e-3, 0.1, graded=True, order="O(lr)")
    theorem = toy.theorem(
        hypotheses=[grade], predict=lambda s: {"theta": toy.predict(s)["theta"] * 1.001}
    )
    setup = toy.setup(0)
    prediction = _prediction(theorem, setup)
    assert prediction.grades == "up to O(lr): expected ≤ 2.0e-03"
    verdict = gb.compare(gb.simulate(setup), prediction)[0]
    assert verdict.verdict == "holds"
    assert verdict.expected == 2e-3


def test_a_run_without_the_observable_says_which(known):
    theorem = toy.theorem(needs={"norm": lambda problem, net, params: (params["W1"] ** 2).sum()})
    verdict = gb.compare(gb.simulate(toy.setup(0)), _prediction(theorem, toy.setup(0)))[0]
    assert verdict.verdict == "inconclusive"
    assert "norm" in verdict.reason and "record" in verdict.reason


def test_a_theorem_with_runs_of_its_own(known):
    theorem = gb.register(
        toy.theorem(
            id="toy.two",
            runs=lambda s: {"run": s, "again": s.replace(key=1)},
            measure=lambda runs: {"theta": runs["again"].theta},
        )
    )
    try:
        setup = toy.setup(0)
        run = gb.simulate(setup)
        verdict = gb.compare(run, gb.predict(setup, "toy.two"))[0]
        assert verdict.verdict == "inconclusive" and "gb.check" in verdict.reason
        assert gb.check(setup, "toy.two").verdicts[0].verdict == "holds"
    finally:
        th.unregister(theorem.id)


def test_an_ensemble_arrives_as_a_dataset(known):
    def mean(run):
        ends = run["theta_end"]
        return {"theta": th.measured(ends.mean("seed"), standard_error=ends.std("seed") / 2)}

    theorem = toy.theorem(
        runs=lambda s: th.Ensemble(lambda seed: s.replace(key=seed), {"seed": range(3)}),
        measure=mean,
    )
    assert gb.verify(theorem, instances=1).found[0].verdict == "holds"


def test_check_is_all_three(known):
    study = gb.check(toy.setup(1))
    assert study.verdicts["toy.frozen"].verdict == "holds"
    assert "toy.frozen" in str(study) and "toy.frozen" in study._repr_html_()
    assert study.verdicts.to_pandas().shape[1] == 6
    assert study.verdicts.to_xarray()["error"].size == len(study.verdicts)
    assert study.plot().get_xlabel()


def test_verify_breaks_the_control(known):
    rows = gb.verify("toy.*", instances=2).found
    assert [row.verdict for row in rows] == ["holds", "holds", "breaks"]
    assert rows[2].separation > 1e4
    assert rows[1].key == 1 and "--key 1" in rows[1].command


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"predict": lambda s: {"theta": 1.1 * toy.predict(s)["theta"]}}, 1),
        ({"controls": [th.Control("nothing at all", toy.setup)]}, 1),
        ({"instances": lambda key: toy.setup(key, until=gb.Until(gap=1e-24, time=0.3))}, 2),
        ({}, 0),
    ],
)
def test_exit_codes(change, code):
    assert gb.verify(toy.theorem(**change), instances=1).exit_code == code


def erratum(bound=False, **numbers):
    evidence = th.Evidence(**numbers)
    return th.Erratum("Eq (1)", "$a$", "$b$", "false", lambda key: evidence, bound)


@pytest.mark.parametrize(
    ("numbers", "word"),
    [
        ({"printed": 0.5, "corrected": 1e-12}, "shown"),
        ({"printed": 1e-16, "corrected": 0.0}, "not shown"),  # both right
        ({"printed": 0.5, "corrected": 0.01}, "not shown"),  # both wrong
        ({"printed": 0.3, "corrected": 0.25, "uncertainty": 1e-3}, "not shown"),
        ({"printed": 0.5, "corrected": 0.01, "tolerance": 0.05}, "shown"),
        ({"printed": 0.04, "corrected": 0.01, "tolerance": 0.05}, "not shown"),  # agrees, too
        ({"printed": 0.5, "corrected": 0.02, "uncertainty": 0.01}, "shown"),
        ({"printed": 0.5, "corrected": 0.02, "uncertainty": 0.06}, "not shown"),  # too near
        ({"printed": float("nan"), "corrected": 0.0}, "not shown"),
        ({"printed": 0.5, "corrected": float("nan")}, "not shown"),
        ({"bound": True, "printed": 1.2, "corrected": 0.9}, "shown"),
        ({"bound": True, "printed": 0.8, "corrected": 0.7}, "not shown"),
        ({"bound": True, "printed": 2.0, "corrected": 1.1}, "not shown"),
        ({"bound": True, "printed": 1.2, "corrected": 0.9, "uncertainty": 0.1}, "not shown"),
    ],
)
def test_errata_are_shown_or_not(numbers, word):
    """Apart by more than ten times what they are uncertain by, and the corrected one right."""
    theorem = toy.theorem(errata=[erratum(**numbers)], controls=())
    assert [row.verdict for row in gb.verify(theorem, instances=1)][1:] == [word]


def test_only_errors_of_a_paper_have_evidence():
    theorem = toy.theorem(errata=[th.Erratum("Eq (2)", "$a$", "$b$", "loose")], controls=())
    assert len(list(gb.verify(theorem, instances=1))) == 1
    with pytest.raises(ValueError, match="kind must be one of"):
        th.Erratum("Eq (3)", "$a$", "$b$", "numeric")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="evidence is for"):
        th.Erratum("Eq (4)", "$a$", "$b$", "reading", lambda key: th.Evidence(1.0, 0.0))


def test_authors_check_is_silent_on_a_good_theorem():
    assert gb.testing.check_theorem(toy.theorem()).ok


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"controls": ()}, "no control"),
        ({"instances": lambda key: toy.setup(0)}, "must use its key"),
        ({"instances": lambda key: toy.setup(key, decay=0.1)}, "breaks a hypothesis"),
        ({"statement": r"It is $\undefinedcommand$."}, "unknown command"),
        ({"measure": lambda runs: {"other": 1.0}}, "measures"),
        ({"nets": (gb.Rank1,)}, "not of the nets"),
    ],
)
def test_authors_check_finds(change, words):
    with pytest.raises(ValueError, match=words):
        gb.testing.check_theorem(toy.theorem(**change))


def test_ids_are_unique_and_well_formed(known):
    with pytest.raises(ValueError, match="paper.thm1"):
        toy.theorem(id="Thm 1")
    with pytest.raises(ValueError, match="no theorem matches"):
        gb.verify("nothing.*")


def test_numbers_are_shared_between_hypotheses():
    count = []
    number = th.fact(lambda setup: count.append(1) or len(count))
    setup = toy.setup(0)
    assert (number(setup), number(setup), number(toy.setup(0))) == (1, 1, 2)


def test_statement_in_other_forms():
    text = r"It is $\frac{1}{n}\|\theta\|^2 \le \sqrt{\gamma}W_1^\top$ & more."
    assert th.to_unicode(text) == "It is 1/n‖θ‖² ≤ √(γ)W₁ᵀ & more."
    page = th.to_html(text)
    assert "<math" in page and "&amp; more" in page


def test_rows_fit_eighty_columns(known):
    lines = str(gb.verify("toy.*", instances=1)).splitlines()
    assert max(map(len, lines)) <= 80
    assert dataclasses.asdict(gb.verify("toy.*", instances=1).found[0])["theorem"] == "toy.frozen"
