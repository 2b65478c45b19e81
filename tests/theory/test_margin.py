"""Offsets, constants and certificates: against runs to t = e^200, LPs, and random predictors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradbias as gb

M = gb.theory.margin
G = gb.geometry


def data(seed, n=5, d=10):
    """The sheet's instances: pushed apart along a direction until all is well separated."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(n, d))
    y = np.where(np.arange(n) % 2, 1, -1)
    return (X * np.sign(X @ w)[:, None] + w) * y[:, None], y


def fast(loss="logistic", count=20, n=5):
    """Instances whose rest is below 1e-11 at t = e^200."""
    found = []
    seed = 0
    while len(found) < count:
        X, y = data(seed, n)
        problem = gb.Classification(X, y, loss)
        if M.offset(problem).exponent >= 0.13:
            found.append(problem)
        seed += 1
    return found


def flow(problem, saves, start=None, rtol=1e-13):
    net = gb.Deep([problem.d, problem.k])
    start = np.zeros((problem.d, problem.k)) if start is None else start
    until = gb.Until(log_time=saves[-1])
    dynamics = gb.Flow(clock="loss", rtol=rtol)
    return gb.simulate(gb.Setup(problem, net, {"W1": start}, dynamics, until, save_at=saves))


def test_the_offset_law():
    """20 instances, both losses, random starts: ŵ log t + w̃ on the span of the support."""
    for i, problem in enumerate([*fast(count=10), *fast("exponential", count=10)]):
        law = M.offset(problem)
        assert law.residual < 1e-12
        start = np.random.default_rng(i).normal(size=(problem.d, 1))
        run = flow(problem, np.array([200.0]), start)
        apart = run.theta - law.w_hat * 200 - law.w_tilde
        assert np.linalg.norm(law.basis.T @ apart) <= 1e-10
        log_product = problem.log_loss(run.theta) + 200  # log of t·L
        assert abs(np.expm1(log_product + 2 * np.log(law.gamma))) <= 1e-10


def test_the_exponent():
    """Of instances whose slowest rate stands alone, from log t where it has taken over."""
    tried = 0
    for problem in fast("exponential", count=30):
        law = M.offset(problem)
        if not (law.theta == np.inf and law.exponent < 0.25):
            continue
        tried += 1
        saves = np.linspace(30, 60, 4)
        run = flow(problem, saves)
        rest = run.data["theta"].values - np.multiply.outer(saves, law.w_hat) - law.w_tilde
        slope = -np.polyfit(saves, np.log(np.linalg.norm(rest @ law.basis, axis=1)), 1)[0]
        assert slope == pytest.approx(law.exponent, rel=0.02)
    assert tried >= 3


def test_the_entropy_gap_is_the_constant_of_the_slow_margin():
    problem = fast(count=1)[0]
    law = M.offset(problem)
    saves = np.array([100.0, 200.0, 400.0])
    run = flow(problem, saves)
    left = [
        (law.gamma - problem.margins(w).min() / np.linalg.norm(w)) * np.linalg.norm(w)
        for w in run.data["theta"].values
    ]
    # What is left falls as 1/log t; extrapolated from the last two it is gone.
    assert 2 * left[2] - left[1] == pytest.approx(law.entropy_gap, abs=2e-4)
    constants = M.rate_constants(problem)
    assert constants.margin == law.entropy_gap and constants.loss == law.gamma**-2
    np.testing.assert_allclose(constants.weights.sum(), 1, rtol=1e-12)
    with gb.float64():
        p = np.asarray(problem.shares(problem.X @ run.theta[:, None]))[:, 0]
    np.testing.assert_allclose(p, constants.weights, atol=1e-10)


def test_several_classes():
    tried = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        problem = gb.Classification(rng.normal(size=(4, 9)), [0, 1, 2, 0], "cross_entropy")
        law = M.offset(problem)
        if law.exponent < 0.13 or tried == 3:
            continue
        tried += 1
        run = flow(problem, np.array([200.0]), rng.normal(size=(9, 3)))
        apart = (run.theta - law.w_hat * 200 - law.w_tilde).ravel()
        assert np.linalg.norm(law.basis.T @ apart) <= 1e-10
        log_product = float(problem.log_loss(run.theta)) + 200
        assert abs(np.expm1(log_product + 2 * np.log(law.gamma))) <= 1e-10
    assert tried == 3


def test_degenerate_data_have_no_constant_offset():
    """z = (1, 0), (1, 1): w_2 grows like log log t, so that w̃ does not exist."""
    problem = gb.Classification([[1.0, 0.0], [-1.0, -1.0]], [1, -1], "exponential")
    with pytest.raises(ValueError, match=r"degenerate: sample 1 is on the margin without weight"):
        M.offset(problem)
    run = flow(problem, np.array([40.0, 320.0, 1280.0]), rtol=1e-11)
    second = run.data["theta"].values[:, 1]
    assert second[-1] - second[0] > 1  # far from a constant
    assert np.exp(second[-1]) / 1280 == pytest.approx(1, rel=0.02)


def test_equal_samples_share_a_multiplier():
    """Support vectors that depend on one another: the flow picks α, and offset knows which."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 6))
    y = np.array([1, -1, 1, -1])
    doubled = gb.Classification(np.vstack([X, X[:1]]), [*y, 1], "exponential")
    law = M.offset(doubled)
    on = law.alpha[0] > 0
    if on:
        assert law.alpha[0] == pytest.approx(law.alpha[4], rel=1e-9)
    run = flow(doubled, np.array([200.0]))
    apart = law.basis.T @ (run.theta - law.w_hat * 200 - law.w_tilde)
    assert np.linalg.norm(apart) <= 1e-10 + 10 * np.exp(-200 * law.exponent)


SOLVED = [G.L1(), G.L2(), G.Linf()]
EVERY = [*SOLVED, G.Lp(3), G.Fourier(), G.Spectral(), G.Nuclear()]


@given(seed=st.integers(0, 10**6), scale=st.sampled_from([1e-3, 1.0, 30.0, 3000.0]))
def test_any_predictor_bounds_the_best_margin(seed, scale):
    rng = np.random.default_rng(seed)
    loss = ("logistic", "exponential", "cross_entropy")[seed % 3]
    y = np.arange(5) % (3 if seed % 3 == 2 else 2)
    problem = gb.Classification(rng.normal(size=(5, 8)), y, loss)
    best = problem.max_margin().w
    theta = scale * (best / np.linalg.norm(best) + (seed % 5) * rng.normal(size=best.shape))
    for geometry in SOLVED:
        gamma = problem.max_margin(geometry).gamma
        lower, upper = M.certificate(problem, theta, geometry)
        assert lower <= gamma * (1 + 1e-9) and gamma <= upper * (1 + 1e-9)
    for geometry in EVERY:  # weak duality between two predictors, where nobody has solved it
        lower, _ = M.certificate(problem, best, geometry)
        _, upper = M.certificate(problem, theta, geometry)
        assert lower <= upper * (1 + 1e-9)


def test_the_certificate_splits_into_misalignment_and_entropy():
    rng = np.random.default_rng(0)
    problem = gb.Classification(rng.normal(size=(6, 8)), np.arange(6) % 2, "exponential")
    Z = problem.constraints
    for w in rng.normal(size=(20, 8)):
        m = Z @ w
        p = np.exp(-m) / np.exp(-m).sum()
        bounds = M.certificate(problem, w)
        size = np.linalg.norm(w)
        misaligned = (size * np.linalg.norm(Z.T @ p) - w @ Z.T @ p) / size
        split = m.min() / size + misaligned + M.entropy_gap(p) / size
        assert bounds.upper == pytest.approx(split, rel=1e-12)


def test_diagonal_margins_between_l2_and_l1():
    X, y = data(9)
    problem = gb.Classification(X, y)
    Z = problem.constraints
    for mu, norm, geometry in ((1e-4, 2, G.L2), (1e12, 1, G.L1)):
        found = M.diagonal_margin(problem, mu)
        reached = (Z @ found.w).min() / np.linalg.norm(found.w, norm)
        assert reached == pytest.approx(problem.max_margin(geometry).gamma, rel=0.03)
    for mu in (0.1, 1.0, 10.0):
        found = M.diagonal_margin(problem, mu)
        assert found.residual < 1e-8 and found.multipliers.min() >= 0

        def cost(w):
            return np.sum(w * np.arcsinh(w / 2) - np.sqrt(4 + w * w)) / 4

        for other in np.random.default_rng(0).normal(size=(200, problem.d)):
            feasible = found.w + 0.3 * other
            low = (Z @ feasible).min()
            if low > 0:
                assert cost(feasible * max(mu / low, 1)) >= cost(found.w) - 1e-7


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: M.offset(gb.Regression.mean(np.eye(2), np.ones(2))), "must be a gb.Class"),
        (lambda: M.entropy_gap([0.5, 0.6]), "of sum one"),
        (lambda: M.certificate(gb.Classification(np.eye(2), [0, 1]), np.ones(3)), "theta must"),
        (lambda: M.diagonal_margin(gb.Classification(np.eye(2), [0, 1]), -1), "mu must be"),
        (lambda: M.offset(gb.Classification([[1.0], [1.0]], [0, 1])), "not linearly separable"),
    ],
)
def test_what_cannot_be_predicted_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()
