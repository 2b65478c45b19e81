"""SGD on rank-1 nets: the law of the gap, the end that it implies, SGD's equation, Theorem 3."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theorems.rank1 import _instances, _sgd_gap, _sgd_limit, _theorem3
from gradbias.theory import alleviation_terms, balanced_sde, sde_coefficients

SIX = [(2, 0.1), (2, 1.0), (3, 0.1), (3, 1.0), (4, 0.1), (4, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", [gb.Descent(0.01), gb.Descent(0.01, gb.Minibatch(1))])
def test_the_law_of_the_gap_along_20_000_steps(dynamics):
    """Labels with noise of their own: minibatches never come to rest, and the gap keeps moving."""
    setup = _sgd_gap.short(3, dynamics, gb.Until(steps=20_000), np.linspace(0, 20_000, 11))
    noisy = np.ravel(setup.problem.labels) + 0.3
    X = np.vstack([setup.problem.X, setup.problem.X[:1] * 1.1])
    setup = setup.replace(problem=gb.Regression.mean(X, np.append(noisy, -1.0)))
    run = gb.simulate(setup)
    told = _sgd_gap.predict_grown(setup, run)
    for name, seen in _sgd_gap.measure_grown(run).items():
        assert gb.theorems.difference(told[name], gb.theorems.measured(seen)).error < 1e-12, name
    assert run.data["gap"].values[-1, 0] > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("key", [0, 1, 2])
def test_the_end_of_sgd_is_told(key):
    """Three pairs of scale and learning rate, each with an error of three per cent noticed."""
    found = gb.verify(_sgd_limit.LIMIT, instances=1, key=key)
    assert found.exit_code == 0, str(found)
    assert max(row.power for row in found if row.verdict == "holds") < 0.03


def _ensemble(setup):
    """The members with the whole step only, fewer of them."""
    ensemble = _sgd_limit.both_kinds(setup)["sgd"]
    return ensemble.build, {"part": [1], "member": range(48)}


@pytest.mark.slow
def test_the_error_of_the_told_end_falls_with_the_step():
    errors = []
    for lr in (0.016, 0.004):
        moves = gb.Descent(lr, gb.Minibatch(2))
        setup = _instances.rank1(2, 0.7, moves, until=_sgd_gap.LONG, save_at=[0])
        told = _sgd_limit.predict_limit(setup).claims["gap"].value
        gaps = []
        for key in range(5):
            build, over = _ensemble(setup.replace(key=100 + key))
            data = gb.sweep(build, over, progress=False)
            gaps.append(data["gap_end"].values[0, :, 0])
        gaps = np.concatenate(gaps) / told
        errors.append((abs(gaps.mean() - 1), gaps.std() / np.sqrt(len(gaps))))
    (coarse, wide), (fine, narrow) = errors
    assert coarse > 3 * wide  # seen above chance, so that there is something to fall
    assert fine + narrow < coarse / 2


def test_theorem_3_as_printed_is_off_and_the_gap_is_not():
    found = _theorem3.reductions(1)
    truth = np.mean(found.truth)
    assert np.mean(found.printed) > 3 * truth
    assert np.mean(found.gap) == pytest.approx(truth, rel=0.03)


@pytest.mark.slow
def test_reductions_of_the_distance_on_six_nets():
    """Depth and scale of the start; every formula over what the paths show."""
    printed, corrected = [], []
    for layers, scale in SIX:
        found = _theorem3.reductions(5, layers, scale, lr=0.001, members=12, parts=20, steps=4000)
        assert 0.97 < np.mean(found.predicted) / np.mean(found.nearer) < 1.03, (layers, scale)
        assert 0.97 < np.mean(found.gap) / np.mean(found.truth) < 1.03, (layers, scale)
        printed.append(np.mean(found.printed) / np.mean(found.truth))
        corrected.append(np.mean(found.corrected) / np.mean(found.truth))
    assert max(printed) > 10 and max(max(corrected), 1 / min(corrected)) > 1.2


# -- Theorem 3's terms -----------------------------------------------------------------------------


def decaying(d=4, saves=400):
    rng, t = np.random.default_rng(3), np.linspace(0, 3, saves)
    start, end = rng.normal(size=(2, d))
    return t, end + np.exp(-t)[:, None] * (start - end)


@pytest.mark.parametrize("depth", [1, 3, 5, float("inf")])
def test_the_alleviation_terms_in_both_clocks(depth):
    data, (t, path) = problem(3, 4), decaying()
    lam = gb.theory.depth_exponents(depth).lam
    found = alleviation_terms(data, t, path, depth, lr=0.1, batch_size=2)
    again = alleviation_terms(data, t, path, depth, lr=0.1, batch_size=2, clock="tau")
    for name in ("p", "q", "g"):
        one, other = (getattr(x, name) for x in (found, again))
        assert np.allclose(one, other, rtol=1e-12, atol=1e-12)
    # The integral by a plain loop with a projection matrix.
    total, size = np.zeros(4), np.linalg.norm(path, axis=1)
    speeds = []
    for theta, norm in zip(path, size, strict=True):
        across = np.eye(4) - np.outer(theta, theta) / norm**2
        loss = np.mean((data.X @ theta - np.ravel(data.labels)) ** 2)
        speeds.append(loss * np.trace(across @ data.X.T @ data.X) * norm ** (3 * lam - 2) * theta)
    for i in range(len(t) - 1):
        total += (t[i + 1] - t[i]) * (speeds[i] + speeds[i + 1]) / 2
    assert np.allclose(found.alpha[-1], total, rtol=1e-12)
    assert np.allclose(found.q[-1], 2 * lam * 0.1 / (3 * 2) * path[-1] @ total, rtol=1e-12)
    assert found.p[0] == pytest.approx(size[0] ** (2 - lam))
    printed = alleviation_terms(data, t, path, depth, lr=0.1, batch_size=2, form="printed")
    if depth > 1:
        assert not np.allclose(printed.q[-1], found.q[-1], rtol=0.1)
    else:  # one layer: no term at all
        assert not found.q.any() and not printed.q.any()


def test_the_alleviation_terms_answer_for_the_weight_of_the_problem():
    """w = 1/n with lr and w = 1 with lr/n are the same steps, with n times the noise in time lr."""
    data, (t, path) = problem(3, 4), decaying()
    twice = gb.Regression(data.X, data.labels, 2 / 3)
    one, two = (alleviation_terms(x, t, path, 5, lr=0.1) for x in (data, twice))
    assert np.allclose(two.g, 4 * one.g)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"t": []}, "t must increase and not be empty"),
        ({"theta": np.zeros((2, 4))}, "theta must nowhere be zero"),
        ({"theta": np.ones((3, 4))}, "theta must have shape"),
        ({"form": "right"}, "form must be one of"),
        ({"clock": "s"}, "clock must be one of"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_bad_terms_are_named(change, words):
    given = {"t": [0.0, 1.0], "theta": np.ones((2, 4)), "depth": 3, "lr": 0.1, **change}
    if change.get("t") == []:
        given["theta"] = np.ones((0, 4))
    with pytest.raises(ValueError, match=words):
        alleviation_terms(problem(3, 4), **given)


# -- SGD's equation ----------------------------------------------------------------------------


def problem(n, d, key=0):
    rng = np.random.default_rng(key)
    return gb.Regression.mean(rng.normal(size=(n, d)), rng.normal(size=n))


def point(d, pairs, width, key=0):
    rng = np.random.default_rng(key)
    shapes = {"v1": (d,), "u": (pairs, width), "v": (pairs, width)}
    return {name: rng.normal(size=shape) for name, shape in shapes.items()}


def predictor(p):
    return np.prod(np.sum(p["u"] * p["v"], axis=1)) * p["v1"]


def parameter_noise(data, p, lr, batch, noise, replace):
    """Columns of √lr·σ in the parameters, by the chain rule and every sample's own residual."""
    omega = np.sum(p["u"] * p["v"], axis=1)
    r = data.X @ predictor(p) - np.ravel(data.labels)
    n = len(r)
    if noise == "isotropic":
        K = np.mean(r * r) / (n * batch) * np.eye(n)
    else:
        factor = 1 if replace or n == 1 else (n - batch) / (n - 1)
        K = (np.diag(r * r) / n - np.outer(r, r) / n**2) / batch * factor
    values, vectors = np.linalg.eigh(K)
    kicks = 2 * np.sqrt(lr) * data.X.T @ (vectors * np.sqrt(np.maximum(values, 0)))
    ways = []
    for g in kicks.T:
        rest = [np.prod(np.delete(omega, k)) * (p["v1"] @ g) for k in range(len(omega))]
        along = np.reshape(rest, (-1, 1))
        ways.append({"v1": np.prod(omega) * g, "u": along * p["v"], "v": along * p["u"]})
    return ways


@pytest.mark.parametrize(
    "noise, replace", [("isotropic", False), ("sampling", False), ("sampling", True)]
)
@pytest.mark.parametrize("n, d, pairs, width", [(4, 6, 2, 3), (1, 1, 1, 1), (5, 2, 3, 1)])
def test_coefficients_are_those_of_the_parameters(noise, replace, n, d, pairs, width):
    """Differences of θ along every direction of the noise, by hand; mean, covariance and gap."""
    data, p, lr, batch = problem(n, d), point(d, pairs, width), 0.1, 1
    found = sde_coefficients(data, p, lr, batch, noise, replace)
    ways = parameter_noise(data, p, lr, batch, noise, replace)
    first, ito, gaps, e = [], np.zeros(d), np.zeros(pairs), 1e-3
    for way in ways:
        near, far = (
            [predictor({k: p[k] + s * m * e * way[k] for k in p}) for s in (1, -1)] for m in (1, 2)
        )
        first.append((8 * (near[0] - near[1]) - (far[0] - far[1])) / (12 * e))
        ito += (16 * sum(near) - sum(far) - 30 * predictor(p)) / (24 * e**2)
        gaps += way["v1"] @ way["v1"] - np.sum(way["u"] ** 2, axis=1)
    scale = max(1e-12, np.max(np.abs(ito)))
    assert np.allclose(found.drift_ito, ito, rtol=0, atol=1e-5 * scale)
    assert np.allclose(found.gap_drift, gaps, rtol=1e-9, atol=1e-12)
    covariance = np.asarray(first).T @ np.asarray(first)
    size = max(1e-12, np.max(np.abs(covariance)))
    assert np.allclose(found.diffusion @ found.diffusion.T, covariance, rtol=0, atol=1e-6 * size)
    velocity = np.ravel(gb.theory.theta_velocity(data, p))
    assert np.allclose(found.drift_gradient, velocity, rtol=1e-12)


def test_a_vanishing_overlap_divides_by_nothing():
    p = point(4, 2, 2)
    p["u"][0], p["v"][0] = [1.0, 0.0], [0.0, 1.0]
    assert all(np.isfinite(x).all() for x in sde_coefficients(problem(3, 4), p, 0.1, 1))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"noise": "white"}, "noise must be one of"),
        ({"batch_size": 9, "noise": "sampling"}, "batch_size must be at most the 3 samples"),
        ({"lr": -1.0}, "lr"),
        ({"params": {"v1": np.ones(4)}}, "params must have the arrays"),
    ],
)
def test_bad_input_is_named(change, words):
    given = {
        "problem": problem(3, 4),
        "params": point(4, 1, 2),
        "lr": 0.1,
        "batch_size": 1,
        **change,
    }
    with pytest.raises(ValueError, match=words):
        sde_coefficients(**given)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("layers, scale", [(2, 1e-3), (3, 1.0), (5, 30.0)])
def test_lemma_3_is_the_general_form_at_a_balanced_point(layers, scale, sign):
    data = problem(3, 4)
    start = scale * np.random.default_rng(1).normal(size=4)
    p = gb.init.balanced(gb.Rank1(4, layers, 3), start, key=2)
    p = {**p, "u": sign * p["u"]}  # opposite pairs are balanced too
    theta = predictor(p)
    one, other = (
        sde_coefficients(data, p, 0.1, 2),
        balanced_sde(data, theta, 2 * layers - 1, 0.1, 2),
    )
    for name in ("drift_gradient", "drift_ito", "diffusion"):
        assert np.allclose(getattr(one, name), getattr(other, name), rtol=1e-10), name
    assert np.allclose(one.gap_drift, other.gap_drift, rtol=1e-10)
    assert other.gap_drift > 0


def test_one_layer_has_no_term_of_ito_and_no_gap():
    data = problem(3, 4)
    p = {"v1": np.arange(1.0, 5), "u": np.zeros((0, 2)), "v": np.zeros((0, 2))}
    found, closed = sde_coefficients(data, p, 0.1, 1), balanced_sde(data, p["v1"], 1, 0.1)
    assert not found.drift_ito.any() and not closed.drift_ito.any() and found.gap_drift.size == 0
    assert np.allclose(found.drift_gradient, -np.ravel(data.gradient(p["v1"])))
    assert np.allclose(found.diffusion, closed.diffusion)
    with pytest.raises(ValueError, match="theta must not be zero"):
        balanced_sde(data, np.zeros(4), 3, 0.1)


def test_batches_divide_the_step_where_noise_is_concerned():
    data, p = problem(4, 6), point(6, 2, 3)
    one, four = (sde_coefficients(data, p, lr, b) for lr, b in ((0.1, 1), (0.4, 4)))
    assert np.allclose(one.drift_ito, four.drift_ito) and np.allclose(one.diffusion, four.diffusion)
    whole = sde_coefficients(data, p, 0.1, 4, "sampling")
    assert not whole.diffusion.any() and not whole.gap_drift.any()


def test_more_samples_than_inputs_leave_nothing_to_choose():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 4))
    data = gb.Regression.mean(X, X @ rng.normal(size=4))
    net = gb.Rank1(d=4, depth=2, width=2)
    start = gb.init.balanced(net, 0.5 * rng.normal(size=4))
    moves = gb.Descent(0.02, gb.Minibatch(2))
    setup = gb.Setup(data, net, start, moves, gb.Until(gap=1e-24, steps=50_000))
    assert all(checked.met for checked in _sgd_gap.SAME.check(setup))
    run = gb.simulate(setup)
    assert np.allclose(run.theta, data.min_norm, rtol=1e-8)
