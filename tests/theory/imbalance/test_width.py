"""Wide nets: Lemma 1, Theorem 2, the law of the bias, the infinite-width limit, other scalings."""

import functools
import math

import numpy as np
import pytest
import scipy.special
import scipy.stats

import gradbias as gb
from gradbias.theory.imbalance import (
    ChiSquareMixture,
    WideNet,
    bias_law,
    imbalance_level,
    infinite_width_limit,
    infinite_width_trace,
    invariant_residual,
    lemma1_bounds,
    ntk_rescaling,
    singular_value_tail,
    width_bound,
)
from theory.imbalance.imbalance_oracle import CASES, Case, descent, flow, relative, seen, unseen


@functools.cache
def paper_data():
    """Fig. 1: D = 400, n = 100, one output, entries of X of variance 1/D."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 400)) / 20
    theta = rng.standard_normal((400, 1)) / 20
    return gb.Regression.mean(X, X @ theta + 0.01 * rng.standard_normal((100, 1)))


# --- Lemma 1 and Theorem 2 --------------------------------------------------------------------


def test_constants_on_the_papers_own_figure():
    """Its widths do not meet the theorem's condition, printed or corrected."""
    problem = paper_data()
    U, s, _ = np.linalg.svd(problem.X, full_matrices=False)
    y_norm = np.linalg.norm(U.T @ problem.Y)
    net = WideNet(outputs=1, inputs=400, rank=100, width=10_000, alpha=0.5)
    data = (s[0] ** 2, s[-1] ** 2, y_norm)
    numbers = (net, 0.1, *data)
    corrected, printed = width_bound(*numbers), width_bound(*numbers, constant="paper")
    assert (printed.threshold, corrected.threshold) == pytest.approx((1.96e5, 1.32e5), rel=0.01)
    assert (printed.bound, corrected.bound) == pytest.approx((278, 290), rel=0.01)
    assert corrected.C == printed.C == pytest.approx(np.exp(1 + s[0] / s[-1] ** 2 * y_norm))
    assert not corrected.condition_met
    assert not printed.condition_met
    assert width_bound(net._replace(width=140_000), 0.1, *data).condition_met
    for constant, threshold in (("paper", 7.4e3), ("corrected", 8.1e3)):
        told = lemma1_bounds(net._replace(width=7_500), 0.1, constant)
        assert told.threshold == pytest.approx(threshold, rel=0.01)
        assert told.condition_met == (constant == "paper")
    slow = width_bound(net._replace(alpha=0.35), 0.1, *data)
    assert 1e12 < slow.threshold < 1e14
    spread = np.sqrt(401) + np.sqrt(2 * np.log(20))
    factor = corrected.C ** (1 / 10_000**0.3)
    assert slow.bound == pytest.approx(2 * factor * np.sqrt(101) * spread / 10_000**0.2)


def test_the_printed_power_is_that_of_the_whole_maximum():
    """α = 0.35 and nearly equal λ: 16s² decides, and its power is 1/(4α − 1) = 2.5."""
    net = WideNet(outputs=1, inputs=1, rank=1, width=100, alpha=0.35)
    spread = np.sqrt(2) + np.log(20) / 2
    printed = width_bound(net, 0.1, 1.2, 1.0, 1.0, "paper").threshold
    assert printed == pytest.approx((16 * spread**2) ** 2.5)


def test_overflow_is_a_logarithm():
    told = width_bound(WideNet(1, 4, 2, 100, 0.251), 0.1, 1e4, 1e-4, 1e3)
    assert told.bound == told.C == told.threshold == math.inf
    assert told.log_C == pytest.approx(1 + 1e9)
    assert np.isfinite([told.log_bound, told.log_threshold]).all()
    assert not told.condition_met


def gaussian(rng, D, m, h, alpha):
    scale = h**-alpha
    return {"W1": scale * rng.standard_normal((D, h)), "W2": scale * rng.standard_normal((h, m))}


@pytest.mark.parametrize("alpha", [0.5, 0.35])
def test_lemma_1_holds_and_is_not_vacuous(alpha):
    rng, D, m, r, h = np.random.default_rng(0), 6, 2, 3, 460
    problem = gb.Regression.half_sum(np.eye(D)[:r], np.zeros((r, m)))
    told, ratios = lemma1_bounds(WideNet(m, D, r, h, alpha), 0.1), []
    assert told.condition_met
    for _ in range(60):
        params = gaussian(rng, D, m, h, alpha)
        U1, V, *_ = seen(problem, params)
        ratios.append(
            (
                told.level / imbalance_level(problem, params),
                np.linalg.norm(invariant_residual(problem, params)) / told.residual,
                np.linalg.norm(U1 @ V.T) / told.product,
            )
        )
    assert np.max(ratios) <= 1
    level, residual, product = np.mean(ratios, axis=0)
    assert 0.5 < level < 0.7  # c is about 1.7 times what is promised
    assert 0.1 < residual < 0.4
    assert 0.1 < product < 0.4


def test_theorem_2_holds_and_is_not_vacuous():
    rng, (D, m, r, h) = np.random.default_rng(1), (6, 2, 3, 460)
    X = np.linalg.qr(rng.standard_normal((D, D)))[0][:r]
    problem = gb.Regression.half_sum(X, 0.5 * rng.standard_normal((r, m)))
    y_norm = np.linalg.norm(problem.Y)
    told = width_bound(WideNet(m, D, r, h, 0.5), 0.1, 1.0, 1.0, y_norm)
    assert told.condition_met
    distances = []
    for _ in range(6):
        end = flow(problem, gaussian(rng, D, m, h, 0.5), [12.0])[0]
        distances.append(np.linalg.norm(end["W1"] @ end["W2"] - X.T @ problem.Y))
    assert max(distances) <= told.bound
    assert max(distances) > 0.02 * told.bound


def test_lemma_e1_corrected_and_printed():
    """One Gaussian number leaves [−6, 8] more often than printed for t = 6, less than corrected."""
    truth = scipy.special.erfc(8 / math.sqrt(2))  # the lower end is beyond reach
    corrected, printed = singular_value_tail(1, 1, 6.0), singular_value_tail(1, 1, 6.0, "paper")
    assert corrected[:2] == printed[:2] == (-6.0, 8.0)
    assert printed.failure < truth < corrected.failure
    assert truth == pytest.approx(1.24e-15, rel=0.01)
    # both ends, and tight enough to be seen: a tall matrix
    rng, low, high, failure = np.random.default_rng(0), *singular_value_tail(40, 4, 1.0)
    values = np.linalg.svd(rng.standard_normal((2000, 40, 4)), compute_uv=False)
    outside = np.mean((values[:, -1] < low) | (values[:, 0] > high))
    assert 0 < outside < failure
    assert singular_value_tail(3, 2, 0.0).failure == 1


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"alpha": 0.25}, "alpha must be greater than 0.25, got 0.25"),
        ({"alpha": 0.6}, "alpha must be at most 0.5, got 0.6"),
        ({"delta": 1.0}, "delta must be less than 1"),
        ({"rank": 7}, "rank must be at most the 6 inputs"),
        ({"smallest": 0.0}, "smallest must be greater than 0"),
        ({"largest": 0.5}, "largest must be at least 1"),
        ({"constant": "printed"}, "constant must be one of 'corrected', 'paper'"),
        ({"width": 2.5}, "width must be a whole number"),
    ],
)
def test_bad_numbers(change, match):
    net = {"outputs": 2, "inputs": 6, "rank": 3, "width": 500, "alpha": 0.5}
    data = {"delta": 0.1, "largest": 2.0, "smallest": 1.0, "labels": 1.0}
    net |= {name: value for name, value in change.items() if name in net}
    data |= {name: value for name, value in change.items() if name not in net}
    with pytest.raises(ValueError, match=match):
        width_bound(WideNet(**net), **data)


# --- The law of the bias ----------------------------------------------------------------------


@pytest.mark.parametrize("dof", [1, 2, 3, 40, 300])
def test_chi_square_tails_keep_their_digits(dof):
    law = ChiSquareMixture([2.5, 0.0], dof)
    x = 2.5 * scipy.stats.chi2.ppf([1e-100, 1e-6, 0.1, 0.4], dof)
    np.testing.assert_allclose(law.cdf(x), scipy.stats.chi2.cdf(x / 2.5, dof), rtol=1e-11)
    x = 2.5 * scipy.stats.chi2.isf([1e-200, 1e-6, 0.1, 0.4], dof)
    np.testing.assert_allclose(law.sf(x), scipy.stats.chi2.sf(x / 2.5, dof), rtol=1e-11)
    np.testing.assert_allclose(law.quantile(law.cdf(x[2:])), x[2:], rtol=1e-10)
    np.testing.assert_allclose(
        law.quantile([1e-6, 0.9]), 2.5 * scipy.stats.chi2.ppf([1e-6, 0.9], dof)
    )


def test_mixture_of_exponentials_and_equal_weights():
    """Two degrees of freedom: a sum of exponentials, known in closed form."""
    w = np.array([1.0, 1e-3, 0.3])
    rates = 0.5 / w
    others = [np.prod([b / (b - a) for b in rates if b != a]) for a in rates]
    x = np.array([0.7, 2.6, 30.0, 400.0])
    truth = sum(c * np.exp(-a * x) for a, c in zip(rates, others, strict=True))
    law = ChiSquareMixture(w, 2)
    np.testing.assert_allclose(law.sf(x), truth, rtol=1e-12)
    np.testing.assert_allclose(law.cdf(x) + law.sf(x), 1, rtol=1e-15)
    equal = ChiSquareMixture([0.5, 0.5, 0.5], 3)
    np.testing.assert_allclose(equal.cdf(3.0), scipy.stats.chi2.cdf(6.0, 9), rtol=1e-13)
    scaled = ChiSquareMixture(1e150 * w, 2)
    np.testing.assert_allclose(scaled.sf(1e150 * x), truth, rtol=1e-12)


def test_degenerate_mixtures():
    for nothing in (ChiSquareMixture([0.0, 0.0], 3), ChiSquareMixture([1.0], 0)):
        np.testing.assert_array_equal(nothing.cdf([-1.0, 0.0, 1.0]), [0, 1, 1])
        assert nothing.mean == nothing.variance == nothing.quantile(0.5) == 0
        assert not nothing.sample(3).any()
    law = ChiSquareMixture([1.0, 1e-200], 1)
    np.testing.assert_allclose(law.cdf([0.0, 1e-310, 1e9]), [0, 0, 1], atol=1e-150)
    assert law.quantile(0.0) == 0
    with pytest.raises(ValueError, match="p must be at least 0 and less than 1"):
        law.quantile(1.0)
    with pytest.raises(ValueError, match="weights must not be negative, got -1"):
        ChiSquareMixture([-1.0], 2)


def test_bias_law_given_the_end():
    """Where a run ends does not depend on U2, and its distance is U2 times the end of V."""
    case = Case(4, 9, 2, 8, 3, weight=0.3, scale=8**-0.4)
    problem, params = case.make()
    Phi2, best = unseen(problem), np.linalg.pinv(problem.X) @ problem.Y
    rng = np.random.default_rng(0)
    ends = []
    for _ in range(2):  # other draws of U2, the same of the rest
        other = params["W1"] + Phi2 @ rng.standard_normal((6, 8))
        ends.append(flow(problem, {**params, "W1": other}, [45.0])[0])
    np.testing.assert_allclose(ends[0]["W2"], ends[1]["W2"], atol=1e-8)
    for end in ends:
        U2 = Phi2.T @ end["W1"]
        off = end["W1"] @ end["W2"] - best
        np.testing.assert_allclose(off, Phi2 @ U2 @ end["W2"], atol=1e-7)
    law = bias_law(problem, ends[0], 0.4)
    draws = case.scale * rng.standard_normal((20_000, 6, 8))
    squares = np.sum((draws @ ends[0]["W2"]) ** 2, axis=(1, 2))
    z = (squares.mean() - law.mean) / math.sqrt(law.variance / len(squares))
    assert abs(z) < 4
    assert squares.var() == pytest.approx(law.variance, rel=0.06)
    assert law.mean == pytest.approx(6 * 8**-0.8 * np.sum(ends[0]["W2"] ** 2))
    assert scipy.stats.kstest(squares[:600], law.cdf).pvalue > 1e-3
    assert scipy.stats.ks_2samp(squares, law.sample(20_000, key=1)).pvalue > 1e-3
    np.testing.assert_array_equal(law.sample(5, key=2), law.sample(5, key=2))
    wrong = bias_law(problem, ends[0], 0.5)  # the check has teeth
    assert scipy.stats.kstest(squares[:300], wrong.cdf).pvalue < 1e-9


# --- Infinite width ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["generic", "rank-deficient, own weight", "n > D, own weight"])
def test_infinite_width_is_the_flow_of_an_orthonormal_net(name):
    """m + r hidden units suffice: with orthonormal rows they start at (E, M, N) = (B, S, I)."""
    problem, _ = CASES[name].make()
    r, m = np.linalg.matrix_rank(problem.X), problem.k
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((m + r, m + r)))[0]
    Phi1 = np.linalg.svd(problem.X)[2][:r].T
    end = flow(problem, {"W1": Phi1 @ frame[:r], "W2": frame[r:].T}, [60.0])[0]
    told = infinite_width_limit(problem)
    assert told.trace == pytest.approx(np.sum(end["W2"] ** 2), rel=1e-8)
    assert told.residual < 1e-9
    assert told.distance(100) == pytest.approx(np.sqrt((problem.d - r) * told.trace / 100))
    np.testing.assert_allclose(np.linalg.norm(told.end.E), 0, atol=1e-8)
    # another unit of length for the data, with its labels: the same predictor and trace
    for scale in (1e-100, 1e100):
        other = gb.Regression.mean(scale * problem.X, scale * problem.Y)
        assert infinite_width_trace(other) == pytest.approx(told.trace, rel=1e-9)


def test_infinite_width_on_the_papers_data_and_on_none():
    told = infinite_width_limit(paper_data())
    assert told.trace == pytest.approx(1.1415, abs=5e-5)
    assert told.distance(1) == pytest.approx(18.506, abs=5e-4)
    assert infinite_width_trace(gb.Regression.mean(np.zeros((2, 3)), np.ones((2, 2)))) == 2
    assert infinite_width_trace(gb.Regression.mean(np.eye(3), np.zeros(3))) == 1
    with pytest.raises(ValueError, match="width must be greater than 0"):
        told.distance(0)
    # one direction, labels far above the data: N − M/σ² = 0 is kept, and their product is B²/σ²
    large = infinite_width_trace(gb.Regression.mean([[1e-7]], [3.0]))
    assert large == pytest.approx(3e7, rel=1e-9)
    with pytest.raises(ValueError, match=r"labels below 1e\+08 times.*got 1e\+12"):
        infinite_width_trace(gb.Regression.mean([[1e-12]], [1.0]))


def test_infinite_width_of_ill_conditioned_data():
    problem = gb.Regression.mean(np.diag([1.0, 0.07]), np.array([0.3, 0.04]))
    frame = np.eye(3)
    end = flow(problem, {"W1": frame[:2], "W2": frame[2:].T}, [3e3])[0]
    assert infinite_width_trace(problem) == pytest.approx(np.sum(end["W2"] ** 2), rel=1e-7)


# --- Other scalings ---------------------------------------------------------------------------


def test_ntk_rescaling_is_the_same_path_on_another_clock():
    """The clock is h^(2α); h^α, h^(−α) and no change at all are visibly wrong."""
    alpha, (problem, params) = 0.35, Case(3, 5, 2, 9, 3, scale=0.6).make()
    told = ntk_rescaling(params, alpha)
    assert told.time == pytest.approx(9**0.7)
    assert told.output == pytest.approx(9**-0.7)
    assert told.kappa == pytest.approx(np.sqrt(2) * 9 ** (0.5 - 0.7))
    # L̃(Ũ, Ṽ) = ½‖Y − h^(−2α) X Ũ Ṽᵀ‖² is the same problem with smaller data
    scaled = gb.Regression.half_sum(told.output * problem.X, problem.Y)
    true = flow(problem, params, [0.4])[0]
    clocks = 0.4 * told.time ** np.array([1.0, 0.5, 0.0, -0.5])
    errors = [
        relative(flow(scaled, told.params, [t])[0]["W1"] / 9**alpha, true["W1"]) for t in clocks
    ]
    assert errors[0] < 1e-9
    assert min(errors[1:]) > 1e-2
    one = descent(problem, params, 0.05, 20)
    other = descent(scaled, told.params, 0.05 * told.time, 20)
    np.testing.assert_allclose(other["W2"] / 9**alpha, one["W2"], rtol=1e-10)
