"""How fast: the split, the imbalance, Theorem 1, certified rates, the closed system, descent."""

import numpy as np
import pytest
import scipy.integrate

import gradbias as gb
from gradbias.theory.imbalance import (
    certificate,
    closed_state,
    closed_step,
    closed_velocity,
    flow_time,
    growth_bound,
    imbalance_drift,
    imbalance_level,
    imbalance_signature,
    imbalance_spectrum,
    least_gram,
    log_norm_bound,
    rate_bound,
    rate_ceiling,
    rate_floor,
    split,
    step_rule,
)
from theory.imbalance.imbalance_oracle import (
    CASES,
    Case,
    descent,
    error,
    excess,
    flow,
    kernel,
    relative,
    seen,
    slope,
    unseen,
)

ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
TIMES = np.array([0.0, 0.05, 0.3, 1.0, 3.0])


def level_of(U1, V):
    """c from all h eigenvalues."""
    values = np.linalg.eigvalsh(U1.T @ U1 - V.T @ V)
    h, r, m = len(values), len(U1), len(V)
    positive = max(values[h - r], 0) if r <= h else 0.0
    return positive + (max(-values[m - 1], 0) if m <= h else 0.0)


# --- The split and the imbalance --------------------------------------------------------------


@ALL
def test_split_is_what_the_data_see(case):
    problem, params = case.make()
    parts = split(problem)
    assert parts.rank == case.rank
    basis = np.concatenate([parts.Phi1, parts.Phi2], axis=1)
    np.testing.assert_allclose(basis @ basis.T, np.eye(case.D), atol=1e-14)
    np.testing.assert_allclose(problem.X @ parts.Phi2, 0, atol=1e-14)
    np.testing.assert_allclose(parts.B, (problem.X @ parts.Phi1 / parts.sigma).T @ problem.Y)
    np.testing.assert_allclose(parts.sigma, np.linalg.svd(problem.X)[1][: case.rank])
    best = np.linalg.lstsq(problem.X, problem.Y, rcond=None)[0]
    np.testing.assert_allclose(parts.min_loss, problem.loss(best), atol=1e-14)
    np.testing.assert_allclose(  # (8): the loss is ‖E‖² and what no predictor fits
        problem.loss(params["W1"] @ params["W2"]),
        parts.weight * np.sum(error(problem, params) ** 2) + parts.min_loss,
    )


def test_population_and_vector_labels():
    rng = np.random.default_rng(0)
    root, V = rng.standard_normal((2, 4)), rng.standard_normal((3, 4))
    population = gb.problems.Population(root.T @ root, V, np.eye(3), weight=0.7)
    sample = gb.Regression(root, root @ V.T, 0.7)
    params = {"W1": rng.standard_normal((4, 6)), "W2": rng.standard_normal((6, 3))}
    for f in (imbalance_level, rate_floor, growth_bound, lambda *a: rate_bound(*a, 0.3)):
        np.testing.assert_allclose(f(population, params), f(sample, params), rtol=1e-12)
    assert split(population).min_loss == pytest.approx(2.1)
    vector = gb.Regression.mean(root, root @ V[0])
    assert imbalance_level(vector, {**params, "W2": params["W2"][:, :1]}) > 0


@ALL
def test_imbalance_is_that_of_the_whole_matrix(case):
    problem, params = case.make()
    U1, V, *_ = seen(problem, params)
    whole = np.linalg.eigvalsh(U1.T @ U1 - V.T @ V)[::-1]
    values = imbalance_spectrum(problem, params)
    assert len(values) == min(case.h, case.m + case.rank)
    left_out = sorted([*values, *[0.0] * (case.h - len(values))], reverse=True)
    np.testing.assert_allclose(left_out, whole, atol=1e-13)
    assert imbalance_level(problem, params) == pytest.approx(level_of(U1, V), abs=1e-13)
    signature = imbalance_signature(problem, params)
    assert signature == (np.sum(whole > 1e-12), np.sum(whole < -1e-12))
    assert signature.positive <= case.rank
    assert signature.negative <= case.m


@ALL
def test_flow_conserves_the_imbalance_and_what_is_not_seen(case):
    problem, params = case.make()
    later = flow(problem, params, [1.0])[0]
    start, end = (imbalance_spectrum(problem, p) for p in (params, later))
    np.testing.assert_allclose(start, end, atol=1e-10)
    Phi2 = unseen(problem)
    np.testing.assert_allclose(Phi2.T @ later["W1"], Phi2.T @ params["W1"], atol=1e-10)


def test_the_level_counts_only_what_the_data_see():
    """Trap: the imbalance of the whole first layer is conserved too, and says another c."""
    problem, params = Case(2, 9, 1, 12, 2).make()
    whole = level_of(params["W1"][:2], params["W2"].T)
    U1, V, *_ = seen(problem, params)
    assert imbalance_level(problem, params) == pytest.approx(level_of(U1, V))
    assert abs(imbalance_level(problem, params) - whole) > 0.1


def test_level_of_orthogonal_aligned_and_scaled_rows():
    rng = np.random.default_rng(1)
    frame = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    problem = gb.Regression.half_sum(np.eye(3), rng.standard_normal((3, 2)))
    U1, V = (
        rng.standard_normal((3, 5)) @ frame[:, :5].T,
        rng.standard_normal((2, 3)) @ frame[:, 5:].T,
    )
    low = [np.linalg.eigvalsh(A @ A.T)[0] for A in (U1, V)]
    level = imbalance_level(problem, {"W1": U1, "W2": V.T})
    assert level == pytest.approx(sum(low))  # U1Vᵀ = 0: both terms in full
    # aligned rows: the smaller layer is used up by the larger one, which alone keeps a term
    V = rng.standard_normal((2, 3)) @ U1
    aligned = imbalance_level(problem, {"W1": U1, "W2": 0.1 * V.T})
    assert 0 < aligned <= low[0]
    assert imbalance_signature(problem, {"W1": U1, "W2": 0.1 * V.T}).negative == 0
    # 1e-150 and 1e150 are nothing special
    for scale in (1e-150, 1e150):
        scaled = {"W1": scale * U1, "W2": 0.1 * scale * V.T}
        assert imbalance_level(problem, scaled) == pytest.approx(scale**2 * aligned)


# --- Bounds on many states at once ------------------------------------------------------------


def random_states(count, seed=0):
    """U1 (r, h) and V (m, h) of odd sizes, narrow ones among them."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        m, r, h = rng.integers(1, [4, 6, 11])
        yield (
            rng.standard_normal((r, h)) * rng.lognormal(0, 1),
            rng.standard_normal((m, h)) * rng.lognormal(0, 1),
        )


def test_level_and_products_bound_the_layers():
    """c, and the product with it, bound λ_r(U1U1ᵀ) and λ_m(VVᵀ); another pairing does not."""
    rows, levels, clipped = [], [], []
    for U1, V in random_states(3000):
        (m, h), r = V.shape, len(U1)
        whole = np.linalg.eigvalsh(U1.T @ U1 - V.T @ V)
        ends = max(whole[-1], 0), max(whole[h - r], 0) if r <= h else 0.0
        ends += max(-whole[0], 0), max(-whole[m - 1], 0) if m <= h else 0.0
        sv = np.linalg.svd(U1 @ V.T, compute_uv=False)[-1]
        true = np.linalg.eigvalsh(U1 @ U1.T)[0], np.linalg.eigvalsh(V @ V.T)[0]
        size = np.sum(U1**2) + np.sum(V**2)
        rows.append((*ends, sv if m <= r else 0.0, sv if r <= m else 0.0, *true, size))
        if h >= m + r:  # Theorem 1: nothing to clip there
            clipped += [whole[h - r], -whole[m - 1]]
        if len(rows) % 20 == 0:
            problem = gb.Regression.half_sum(np.eye(r), np.zeros((r, m)))
            levels.append(imbalance_level(problem, {"W1": U1, "W2": V.T}) - ends[1] - ends[3])
    lam_1, lam_r, nu_1, nu_m, s_m, s_r, of_U1, of_V, size = np.array(rows).T
    assert np.abs(levels).max() < 1e-11
    assert min(clipped) > -1e-11
    assert ((of_U1 + of_V - lam_r - nu_m) / size).min() > -1e-14
    assert ((of_V - least_gram(nu_m, lam_1, s_m)) / size).min() > -1e-14
    assert ((of_U1 - least_gram(lam_r, nu_1, s_r)) / size).min() > -1e-14
    # swapped: λ_1 with the r-th singular value, and ν_1 with the m-th
    swapped = least_gram(nu_m, lam_1, s_r) + least_gram(lam_r, nu_1, s_m) - of_U1 - of_V
    assert np.mean(swapped / size > 1e-9) > 0.1


def test_the_product_bound_is_attained():
    """One output and a boost in the plane of the two eigenvalues: equality, at every scale."""
    for lam, nu, angle in [
        (2.0, 0.7, 0.9),
        (1e-8, 3.0, 2.0),
        (5.0, 1e-8, 0.1),
        (4e250, 1e250, 1.0),
    ]:
        a, b = np.sqrt(lam), np.sqrt(nu)
        product = (lam + nu) * np.sinh(angle) * np.cosh(angle)
        U1 = np.array([[a * np.cosh(angle), b * np.sinh(angle)]])
        V = np.array([[a * np.sinh(angle), b * np.cosh(angle)]])
        np.testing.assert_allclose(least_gram(nu, lam, product), (V @ V.T)[0, 0], rtol=1e-14)
        np.testing.assert_allclose(least_gram(lam, nu, product), (U1 @ U1.T)[0, 0], rtol=1e-14)
    np.testing.assert_array_equal(least_gram(0.0, 0.0, [0.0, 3.0]), [0.0, 3.0])
    assert least_gram(1e-9, 1.0, 0.0) == pytest.approx(1e-9, rel=1e-14)  # no cancellation


def test_certified_rates_are_below_the_kernel():
    """On random states kA ≤ kB(‖E‖) ≤ k, and k is the least eigenvalue of the whole kernel."""
    rng, ratios = np.random.default_rng(2), []
    for U1, V in random_states(60, seed=3):
        r, m = len(U1), len(V)
        sigma = np.sort(rng.uniform(0.3, 2, r))[::-1]
        # labels near the product: otherwise the second bound says no more than the first
        Y = sigma[:, None] * (U1 @ V.T) + 0.1 * rng.standard_normal((r, m))
        problem = gb.Regression(np.diag(sigma), Y, 0.8)
        params = {"W1": U1, "W2": V.T}
        told = certificate(problem, params)
        eigenvalues = np.linalg.eigvalsh(kernel(problem, params))
        size = eigenvalues[-1]
        assert told.k0 == pytest.approx(max(eigenvalues[0], 0), abs=1e-13 * size)
        assert rate_ceiling(problem, params) == pytest.approx(size)
        assert told.e0 == pytest.approx(np.linalg.norm(error(problem, params)))
        assert told.kA <= told.kB(told.e0) * (1 + 1e-12)
        assert told.kB(told.e0) <= told.k0 + 1e-13 * size
        assert told.kC(told.e0) == pytest.approx(told.k0)
        ratios.append(float(told.kB(told.e0) / told.k0) if told.k0 > 1e-9 * size else 0.0)
    assert max(ratios) > 0.9


# --- Along the flow ---------------------------------------------------------------------------


@ALL
def test_theorem_1_and_the_envelope_hold_along_the_flow(case):
    problem, params = case.make()
    path = flow(problem, params, TIMES)
    losses = np.array([excess(problem, p) for p in path])
    told = certificate(problem, params)
    slack = 1e-9 * losses[0]
    assert (losses <= rate_bound(problem, params, TIMES) + slack).all()
    assert (losses <= told.envelope(TIMES) + slack).all()
    assert (told.envelope(TIMES) <= rate_bound(problem, params, TIMES) * (1 + 1e-9) + slack).all()
    for p in path:
        e = np.linalg.norm(error(problem, p))
        assert np.linalg.eigvalsh(kernel(problem, p))[0] >= told.rate(min(e, told.e0)) - 1e-9
        norm = np.sum(p["W2"] ** 2) + np.sum(seen(problem, p)[0] ** 2)
        assert np.log(norm) <= log_norm_bound(problem, params) + 1e-9


@pytest.mark.parametrize(("scale", "wider", "time"), [(0.4, 0, 50.0), (0.4, 600, 0.2)])
def test_rates_are_not_vacuous(scale, wider, time):
    """From small starts kB is three times what Theorem 1 knows; for wide nets kC is all."""
    ratios = []
    for seed in range(9):
        m, r = 1 + seed % 3, 2 + seed % 4
        problem, params = Case(r, r + 2, m, m + r + wider, r, scale=scale, seed=seed).make()
        told = certificate(problem, params)
        end = flow(problem, params, [time])[0]
        truth = np.linalg.eigvalsh(kernel(problem, end))[0]
        rates = np.array([told.kA, told.kB(0.0), told.kC(0.0), told.asymptotic_rate])
        assert (rates <= truth * (1 + 1e-6)).all()
        assert told.restart(end).asymptotic_rate == pytest.approx(truth, rel=0.01)
        ratios.append(rates / truth)
    kA, kB, kC, asymptotic = np.median(ratios, axis=0)
    if wider:
        assert asymptotic >= kC > max(0.95, kB)
    else:
        assert asymptotic > max(0.3, 3 * kA)
        assert kC < kB


def test_the_three_cases_of_the_papers_second_figure():
    """D = 400, r = 100, h = 500: the product is the same, the imbalance sets the speed."""
    rng = np.random.default_rng(0)
    right = np.linalg.qr(rng.standard_normal((400, 100)))[0]
    X = np.linalg.qr(rng.standard_normal((100, 100)))[0] @ right.T
    problem = gb.Regression.mean(X, X @ rng.standard_normal(400) / 20)
    U, V = rng.standard_normal((400, 500)), rng.standard_normal((500, 1))
    cases = {(0.1, 0.1): (5.3, 6.5), (0.5, 0.02): (35.0, 43.0), (0.05, 0.2): (17.0, 22.0)}
    for (of_U, of_V), (low, high) in cases.items():
        told = certificate(problem, {"W1": of_U * U, "W2": of_V * V})
        assert low < told.c < high
        assert told.kA == pytest.approx(2 / 100 * told.c)
        assert told.c < told.kB(0.0) * 50 < 1.01 * told.c < 1.01 * told.k0 * 50


def test_the_envelope_is_its_integral():
    problem, params = Case(3, 4, 2, 8, 3, weight=0.4, scale=0.8, seed=5).make()
    told = certificate(problem, params)

    def time_to(e):
        x = np.linspace(np.log(e), np.log(told.e0), 20001)
        return scipy.integrate.simpson(1 / told.rate(np.exp(x)), x=x)

    for fraction in (0.7, 0.1, 1e-4):
        e = fraction * told.e0
        bound = told.envelope(time_to(e)) / (0.4 * e**2)
        assert 1 - 1e-6 <= bound < 1.02
    np.testing.assert_allclose(told.envelope(0.0), excess(problem, params))


def test_balanced_nets_have_a_rate_once_they_are_past_the_saddle():
    rng = np.random.default_rng(3)
    problem = gb.Regression.half_sum(np.eye(3), rng.standard_normal((3, 1)))
    size = np.linalg.norm(problem.Y)
    w = 0.8 * problem.Y
    root = np.sqrt(np.linalg.norm(w))
    params = {"W1": w / root @ [[1.0, 0.0]], "W2": root * np.array([[1.0], [0.0]])}
    told = certificate(problem, params)
    assert told.c == told.kA == 0
    assert told.kB(0.0) == pytest.approx(size)  # |B|: the true rate
    assert told.asymptotic_rate == pytest.approx(size)
    assert growth_bound(problem, params) == log_norm_bound(problem, params) == np.inf
    lazy = certificate(problem, {"W1": 1e-3 * params["W1"], "W2": -1e-3 * params["W2"]})
    assert lazy.asymptotic_rate == 0  # nothing is promised from near the saddle at zero
    np.testing.assert_allclose(lazy.envelope([1e9]) / lazy.envelope(0.0), 1, rtol=0.01)


# --- The closed system and descent ------------------------------------------------------------


@ALL
def test_closed_system_is_the_flow_and_the_descent_of_the_net(case):
    problem, params = case.make()
    lr = 0.05
    after = descent(problem, params, lr, 1)
    told = closed_step(problem, closed_state(problem, params), lr)
    for got, true in zip(told, closed_state(problem, after), strict=True):
        np.testing.assert_allclose(got, true, atol=1e-12)
    # the velocity: a central difference along the gradient's own direction
    tiny = 1e-5
    first, second = slope(problem, params["W1"], params["W2"])
    ahead, behind = (
        closed_state(problem, {"W1": params["W1"] - s * first, "W2": params["W2"] - s * second})
        for s in (tiny, -tiny)
    )
    rates = closed_velocity(problem, closed_state(problem, params))
    for got, a, b in zip(rates, ahead, behind, strict=True):
        np.testing.assert_allclose(got, (a - b) / (2 * tiny), atol=1e-6 * np.abs(got).max())


@ALL
def test_descent_moves_the_imbalance_by_the_square_of_the_step(case):
    problem, params = case.make()
    after = descent(problem, params, 0.1, 1)
    grams = []
    for p in (params, after):
        U1, V, *_ = seen(problem, p)
        grams.append(U1.T @ U1 - V.T @ V)
    drift = imbalance_drift(problem, params, 0.1)
    np.testing.assert_allclose(drift, grams[1] - grams[0], atol=1e-12)
    # the whole of it: no part is lost in the projection on the row space
    np.testing.assert_allclose(imbalance_drift(problem, params, 0.2), 4 * drift, atol=1e-13)


def breaks(problem, params, lr):
    """Does Theorem 1's bound break along 80 steps of descent?"""
    bound = rate_bound(problem, params, flow_time(problem, lr, np.arange(80)).own)
    for limit in bound:
        loss = excess(problem, params)
        if loss > limit * (1 + 1e-9) + 1e-20:
            return True
        params = descent(problem, params, lr, 1)
    return False


def test_bounds_may_be_used_for_descent_with_certified_steps():
    rng = np.random.default_rng(0)
    problem = gb.Regression.half_sum(np.eye(20), rng.standard_normal((20, 1)))
    params = {"W1": rng.standard_normal((20, 60)), "W2": rng.standard_normal((60, 1))}
    top = rate_ceiling(problem, params)
    rule = step_rule(problem, params, 0.3 / top)
    assert rule.step == pytest.approx(0.3)
    assert rule.level == pytest.approx(imbalance_level(problem, params))
    assert rule.certified == (rule.largest <= 1)
    assert not step_rule(problem, params, 1.9 / top).certified
    assert [breaks(problem, params, step / top) for step in (0.3, 1.0, 1.9)] == [False, False, True]


def test_a_small_step_at_the_start_is_not_enough():
    """Small nets: the kernel grows out of the rule, which the bound on it foresees."""
    certified, broken = 0, 0
    for seed in range(12):
        m, r, scale = 1 + seed % 3, 1 + seed % 4, [0.1, 3.0][seed % 2]
        problem, params = Case(r, r + 1, m, m + r + 20, r, scale=scale, seed=seed).make()
        lr = 0.5 / rate_ceiling(problem, params)
        rule, broke = step_rule(problem, params, lr), breaks(problem, params, lr)
        assert rule.step == pytest.approx(0.5)
        assert not (rule.certified and broke)
        certified, broken = certified + rule.certified, broken + broke
        later = flow(problem, params, [1 / scale**2])[0]
        top = np.linalg.eigvalsh(kernel(problem, later))[-1]
        assert top <= certificate(problem, params).ceiling * (1 + 1e-9)
    assert certified >= 4
    assert broken >= 2


def test_steps_and_times():
    """Footnote 2: with the mean loss t = 2·lr·k/n on the half sum; n/2 times it is absurd."""
    problem, params = Case(6, 7, 1, 12, 6, scale=0.7).make()
    mean = gb.Regression.mean(problem.X, problem.Y)
    lr, steps = 1e-3, 3000
    clock = flow_time(mean, lr, steps)
    assert (clock.own, clock.half_sum) == pytest.approx((3.0, 1.0))
    end = descent(mean, params, lr, steps)
    assert relative(end["W1"], flow(mean, params, [clock.own])[0]["W1"]) < 1e-3
    assert relative(end["W1"], flow(problem, params, [clock.half_sum])[0]["W1"]) < 1e-3
    loss = excess(problem, end)
    assert loss <= rate_bound(problem, params, clock.half_sum)
    assert loss > 10 * rate_bound(problem, params, lr * steps * 6 / 2)
    np.testing.assert_allclose(
        rate_bound(mean, params, clock.own) * 6 / 2, rate_bound(problem, params, clock.half_sum)
    )


# --- Odd input --------------------------------------------------------------------------------


def test_odd_input_is_answered_with_a_sentence():
    problem, params = CASES["generic"].make()
    zero = gb.Regression.mean(np.zeros((2, 6)), np.ones((2, 2)))
    assert split(zero).rank == 0
    assert split(zero).Phi2.shape == (6, 6)
    assert len(imbalance_spectrum(zero, params)) == 2
    with pytest.raises(ValueError, match="rank 0 has no rate"):
        rate_bound(zero, params, 1.0)
    with pytest.raises(ValueError, match=r"problem must be a Regression.*got Samples"):
        split(gb.problems.Samples(lambda f, y: (f - y) ** 2, np.eye(2), np.ones(2)))
    with pytest.raises(ValueError, match="dict with W1 and W2.*got \\['u'\\]"):
        imbalance_level(problem, {"u": 1.0})
    with pytest.raises(ValueError, match=r"params\['W2'\] must have shape \(7, 2\)"):
        imbalance_level(problem, {**params, "W2": params["W2"].T})
    with pytest.raises(ValueError, match="must be finite, got nan"):
        imbalance_level(problem, {**params, "W2": np.nan * params["W2"]})
    with pytest.raises(ValueError, match=r"imbalance_level would leave the range of float64.*1e40"):
        imbalance_level(problem, {**params, "W1": 1e200 * params["W1"]})
    with pytest.raises(ValueError, match="rates and errors within the range of float64, got inf"):
        certificate(problem, {**params, "W1": 1e200 * params["W1"]})
    with pytest.raises(ValueError, match="t must not be negative"):
        rate_bound(problem, params, -1.0)
    with pytest.raises(ValueError, match="e must not be negative"):
        certificate(problem, params).kB(-1.0)
    with pytest.raises(ValueError, match=r"N must have shape \(2, 2\)"):
        closed_step(problem, (np.ones((3, 2)), np.eye(3), np.eye(3)), 0.1)


def test_the_level_of_layers_whose_products_leave_float64():
    """W1·W2 and its error are beyond 1e308 beside these labels; the level, of W1ᵀW1, is not."""
    problem, params = CASES["generic"].make()
    far = gb.Regression(2.0**300 * problem.X, problem.Y, problem.weight)
    large = {name: 2.0**505 * value for name, value in params.items()}
    level = imbalance_level(problem, params)
    assert level > 1
    assert imbalance_level(far, large) == pytest.approx(2.0**1010 * level, rel=1e-12)


def test_zero_weights_and_perfect_fits():
    problem, params = CASES["generic"].make()
    zeros = {name: 0 * value for name, value in params.items()}
    told = certificate(problem, zeros)  # a stationary point: nothing is promised
    assert told.c == told.kA == told.k0 == told.asymptotic_rate == 0
    np.testing.assert_allclose(told.envelope([0.0, 1e6]), excess(problem, zeros), rtol=1e-12)
    assert log_norm_bound(problem, zeros) == -np.inf
    fitted = gb.Regression.half_sum(np.eye(6), params["W1"] @ params["W2"])
    assert certificate(fitted, params).envelope([0.0, 1.0]) == pytest.approx([0.0, 0.0], abs=1e-25)
    assert growth_bound(fitted, params) < 1e-12
