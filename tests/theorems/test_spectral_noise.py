"""Label noise and noise alone: paths that keep what the process keeps, and the slow theorems."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theorems import spectral
from gradbias.theorems.spectral import _errata_noise, _instances_noise, _label_noise
from gradbias.theory.noise_only import (
    noise_only_lyapunov,
    noise_only_moments,
    noise_only_paths,
    noise_only_step,
)
from gradbias.theory.noise_only._paths import _stepper

SLOW = [theorem for theorem in spectral.THEOREMS if theorem.slow]


@pytest.mark.slow
@pytest.mark.parametrize("key", [0, 7, 20])
@pytest.mark.parametrize("theorem", SLOW, ids=lambda theorem: theorem.id)
def test_ensembles_agree(theorem, key):
    found = gb.verify(theorem, instances=1, key=key)
    assert found.exit_code == 0, str(found)


@pytest.mark.slow
def test_the_rank_one_law_along_20_000_steps():
    setup = _label_noise.one_direction(3, steps=20_000)
    run = gb.simulate(setup)
    told = _label_noise.predict_shrunk(setup, run)
    for name, seen in _label_noise._forms(run).items():
        assert gb.theorems.difference(told[name], gb.theorems.measured(seen)).error < 1e-12, name


# -- paths -------------------------------------------------------------------------------------


def layers(d, width, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(d, width)), rng.normal(size=width)


def joined(W, a):
    return np.concatenate([W, np.expand_dims(a, -2)], axis=-2)


def along(X, W, a, increments, h, scheme):
    """(paths, d + 1, width) after increments (steps, paths, d)."""
    move = _stepper(np.asarray(X), h, scheme)
    S = np.tile(joined(W, a), (increments.shape[1], 1, 1))
    for dB in increments:
        S = move(S, dB)
    return S


def test_boosts_keep_volumes_and_euler_does_not():
    """d + 1 columns: their volume falls by e^{−t tr A} on every path, whatever the step."""
    rng, d, t = np.random.default_rng(1), 3, 0.7
    X = rng.normal(size=(4, d))
    W, a = layers(d, d + 1)
    want = np.linalg.det(joined(W, a)) * np.exp(-t * np.sum(X * X))
    for scheme, close in (("boost", True), ("euler", False)):
        found = noise_only_paths(X, W, a, [t], 5, 0.1, scheme=scheme)
        volumes = np.linalg.det(joined(found.W, found.a))[:, 0]
        assert np.allclose(volumes, want, rtol=1e-9) == close


def test_with_one_input_boosts_are_the_solution():
    rng, h, steps = np.random.default_rng(2), 0.5, 8
    W, a = layers(1, 3)
    dB = np.sqrt(h) * rng.normal(size=(steps, 1, 1))
    end = along([[1.0]], W, a, dB, h, "boost")[0]
    first = noise_only_step([[1.0]], W, a, dB[0, 0], h)
    assert np.allclose(joined(*first), along([[1.0]], W, a, dB[:1], h, "boost")[0])
    B, t = float(dB.sum()), h * steps
    for sign in (1, -1):
        want = (W[0] + sign * a) * np.exp(sign * B - t / 2)
        assert np.allclose(end[0] + sign * end[1], want, rtol=1e-12)
    assert not np.allclose(along([[1.0]], W, a, dB, h, "euler")[0], end, rtol=0.1)


def test_the_imbalance_of_boosts_has_no_brownian_part():
    """u² − v² = e^{−t}(u₀² − v₀²) + (d − 1)·(moving average of v²), on every path (Prop 4.1b)."""
    d, h, steps = 3, 0.002, 500
    dB = np.sqrt(h) * np.random.default_rng(3).normal(size=(steps, 4, d))
    W, a = layers(d, 2)
    errors = {}
    for scheme in ("boost", "euler"):
        move, average = _stepper(np.eye(d), h, scheme), np.zeros((4, 2))
        S = np.tile(joined(W, a), (4, 1, 1))
        for increment in dB:
            before = S[:, d] ** 2
            S = move(S, increment)
            average = np.exp(-h) * average + h * np.exp(-h / 2) * (before + S[:, d] ** 2) / 2
        left = np.sum(S[:, :d] ** 2, axis=1) - S[:, d] ** 2
        right = np.exp(-h * steps) * (np.sum(W**2, axis=0) - a**2) + (d - 1) * average
        errors[scheme] = np.max(np.abs(left - right)) / np.max(np.abs(right))
    assert errors["boost"] < 5e-3 and errors["euler"] > 5 * errors["boost"]


def slope(steps, errors):
    return -np.polyfit(np.log(steps), np.log(errors), 1)[0]


@pytest.mark.parametrize("scheme", ["boost", "euler"])
def test_strong_order_is_one_half(scheme):
    """Against the same Brownian motion in 1024 boosts, root mean square over 40 paths."""
    rng, d, t, fine, counts = np.random.default_rng(4), 2, 0.5, 1024, (8, 32, 128)
    W, a = layers(d, 1)
    dB = np.sqrt(t / fine) * rng.normal(size=(fine, 40, d))
    true, errors = along(np.eye(d), W, a, dB, t / fine, "boost"), []
    for count in counts:
        coarse = dB.reshape(count, -1, 40, d).sum(axis=1)
        end = along(np.eye(d), W, a, coarse, t / count, scheme)
        errors.append(np.sqrt(np.mean(np.sum((end - true) ** 2, axis=(1, 2)))))
    assert 0.35 < slope(counts, errors) < 0.7


def mean_square(S, h, scheme, nodes=9):
    """E[SSᵀ] after one step, exactly: Gauss–Hermite nodes for the two increments."""
    x, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    nodes = np.sqrt(h) * np.stack(np.meshgrid(x, x), axis=-1).reshape(1, -1, 2)
    after = along(np.eye(2), S[:2], S[2], nodes, h, scheme)
    chances = np.outer(weights, weights).ravel()
    return np.einsum("p,pij,pkj->ik", chances, after, after)


@pytest.mark.parametrize("scheme", ["boost", "euler"])
def test_weak_order_is_one(scheme):
    """Second moments after many steps, without chance: a step is linear in SSᵀ."""
    W, a = layers(2, 2)
    want, errors, counts = noise_only_moments(np.eye(2), W, a, 1.0), [], (4, 8, 16)
    for count in counts:
        G = joined(W, a) @ joined(W, a).T
        for _ in range(count):
            G = mean_square(np.linalg.cholesky(G), 1 / count, scheme)
        errors.append(abs(G[2, 2] - want.a2) + abs(G[0, 0] - want.WWt[0, 0]))
    assert 0.8 < slope(counts, errors) < 1.3


def test_paths_have_the_moments_of_general_data():
    rng, t = np.random.default_rng(5), np.array([0.0, 0.05, 0.1])
    X, (W, a) = rng.normal(size=(3, 2)) / 1.5, layers(2, 2)
    told = noise_only_moments(X, W, a, t)
    for scheme in ("boost", "euler"):
        found = noise_only_paths(X, W, a, t, 20_000, 0.01, key=1, scheme=scheme)
        squares = np.sum(found.a**2, axis=2)
        error = squares.std(axis=0) / np.sqrt(len(squares))
        assert np.all(np.abs(squares.mean(axis=0) - told.a2) < 3.5 * error + 1e-12)
        assert abs(squares[:, 2].mean() - told.a2[0]) > 10 * error[2]  # they do move
    assert np.allclose(found.W[:, 0], W) and found.W.shape == (20_000, 3, 2, 2)


def test_odd_sizes_and_scales():
    nothing = noise_only_paths(np.zeros((1, 2)), np.ones((2, 1)), [1.0], [3.0], 2, 1.0)
    assert np.all(nothing.W == 1) and np.all(nothing.a == 1)
    assert noise_only_paths(np.eye(2), np.ones((2, 1)), [1.0], [], 3, 0.1).W.shape == (3, 0, 2, 1)
    small, large = (
        noise_only_paths(s * np.eye(2), np.ones((2, 1)), [1.0], [1 / s**2], 3, 0.01 / s**2)
        for s in (1e-70, 1e70)
    )
    assert np.allclose(small.W, large.W, rtol=1e-9)  # only s²t counts
    tiny = noise_only_paths(np.eye(2), 1e-150 * np.ones((2, 1)), [0.0], [1.0], 3, 0.1)
    assert np.all(np.isfinite(tiny.W)) and np.all(np.abs(tiny.a) < 1e-145)
    one, two = (noise_only_paths(np.eye(1), [[1.0]], [0.0], [1.0], 2, 0.1, key=k) for k in (0, 1))
    assert not np.allclose(one.W, two.W)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"t": [1.0, 0.5]}, "t must increase from 0"),
        ({"t": [-1.0]}, "t must increase from 0"),
        ({"t": 1.0}, "t must have shape"),
        ({"paths": 0}, "paths must be a whole number of at least 1"),
        ({"step": 0.0}, "step"),
        ({"scheme": "heun"}, "scheme must be one of"),
        ({"W0": np.eye(3)}, "W must have shape"),
        ({"a0": [np.nan, 0.0]}, "a "),
    ],
)
def test_bad_input_is_named(change, words):
    given = {"X": np.eye(2), "W0": np.eye(2), "a0": [0, 0], "t": [1.0], "paths": 1, "step": 0.1}
    with pytest.raises(ValueError, match=words):
        noise_only_paths(**{**given, **change})


def test_the_printed_mean_of_the_commutator_is_refuted():
    """From W = I, a = 0 it would be 0 for ever; for d = 2 it is near its limit 0.48 at t = 1."""
    found = _errata_noise.mean_commutator(0)
    assert found.printed - found.corrected > 10 * found.uncertainty
    assert found.corrected < 4 * found.uncertainty


def test_angles_close_and_the_largest_singular_value_does_not_always_grow():
    """d = 2: λ1 = 0, so about half of the paths grow; the sine falls as e^{(λ2−λ1)t}."""
    found = noise_only_paths(np.eye(2), np.eye(2), np.zeros(2), [4.0, 12.0], 200, 0.01, key=3)
    W, a = found.W, found.a
    cosine = np.abs(np.sum(W[:, :, 0] * a, axis=2))
    cosine /= np.linalg.norm(W[:, :, 0], axis=2) * np.linalg.norm(a, axis=2)
    sines = np.log(np.sqrt(1 - np.minimum(cosine, 1.0) ** 2) + 1e-16)
    rate = (sines[:, 1] - sines[:, 0]) / 8
    exponents = noise_only_lyapunov(2)
    error = rate.std() / np.sqrt(len(rate))
    assert abs(rate.mean() - (exponents[1] - exponents[0])) < 3.5 * error
    grown = np.mean(np.linalg.norm(W[:, 1], 2, axis=(1, 2)) > 1)
    assert 0.35 < grown < 0.7


# -- as a user asks ----------------------------------------------------------------------------


def test_near_misses_say_what_is_missing():
    setup = _instances_noise.training(1)
    told = gb.predict(setup, "spectral.noise.*")
    assert told["spectral.noise.slow"].value["W2"] > 0
    assert "needs: noise outweighs the gradient" in told.why_not("spectral.noise.collapse")
    few = setup.replace(dynamics=gb.Descent(0.02, gb.LabelNoise(0.5, 1)))
    assert "the noise is on all labels" in gb.predict(few, "spectral.noise.*").why_not(
        "spectral.noise.slow"
    )
