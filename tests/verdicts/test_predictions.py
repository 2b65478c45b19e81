"""What `gb.predict` shows: by papers, best first, near misses in a line, yes or no in words."""

import re

import pytest

import gradbias as gb

PROBLEM = gb.problems.gaussian(n=5, d=10, k=3, key=1, loss="half_mean")
NET = gb.TwoLayer(10, 3, 20)
START = gb.init.orthogonal(NET, 1e-4)
PLAIN = gb.Setup(PROBLEM, NET, START, gb.Descent(0.02))
NOISY = PLAIN.replace(dynamics=gb.Descent(0.02, gb.LabelNoise(0.5)), until=gb.Until(steps=100))


@pytest.fixture(scope="module")
def told():
    return gb.predict(PLAIN)


def papers(text):
    """The first line of each paper → what stands below it."""
    parts = [part.splitlines() for part in text.split("\n\n")]
    return {part[0]: part[1:] for part in parts if not part[0].startswith("not asked")}


def test_theorems_stand_below_their_papers_with_their_titles(told):
    found = papers(str(told))
    below = found["Varre et al. (2023): On the spectral bias of two-layer linear networks"]
    assert any(re.match(r"  spectral.cor3.1 +singular values of the layers", row) for row in below)
    assert len(found) == 6  # five papers here, and one on optimisers
    assert max(map(len, str(told).splitlines())) <= 80


def test_end_points_stand_first_and_what_needs_the_run_last(told):
    for below in papers(str(told)).values():
        values = [row.split()[:3] for row in below if re.match(r" {6}(?!up to)", row)]
        from_run = [words == ["from", "the", "run"] for words in values]
        assert from_run == sorted(from_run)
    order = re.findall(r"^  (spectral\.\S+)  ", str(told), re.M)
    assert order.index("spectral.cor3.1") < order.index("spectral.nuclear")
    assert order.index("spectral.nuclear") < order.index("spectral.gd")


def test_near_misses_are_one_line_a_paper_and_all_of_them_in_full(told):
    folded = re.findall(r"^  \S+ (?:do not apply:|needs? ).*$", str(told), re.M)
    assert len(folded) == 6
    in_full = str(gb.predict(PLAIN, full=True))
    named = set(re.findall(r"(\S+) does not apply", in_full))
    assert named == {theorem.id for theorem, _ in told.near_misses}
    assert len(named) > 40
    assert len(str(told).splitlines()) < 100


def test_the_folded_line_counts_what_is_missing(told):
    missed = [failed.hypothesis.name for theorem, failed in told.near_misses
              if theorem.id.startswith("spectral.")]  # fmt: skip
    count = missed.count("there is one output")
    expected = f"{len(missed)} do not apply: {count} need one output (here 3 outputs)"
    assert expected in str(told)


def test_yes_or_no_is_said_in_words():
    told = gb.predict(NOISY, "spectral.cor3.1")
    assert told.why_not("spectral.cor3.1").endswith("needs: no noise (this setup has label noise)")
    for theorem, failed in gb.predict(NOISY).near_misses:
        words = str(failed)
        assert "(1, " not in words, (theorem.id, words)
        assert "≤ 0.5" not in words


@pytest.mark.parametrize(
    ("asked", "said"),
    [("spectrl.cor3.1", "did you mean 'spectral.cor3.1'"), ("rank1.thm1", "is about Rank1; this"),
     ("spectral.half_time", "is about Flow; this setup has Descent")],
)  # fmt: skip
def test_why_not(told, asked, said):
    assert said in told.why_not(asked)
    with pytest.raises(KeyError, match=said):
        told[asked]


def test_typing_errors_are_met_with_the_nearest_name():
    with pytest.raises(ValueError, match=r"matches 'spectrl.cor3.1'; did you mean 'spectral.cor3"):
        gb.predict(PLAIN, "spectrl.cor3.1")
    with pytest.raises(ValueError, match=r"did you mean 'which_minimum'"):
        gb.figures.make("which_minimun")
    run = gb.simulate(PLAIN.replace(until=gb.Until(steps=5)))
    verdicts = gb.compare(run, gb.predict(PLAIN, "spectral.cor*"))
    with pytest.raises(KeyError, match=r"no verdict on 'spectral.corr3.1'; did you mean"):
        verdicts["spectral.corr3.1"]
    with pytest.raises(KeyError, match=r"no verdict on 'x'; there are spectral.cor3.1"):
        verdicts["x"]


def test_a_prediction_shows_statement_value_and_expected_error(told):
    prediction = told["spectral.cor3.1"]
    for text in (repr(prediction), prediction._repr_html_()):
        assert "singular values" in text
        assert "10 values, norm 2.302" in text
        assert f"{prediction.expected_error:.1e}" in text
    assert "<math" in prediction._repr_html_()
    assert repr(told["spectral.gd"]).count("from the run: params") == 1


def test_html_is_grouped_too(told):
    page = told._repr_html_()
    assert page.count("<table>") == len(papers(str(told)))
    assert "here 3 outputs" in page
