"""The noise-only process: moments and exponents against an exact splitting in plain NumPy."""

import itertools

import mpmath
import numpy as np
import pytest
import scipy.optimize

from gradbias.theory.noise_only import (
    commutator_moments,
    commutator_size,
    label_noise_rank_one_limit,
    label_noise_sde_scale,
    moment_exponent,
    noise_only_lyapunov,
    noise_only_moments,
)


def boosts(S, h, steps, rng):
    """Strang splitting of dw = a dB, da = w·dB for frames S (replicas, d + 1, m), rows (w; a).

    A step is a boost of ℝ^{d,1} along dB between two halves of the Itô drift −½diag(1, …, 1, d).
    """
    d = S.shape[1] - 1
    half = np.exp(-h / 4 * np.array([1.0] * d + [float(d)]))[:, None]
    S = S.copy()
    for _ in range(steps):
        S *= half
        dB = np.sqrt(h) * rng.standard_normal((len(S), d))
        size = np.linalg.norm(dB, axis=1)
        u = (dB / size[:, None])[:, :, None]
        along, a = np.sum(u * S[:, :d], axis=1), S[:, d].copy()
        cosh, sinh = np.cosh(size)[:, None], np.sinh(size)[:, None]
        S[:, :d] += u * ((cosh - 1) * along + sinh * a)[:, None, :]
        S[:, d] = sinh * along + cosh * a
        S *= half
    return S


def z_score(samples, want):
    return (samples.mean() - want) / (samples.std() / np.sqrt(len(samples)))


def test_moments_and_commutators_of_isotropic_data():
    """Against 40 000 paths; t is short, because the tails are heavy."""
    rng, d, t = np.random.default_rng(0), 3, 0.15
    W0, a0 = rng.standard_normal((d, 2)), rng.standard_normal(2)
    S = boosts(np.tile(np.vstack([W0, a0]), (40_000, 1, 1)), 0.005, 30, rng)
    W, a = S[:, :d], S[:, d]
    moments = noise_only_moments(np.eye(d), W0, a0, t)
    assert abs(z_score(np.sum(a**2, axis=1), moments.a2)) < 3.5
    for i, j in [(0, 0), (0, 1), (2, 2)]:
        assert abs(z_score(np.sum(W[:, i] * W[:, j], axis=1), moments.WWt[i, j])) < 3.5
    P, Q = commutator_moments(W0, a0, t)
    e = W[:, :, 0] * a[:, None, 1] - W[:, :, 1] * a[:, None, 0]
    c = np.linalg.det(W.transpose(0, 2, 1) @ W)
    assert abs(z_score(np.sum(e**2, axis=1), P[0, 1])) < 3.5
    assert abs(z_score(c, Q[0, 1])) < 3.5
    assert abs(z_score(np.sum(e**2, axis=1), commutator_moments(W0, a0, 0.0).P[0, 1])) > 20


def test_moments_for_general_data_are_those_of_many_small_steps():
    """One step of the discrete process: P⁺ = P + hAq, q⁺ = q + h tr(AP), extrapolated in h."""
    rng = np.random.default_rng(1)
    X, W0, a0, t = rng.standard_normal((4, 3)), rng.standard_normal((3, 2)), np.ones(2), 0.3
    A, ends = X.T @ X, []
    for steps in (2000, 4000, 8000, 16000):
        P, q, h = W0 @ W0.T, float(a0 @ a0), t / steps
        for _ in range(steps):
            P, q = P + h * A * q, q + h * np.sum(A * P)
        ends.append(np.append(P.ravel(), q))
    while len(ends) > 1:
        order = 5 - len(ends)
        pairs = itertools.pairwise(ends)
        ends = [(2**order * fine - rough) / (2**order - 1) for rough, fine in pairs]
    got = noise_only_moments(X, W0, a0, np.array([0.0, t]))
    np.testing.assert_allclose(np.append(got.WWt[1].ravel(), got.a2[1]), ends[0], rtol=1e-9)
    np.testing.assert_allclose(got.WWt[0], W0 @ W0.T)
    assert got.a2.shape == (2,) and got.WWt.shape == (2, 3, 3)


def test_the_closed_forms_of_the_sheet():
    t, d = np.linspace(0, 3, 4), 5
    one = noise_only_moments(np.eye(d), np.eye(d)[:, :1], [0.5], t)
    np.testing.assert_allclose(one.a2, 0.25 * np.cosh(d**0.5 * t) + np.sinh(d**0.5 * t) / d**0.5)
    P = commutator_moments(np.eye(d), np.zeros(d), t).P
    np.testing.assert_allclose(P[:, 0, 3], 2 * np.exp(-t) * np.sinh(3 * t) / 3, rtol=1e-12)
    np.testing.assert_allclose(P[:, 2, 2], 0, atol=1e-12)
    still = noise_only_moments(np.zeros((2, 3)), np.ones((3, 1)), [2.0], t)
    np.testing.assert_array_equal(still.a2, 4)
    np.testing.assert_array_equal(still.WWt, np.ones((4, 3, 3)))
    assert noise_only_moments(np.eye(1), [[1.0]], [1.0], 1e6).a2 == np.inf
    with pytest.raises(ValueError, match=r"W0 must have shape \(2, any\)"):
        noise_only_moments(np.eye(2), np.eye(3), np.ones(3), 1)
    with pytest.raises(ValueError, match="t must be at least 0"):
        commutator_moments(np.eye(2), np.ones(2), -1)


# -- exponents ---------------------------------------------------------------------------------


def partial_sum(d, p):
    """Λ_p by quadrature in 30 digits."""
    with mpmath.workdps(30):

        def weight(x):
            power = mpmath.mpf(d - 1 - p) / 2
            return x ** (p - 1) * (1 + x * x) ** power * mpmath.exp(-mpmath.mpf(d - 1) * x * x / 2)

        points = [0, 0.5, 1, 1.5, 2, 3, 14]
        mean = mpmath.quad(lambda x: x * x * weight(x), points) / mpmath.quad(weight, points)
        return float(((d - 1) * mean - p) / 2)


def test_exponents_of_the_sheet():
    np.testing.assert_allclose(noise_only_lyapunov(1), [-0.5, -0.5])
    np.testing.assert_allclose(noise_only_lyapunov(2), [0, -0.2374, -1.7626], atol=5e-5)
    want = [0.1418, -0.1418, -0.2372, -2.7628]
    np.testing.assert_allclose(noise_only_lyapunov(3), want, atol=5e-5)
    np.testing.assert_allclose(noise_only_lyapunov(4)[:2], [0.25, -0.0689], atol=5e-5)
    np.testing.assert_allclose(noise_only_lyapunov(5)[:3], [0.3410, -0.0077, -0.1338], atol=5e-5)
    np.testing.assert_allclose(noise_only_lyapunov(6)[:2], [0.4211, 0.0462], atol=5e-5)
    assert np.sum(noise_only_lyapunov(10) > 0) == 3
    assert abs(noise_only_lyapunov(2)[0]) < 1e-14  # critical
    assert abs(np.sum(noise_only_lyapunov(3)[:2])) < 1e-14


@pytest.mark.parametrize("d", [2, 7, 50])
def test_exponents_against_many_digits(d):
    exponents = noise_only_lyapunov(d)
    assert exponents.shape == (d + 1,) and np.all(np.diff(exponents) < 0)
    np.testing.assert_allclose(exponents.sum(), -d, rtol=1e-14)
    for p in {1, (d + 1) // 2, d}:
        assert abs(exponents[:p].sum() - partial_sum(d, p)) < 1e-13 * d


def qr_exponents(d, replicas, burn, time, seed=0):
    """Means and standard errors of all exponents, from one QR every 20 steps with h·d = 0.0075."""
    rng, h, block = np.random.default_rng(seed), 0.0075 / d, 20
    S, sums = np.tile(np.eye(d + 1), (replicas, 1, 1)), np.zeros((replicas, d + 1))
    first, blocks = int(burn / (h * block)), int((burn + time) / (h * block))
    for i in range(blocks):
        S, R = np.linalg.qr(boosts(S, h, block, rng))
        if i >= first:
            sums += np.log(np.abs(np.diagonal(R, axis1=1, axis2=2)))
    rates = sums / ((blocks - first) * h * block)
    return rates.mean(axis=0), rates.std(axis=0) / np.sqrt(replicas)


def test_exponents_against_a_short_qr_simulation():
    mean, error = qr_exponents(3, 300, burn=6, time=6)
    assert np.all(np.abs(mean - noise_only_lyapunov(3)) < 3.5 * error)
    assert np.all(error < 0.025)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 4, 5, 6])
def test_exponents_against_a_long_qr_simulation(d):
    mean, error = qr_exponents(d, 400, burn=20, time=20)
    assert np.all(np.abs(mean - noise_only_lyapunov(d)) < 3 * error)


@pytest.mark.parametrize("d", [2, 3, 10])
def test_moment_exponents(d):
    """Even moments in closed form, the slope at 0, and convexity in q."""
    assert abs(moment_exponent(d, 1, 2) - np.sqrt(d)) < 1e-12
    assert abs(moment_exponent(d, 2, 2) - (np.sqrt(2 * d - 1) - 1)) < 1e-12
    sums = np.cumsum(noise_only_lyapunov(d))
    for p in (1, 2, d):
        assert abs(moment_exponent(d, p, 0.0)) < 1e-13
        h = 1e-4
        slope = (moment_exponent(d, p, h) - moment_exponent(d, p, -h)) / (2 * h)
        assert abs(slope - sums[p - 1]) < 1e-8
        powers = [moment_exponent(d, p, q) for q in (-1.0, 0.5, 2.0)]
        assert powers[1] < (powers[0] + powers[2]) / 2
    # (E|w|⁴, E|w|²a², Ea⁴): d|w|² = 2a w·dB + d a² dt, da² = 2a w·dB + |w|² dt.
    generator = np.array([[0, 2 * d + 4, 0], [1, 4, d], [0, 6, 0]], dtype=float)
    fourth = np.max(np.linalg.eigvals(generator).real)
    assert abs(moment_exponent(d, 1, 4) - fourth) < 1e-11 * fourth


def test_moment_exponents_of_the_sheet():
    """The growth of the mean commutator: constant for d = 2, then 0.253 and 0.616."""
    got = [moment_exponent(d, 2, 1) for d in (2, 3, 5)]
    np.testing.assert_allclose(got, [0, 0.253, 0.616], atol=5e-4)
    assert np.isfinite(moment_exponent(50, 50, 30.0))
    with pytest.raises(ValueError, match="p must be at most d = 2"):
        moment_exponent(2, 3, 1)
    with pytest.raises(ValueError, match="d must be a whole number of at least 2"):
        moment_exponent(1, 1, 1)


# -- label noise -------------------------------------------------------------------------------


def test_label_noise_clocks():
    """Discrete noise of k steps has the moments of the unit process at time k·(lr·δ)²."""
    lr, delta, steps = 0.05, 0.6, 4000
    scale = label_noise_sde_scale(lr, delta)
    np.testing.assert_allclose(scale, [np.sqrt(lr) * delta, lr * delta, (lr * delta) ** 2])
    P, q = np.eye(3), 0.2
    for _ in range(steps):
        P, q = P + scale.step**2 * q * np.eye(3), q + scale.step**2 * np.trace(P)
    W0, a0 = np.eye(3), np.array([np.sqrt(0.2), 0.0, 0.0])
    moments = noise_only_moments(np.eye(3), W0, a0, steps * scale.unit_time)
    np.testing.assert_allclose(moments.a2, q, rtol=1e-2)
    wrong = noise_only_moments(np.eye(3), W0, a0, steps * scale.step).a2
    assert wrong > 1e10 * q


@pytest.mark.parametrize("k", [1, 2])
def test_the_flattest_layers_of_a_predictor(k):
    """tr H over all W2 with W1 = βW2⁻¹ by a foreign optimiser."""
    rng = np.random.default_rng(k)
    X, beta = rng.standard_normal((6, 4)), rng.standard_normal((4, k))
    A = X.T @ X

    def trace(flat):
        W2 = flat.reshape(k, k)
        W1 = beta @ np.linalg.inv(W2)
        return k * np.sum(W1 * (A @ W1)) + np.trace(A) * np.sum(W2**2)

    found = scipy.optimize.minimize(trace, np.eye(k).ravel(), options={"gtol": 1e-9})
    limit = label_noise_rank_one_limit(beta, X)
    np.testing.assert_allclose(limit.trace, found.fun, rtol=1e-10)
    W2 = found.x.reshape(k, k)
    W1 = beta @ np.linalg.inv(W2)
    np.testing.assert_allclose(limit.N, W2.T @ W2, atol=1e-5)
    np.testing.assert_allclose(limit.M, W1 @ W1.T, atol=1e-5)
    np.testing.assert_allclose(limit.W1, np.linalg.svd(W1, compute_uv=False), rtol=1e-5)
    np.testing.assert_allclose(limit.W2, np.linalg.svd(W2, compute_uv=False), rtol=1e-5)


def test_the_rank_one_limit_of_orthogonal_data():
    beta = np.array([2.0, 0, 0, 0, 0])
    limit = label_noise_rank_one_limit(beta, np.eye(5))
    np.testing.assert_allclose(limit.W1, [5**0.25 * 2**0.5])
    np.testing.assert_allclose(limit.W1, 2.1147, atol=5e-5)
    np.testing.assert_allclose(limit.W2, [2**0.5 / 5**0.25])
    nothing = label_noise_rank_one_limit(np.zeros(3), np.eye(3))
    assert nothing.trace == 0 and not nothing.M.any() and nothing.W1.shape == (0,)
    part = label_noise_rank_one_limit([1.0, 7.0], [[3.0, 0.0]])
    np.testing.assert_allclose(part.M, [[1.0, 0], [0, 0]])
    with pytest.raises(ValueError, match="X must not be zero"):
        label_noise_rank_one_limit(np.ones(2), np.zeros((1, 2)))


def test_the_mean_size_of_a_commutator_against_paths_and_its_limit():
    """Against 20 000 paths at two times; and the constant of d = 2, in closed form."""
    rng = np.random.default_rng(5)
    for d in (2, 5):
        W0, a0 = rng.standard_normal((d, 3)), rng.standard_normal(3)
        S = np.tile(np.vstack([W0, a0]), (20_000, 1, 1))
        for t in (0.3, 0.6):
            S = boosts(S, 0.01, 30, rng)
            W, a = S[:, :d], S[:, d]
            for k, m in itertools.combinations(range(3), 2):
                e = W[:, :, k] * a[:, m, None] - W[:, :, m] * a[:, k, None]
                size = np.linalg.norm(e, axis=1)
                assert abs(z_score(size, commutator_size(W0, a0, t)[k, m])) < 4
    # |det W0| sqrt(pi/2)/(1 + sqrt(e pi/2) erfc(1/sqrt 2)) from a = 0
    half = mpmath.sqrt(mpmath.pi / 2)
    tail = 1 + mpmath.sqrt(mpmath.e) * half * mpmath.erfc(1 / mpmath.sqrt(2))
    limit = float(half / tail)
    W0 = np.array([[1.5, 0.2], [-0.3, 0.8]])
    late = commutator_size(W0, np.zeros(2), 15.0)[0, 1]
    assert late == pytest.approx(limit * abs(np.linalg.det(W0)), rel=1e-4)
    # for d = 3 and 5 it grows at the rate of the first moment of areas
    for d in (3, 5):
        early, later = (commutator_size(np.eye(d), np.zeros(d), t)[0, 1] for t in (6.0, 8.0))
        assert np.log(later / early) / 2 == pytest.approx(moment_exponent(d, 2, 1.0), abs=2e-3)


def test_the_mean_size_starts_where_it_is_and_refuses_one_input():
    W0, a0 = np.arange(6.0).reshape(2, 3), np.array([1.0, -1.0, 0.5])
    e = W0[:, :, None] * a0 - W0[:, None, :] * a0[:, None]
    np.testing.assert_allclose(commutator_size(W0, a0, 0.0), np.linalg.norm(e, axis=0))
    np.testing.assert_allclose(commutator_size(W0, a0, 1e-9), np.linalg.norm(e, axis=0), atol=1e-3)
    assert not commutator_size(0 * W0, 0 * a0, 1.0).any()
    with pytest.raises(ValueError, match="inputs"):
        commutator_size(W0[:1], a0, 1.0)
