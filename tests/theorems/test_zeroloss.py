"""After zero loss: theorems hold on fresh instances, break by their controls, show errata."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theorems.zeroloss import THEOREMS, _instances, _section_6_1, _steps, _thms_6_6_6_7
from theorem_cases import each_theorem

BY_ID = {theorem.id: theorem for theorem in THEOREMS}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("theorem", each_theorem(THEOREMS))
def test_theorem(theorem):
    found = gb.verify(theorem, instances=1, key=7)
    assert found.exit_code == 0, str(found)


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.id)
def test_it_can_be_read(theorem):
    assert "\\" not in gb.theorems.to_unicode(theorem.statement)
    assert len(theorem.title) <= 48
    assert theorem.controls


@pytest.fixture
def known():
    """The paper, for `gb.predict` and `gb.check`, whether it is registered or not."""
    mine = [theorem for theorem in THEOREMS if theorem.id not in gb.theorems.known()]
    for theorem in mine:
        gb.theorems.register(theorem)
    yield
    for theorem in mine:
        gb.theorems.unregister(theorem.id)


def test_a_finite_step_is_expected_honestly(known):
    """Half the step, a quarter of the expected error: two steps are extrapolated to none."""
    expected = []
    for lr, steps in ((2 * _steps.LR, 4000), (_steps.LR, 16_000)):  # the same time k·lr²
        setup = _steps.noisy(3, lr=lr, until=gb.Until(steps=steps), save_at=[0, steps])
        verdict = gb.check(setup, only="zeroloss.slide").verdicts["zeroloss.slide"]
        assert verdict.verdict == "holds"
        expected.append(verdict.expected)
    assert expected[0] / expected[1] == pytest.approx(4, rel=0.1)


def test_a_flow_that_stops_on_the_way_is_refused(known):
    told = gb.predict(_instances.tanh_flow(0, time=0.3), only="zeroloss.eq9")
    assert "needs: the run ends on the manifold" in told.why_not("zeroloss.eq9")


def test_minibatches_are_no_label_noise(known):
    setup = _steps.noisy(3, dynamics=gb.Descent(0.008, gb.Minibatch(1)))
    words = gb.predict(setup, only="zeroloss.*").why_not("zeroloss.slide")
    assert "needs: the noise is on the labels (this setup has" in words


def test_a_zero_in_the_start_is_a_near_miss(known):
    start = {**_instances.start(0), "u": np.zeros(_instances.D)}
    told = gb.predict(_instances.diagonal_flow(0, params=start), only="zeroloss.lemma6.*")
    assert len(told) == 0
    assert "no coordinate of u or v starts at zero (6" in told.why_not("zeroloss.lemma6.3")


def test_a_flow_that_does_not_arrive_is_refused(known):
    """Zeros in the start keep one sign; labels that need the other one are never fitted."""
    told = gb.predict(_section_6_1.wrong_signs(0), only="zeroloss.eq9")
    assert "gradient flow reaches the manifold" in told.why_not("zeroloss.eq9")


def test_dependent_gradients_are_a_near_miss_of_the_dimension(known):
    told = gb.predict(_instances.tanh_flow(0, doubled=True), only="zeroloss.dimension")
    assert "gradients of the outputs are independent" in told.why_not("zeroloss.dimension")


def test_many_parameters_are_not_differentiated_by_differences(known):
    net = gb.MLP([3, 40, 1], "tanh")
    problem = gb.problems.gaussian(n=4, d=3, k=1, key=0, loss="half_mean")
    setup = gb.Setup(problem, net, gb.init.xavier(net), gb.Flow())
    assert "at most 40 parameters" in gb.predict(setup, only="zeroloss.eq9").why_not("zeroloss.eq9")


def test_too_few_samples_for_recovery(known):
    setup = _thms_6_6_6_7.sparse_flow((6, 40, 3), "boolean", 0)
    words = gb.predict(setup, only="zeroloss.lemmaD.7").why_not("zeroloss.lemmaD.7")
    assert "there are enough samples for the sparsity" in words


def test_another_weight_is_another_noise():
    """With L = (1/n)Σ… the same label noise has twice the c, and the theorem knows."""
    setup = _steps.noisy(5)
    mean = gb.Regression.mean(setup.problem.X, setup.problem.Y)
    other = setup.replace(problem=mean, dynamics=gb.Descent(_steps.LR / 2, _steps.NOISE))
    assert _steps.strength(other) == pytest.approx(2 * _steps.strength(setup))
    np.testing.assert_allclose(
        _steps.predict_slide(other)["decay"], _steps.predict_slide(setup)["decay"], rtol=1e-12
    )
