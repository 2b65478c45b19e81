"""λ*, the flow of one charge and its rates: against mpmath, scipy and simulation."""

import itertools
import subprocess
import sys

import mpmath
import numpy as np
import pytest
import scipy.optimize

from gradbias.theory import symmetry as ts
from gradbias.theory.symmetry import printed


def random_case(rng, decades=16, most=8):
    m = rng.integers(1, most + 1)
    size = lambda: 10 ** rng.uniform(-decades / 2, decades / 2, m)  # noqa: E731
    mu = np.sqrt(size()) * rng.choice([-1, 1], m)
    gamma = 10 ** rng.uniform(-6, 0) if rng.random() < 0.6 else 0.0
    return mu, size(), size(), 10 ** rng.uniform(-6, 0), gamma


def residual(lam, mu, sigma2, theta2, kappa, gamma):
    """(pull up − pull down)/(their sum), in fifty digits."""
    up = down = mpmath.mpf(0)
    for m, s, t in zip(*(map(mpmath.mpf, v) for v in (mu, sigma2, theta2)), strict=True):
        noise = kappa * abs(m) * s * mpmath.exp(-2 * mpmath.mpf(lam) * m)
        decay = 4 * gamma * abs(m) * t * mpmath.exp(2 * mpmath.mpf(lam) * m)
        up, down = (up + noise, down + decay) if m > 0 else (up + decay, down + noise)
    return float(abs(up - down) / (up + down))


def test_three_thousand_cases_over_sixteen_decades():
    rng = np.random.default_rng(0)
    cases = [random_case(rng) for _ in range(3000)]
    padded = np.zeros((3, 3000, 8))  # μ = 0 stands for no entry; κ and 4γ go into the squares
    for i, (mu, sigma2, theta2, kappa, gamma) in enumerate(cases):
        padded[:, i, : len(mu)] = mu, kappa * sigma2, 4 * gamma * theta2
    found = ts.fixed_points(*padded, 1.0, 0.25).value
    worst, finite = 0.0, np.isfinite(found)
    with mpmath.workdps(50):
        for lam, case in zip(found[finite], itertools.compress(cases, finite), strict=True):
            worst = max(worst, residual(lam, *case))
    assert worst < 1e-12
    assert finite.sum() > 2000
    for lam, (mu, *_, gamma) in zip(
        found[~finite], itertools.compress(cases, ~finite), strict=True
    ):
        assert gamma == 0 and np.ptp(np.sign(mu)) == 0 and lam == np.inf * mu[0]
    for i in range(30):
        assert float(ts.fixed_point(*cases[i])) == pytest.approx(found[i], rel=1e-9)


def test_closed_forms():
    a, b, p, q, kappa, gamma, m = 3.0, 0.2, 0.7, 5.0, 0.01, 0.003, 1.7
    pair = ts.fixed_point([m, 0.0, -m], [a, 9.0, b], [p, 9.0, q], kappa, gamma)
    exact = np.log((kappa * a + 4 * gamma * q) / (kappa * b + 4 * gamma * p)) / (4 * m)
    assert pair == pytest.approx(exact, rel=1e-14)
    scale = ts.fixed_point([1.0, 1.0], [a, b], [p, q], kappa, gamma)
    exact = np.log(kappa * (a + b) / (4 * gamma * (p + q))) / 4
    assert scale == pytest.approx(exact, rel=1e-14)
    assert ts.fixed_point([1.0, -1.0], [a, b], [p, q], 0.0, gamma) == pytest.approx(
        np.log(q / p) / 4, rel=1e-14
    )
    norm = ts.equilibrium_norm(a, p, kappa, gamma)
    assert norm**4 == pytest.approx(kappa * a * p / (4 * gamma))
    assert printed.equilibrium_norm(a, p, kappa, gamma) == pytest.approx(2**0.25 * norm)


def test_where_there_is_no_equilibrium():
    one, both, none = [1.0, 2.0], [1.0, -1.0], [0.0, 0.0]
    assert ts.fixed_point(one, [1, 1], [1, 1], 0.1) == np.inf
    assert ts.fixed_point([-1.0], [1], [1], 0.1) == -np.inf
    assert np.isnan(ts.fixed_point(both, none, [1, 2], 0.1))  # the printed Theorem D.1 says unique
    assert ts.fixed_point(both, none, [1, 2], 0.1, 0.1) == pytest.approx(np.log(2) / 4)
    assert np.isnan(ts.fixed_point(none, [1, 1], [1, 2], 0.1, 0.1))
    assert np.isnan(ts.fixed_point([], [], [], 0.1, 0.1))
    assert ts.fixed_point(both, [1.0, 0.0], [1, 2], 0.1) == np.inf
    lost = ts.fixed_point(one, [1, 1], [1, 1], 0.1)
    assert np.isnan(lost.d_sigma2).all() and np.isnan(lost.d_kappa)
    for scale in (1e-150, 1e150):
        assert ts.fixed_point(both, [scale, 1 / scale], [1, 1], 1e-3) == pytest.approx(
            np.log(scale) / 2
        )


def test_derivatives():
    case = ([1, -2, 0.5, 0, 3.0], [1, 2, 0, 1, 0.3], [0.4, 1, 0.2, 5, 0.1], 0.1, 0.03)
    here = ts.fixed_point(*case)

    def slope(which, i=None, h=1e-6):
        moved = [np.array(v, dtype=float) for v in case]
        moved[which][() if i is None else i] += h
        return (ts.fixed_point(*moved[:3], float(moved[3]), float(moved[4])) - here) / h

    for which, told in ((1, here.d_sigma2), (2, here.d_theta2)):
        np.testing.assert_allclose(told, [slope(which, i) for i in range(5)], atol=3e-6)
    assert (here.d_kappa, here.d_weight_decay) == pytest.approx((slope(3), slope(4)), rel=1e-4)


def test_many_at_once_are_the_same():
    rng = np.random.default_rng(1)
    mu, sigma2, theta2 = rng.normal(size=(4, 3, 5)), rng.random((4, 3, 5)), rng.random((4, 3, 5))
    mu[0, 0], sigma2[1, 1] = np.abs(mu[0, 0]), 0.0
    many = ts.fixed_points(mu, sigma2, theta2, 0.1, 0.0)
    for i in np.ndindex(4, 3):
        one = ts.fixed_point(mu[i], sigma2[i], theta2[i], 0.1, 0.0)
        np.testing.assert_allclose(many.value[i], float(one), rtol=1e-12)
        np.testing.assert_allclose(many.d_sigma2[i], one.d_sigma2, rtol=1e-9)
    assert many.value[0, 0] == np.inf and np.isnan(many.value[1, 1])


def test_it_is_the_least_noise_of_the_orbit():
    rng = np.random.default_rng(2)
    for _ in range(20):
        mu, sigma2, theta2, kappa, gamma = random_case(rng, decades=2)
        case = (mu, sigma2, theta2, kappa, gamma + 0.01)
        lam = ts.fixed_point(*case)
        best = scipy.optimize.minimize_scalar(
            lambda x, case=case: float(ts.orbit_potential(x, *case)),
            bracket=(lam - 1, lam + 1.5),
            options={"xtol": 1e-10},
        )
        assert best.x == pytest.approx(lam, abs=1e-6)
        grid = lam + np.linspace(-1, 1, 9)
        assert np.all(np.diff(ts.orbit_flow(grid, *case)) < 0)
        h = 1e-5
        ends = ts.orbit_potential(np.array([lam + 0.3 - h, lam + 0.3 + h]), *case)
        assert -np.diff(ends)[0] / (4 * h) == pytest.approx(
            float(ts.orbit_flow(lam + 0.3, *case)), rel=1e-6
        )


def test_the_flow_and_its_causes():
    mu, sigma2, theta2, slope2 = [1.0, -1], [3.0, 1], [2.0, 7], [0.5, 0.1]
    flow = ts.noether_flow(mu, sigma2, theta2, 0.1, 0.01, slope2, 0.2)
    assert (flow.charge, flow.decay, flow.noise) == pytest.approx((-5, 0.2, 0.2))
    assert flow.gd == pytest.approx(0.08)
    assert flow == pytest.approx(0.48)
    table = ts.flow_by_method(mu, sigma2, theta2, slope2, 0.2, 2, 0.01)
    assert list(map(float, table.values())) == pytest.approx([0.2, 0.28, 0.48, 0.4])
    assert printed.noether_flow_7(mu, sigma2, theta2, 0.1, 0.01) == pytest.approx(0.3)
    assert ts.noether_flow([1.0, 2], sigma2, theta2, 0.1) > 0  # A ⪰ 0: C never falls


def test_noise_moves_against_the_parameters():
    """Lemma B.1 on u·w, by hand."""
    u, w, lam = 1.3, -0.4, 0.6
    samples = np.array([[1.0, 2.0], [0.3, -1], [2, 0.5]])

    def sigma(u, w):
        slopes = np.array([2 * (u * w * x - y) * x for x, y in samples])
        return np.cov(np.outer(slopes, [w, u]).T, bias=True)

    moved = ts.moved_noise(sigma(u, w), np.diag([1.0, -1.0]), lam)
    np.testing.assert_allclose(moved, sigma(u * np.exp(lam), w * np.exp(-lam)), rtol=1e-12)


def test_the_lemmas_of_appendix_b():
    rng = np.random.default_rng(3)
    false3 = false4 = 0
    for _ in range(60):
        m = rng.integers(2, 6)
        mu = rng.normal(size=m) * 2
        mu[:2] = np.abs(mu[:2]) * [1, -1]
        sigma2, theta2 = np.exp(rng.normal(size=(2, m)))
        value, bound = ts.pull_bound(mu, sigma2, 0.1)
        assert value >= bound * (1 - 1e-9)
        value, bound = printed.charge_bound(mu, sigma2, theta2)
        false3 += value > bound
        value, bound = printed.rate_bound(mu, sigma2, theta2, 0.1)
        false4 += value > bound
        a, b, p, q = np.exp(rng.normal(size=4))
        low, high = ts.rescaling_rates(a, b, p, q, 0.1)
        lam = ts.fixed_point([1.0, -1.0], [a, b], [p, q], 0.1)
        gap = float(ts.orbit_charge(lam, [1.0, -1.0], [p, q])) - (p - q)
        rate = 0.1 * (a - b) / gap
        assert low * (1 - 1e-7) <= rate <= high * (1 + 1e-7)
    assert false3 > 15 and false4 > 5
    far = [printed.rate_bound([1, -2], np.exp([2 * x, -4 * x]) * [2, 1], np.exp([-2 * x, 4 * x]), 1)
           for x in (1.0, 2.0, 3.0)]  # fmt: skip
    assert abs(far[2][0]) < 0.1 * abs(far[2][1])  # no uniform rate far away


def test_the_local_rate():
    mu, sigma2, theta2 = [1.0, -2, 0.5], np.array([1, 2, 0.3]), np.array([0.4, 1, 0.2])
    case = (mu, sigma2, theta2, 0.1, 0.02)
    lam, h = ts.fixed_point(*case), 1e-5
    ends = np.array([lam - h, lam + h])
    slope = np.diff(ts.orbit_flow(ends, *case)) / np.diff(ts.orbit_charge(ends, mu, theta2))
    assert ts.local_rate(*case) == pytest.approx(-slope[0], rel=1e-8)
    assert np.isnan(ts.local_rate([1.0], [1.0], [1.0], 0.1))
    scales = ts.time_scales(5.0, ts.local_rate(*case), 0.02)
    assert scales.slow and scales.decay == 12.5 and scales.fit == 0.2
    time = ts.equilibration_time(np.diag([2.0, 0.5, 0.0]), np.eye(4), 0.01)
    assert time == pytest.approx(1 / (4 * 0.01 * 4 * 0.5))


def test_following_a_moving_equilibrium():
    """A linear pull has the error told; one that is stronger on one side has a larger one."""
    rng = np.random.default_rng(4)
    c, mu, s, dt, steps, members = 1.0, 1.0, 1.0, 0.02, 400, 40000
    plain, sided = np.full(members, 0.5), np.full(members, 0.5)
    for _ in range(steps):
        target = mu * dt + s * np.sqrt(dt) * rng.normal(size=members)
        plain = plain - c * plain * dt - target
        sided = sided - np.where(sided > 0, 25 * c, c) * sided * dt - target
    wide = 0.03
    assert np.mean(plain**2) == pytest.approx(ts.tracking_error(c, mu, s), rel=wide)
    assert np.mean(sided**2) > ts.tracking_error(c, mu, s) * 1.04
    assert np.mean(sided**2) < ts.tracking_bound(c, mu, s)
    assert ts.tracking_error(c, mu, s, 0.5, 0.0) == pytest.approx(0.25)
    assert ts.tracking_error(2.5, 1.2, 1.0) > printed.tracking_error(2.5, 1.2, 1.0)  # violated


def test_bad_input():
    good = [1.0, -1.0]
    for call, sentence in [
        (lambda: ts.fixed_point(good, good, good, 0.1), "sigma2 must not be negative"),
        (
            lambda: ts.fixed_point(good, [1, 1], [1, 1], 0.1, -1.0),
            "weight_decay must be at least 0",
        ),
        (lambda: ts.fixed_point(good, [1, 1, 1], [1, 1], 0.1), "of one size"),
        (lambda: ts.fixed_point(1.0, 1.0, 1.0, 0.1), "mu must have 1 axes"),
        (lambda: ts.fixed_point(good, [1, np.nan], [1, 1], 0.1), "sigma2 must be finite"),
        (lambda: ts.fixed_points(good, 1.0, [1, 1], 0.1), "vector over the eigenbasis"),
        (lambda: ts.noether_flow(good, [1, 1], [1, 1], 0.1, lr=0.1), "given together"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()


def test_it_is_there_without_jax():
    code = "import sys; import gradbias.theory.symmetry as ts; ts.fixed_point([1.], [1.], [1.], 1.)"
    code += "; assert not {'jax', 'equinox'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
