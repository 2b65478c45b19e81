"""Muon's straight lines and sign descent's escape, against runs."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import optimisers


def aligned(seed=0, r=4, d=5, h=7, k=4):
    """Whitened data, a target and layers that share its singular vectors."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(d, d)))[0][:, :r]
    V = np.linalg.qr(rng.normal(size=(k, k)))[0][:, :r]
    O = np.linalg.qr(rng.normal(size=(h, h)))[0][:, :r]  # noqa: E741
    s = np.geomspace(4, 0.3, r)
    a, b = rng.uniform(0.01, 0.2, size=(2, r))
    M = (U * s) @ V.T
    return M, {"W1": (U * a) @ O.T, "W2": (O * b) @ V.T}, (U, V, O, s, a, b)


def run(M, params, dynamics, at):
    problem = gb.Regression(np.eye(len(M)), M, 0.5)
    net = gb.TwoLayer(len(M), M.shape[1], params["W1"].shape[1])
    record = {
        "params": gb.observe.params,
        "own": gb.observe.charges(power=1, of="singular_values"),
        "squares": gb.observe.charges,
    }
    setup = gb.Setup(problem, net, params, dynamics, gb.Until(steps=at[-1]), record, save_at=at)
    return gb.simulate(setup)


def values(found, vectors):
    U, V, O, *_ = vectors  # noqa: E741
    W1, W2 = (found.data[f"params_{n}"].values for n in ("W1", "W2"))
    first = np.einsum("di,tdh,hi->ti", U, W1, O)
    return first, np.einsum("hi,thk,ki->ti", O, W2, V)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("momentum", [0.95, 0.0])
def test_straight_lines_until_the_first_mode_is_learnt(momentum):
    M, params, vectors = aligned()
    lr = 1e-3
    first = optimisers.learning_times(M, params).min()
    at = [0, 100, int(first / lr) - 1]
    found = run(M, params, gb.Muon(lr, momentum), at)
    told = optimisers.muon_singular_values(M, params, np.array(at) * lr)
    a, b = values(found, vectors)
    np.testing.assert_allclose(a, told.first, rtol=0, atol=1e-12)
    np.testing.assert_allclose(b, told.second, rtol=0, atol=1e-12)
    own = found.data["own_W1-W2"].values
    assert np.abs(own - own[0]).max() < 1e-12
    squares = found.data["squares_W1-W2"].values
    assert np.abs(squares - squares[0]).max() > 1e-3


def test_modes_are_learnt_at_their_times():
    """Within two steps, the small ones first; afterwards within a step of the target."""
    M, params, vectors = aligned(1)
    lr = 1e-3
    times = optimisers.learning_times(M, params)
    assert np.all(np.diff(times) < 0)
    steps = int(times.max() / lr) + 50
    a, b = values(run(M, params, gb.Muon(lr, 0.0), np.arange(steps)), vectors)
    reached = np.argmax(a * b >= vectors[3], axis=0) * lr
    np.testing.assert_allclose(reached, times, rtol=0, atol=2 * lr)
    assert np.all(np.abs(a[-1] * b[-1] - vectors[3]) < 5 * lr * (a[-1] + b[-1]))


@pytest.mark.slow
def test_newton_schulz_is_the_control():
    M, params, vectors = aligned()
    a, _ = values(
        run(M, params, gb.Muon(1e-3, 0.0, orthogonalise="newton_schulz"), [0, 200]), vectors
    )
    told = optimisers.muon_singular_values(M, params, [0.0, 0.2]).first
    assert np.abs(a[1] - told[1]).max() > 1e-3


def test_what_is_not_aligned_is_said():
    M, params, _ = aligned()
    rng = np.random.default_rng(0)
    bent = params["W1"] + 1e-3 * rng.normal(size=params["W1"].shape)
    with pytest.raises(ValueError, match=r"params\['W1'\] must be aligned with M, got"):
        optimisers.learning_times(M, params | {"W1": bent})
    with pytest.raises(ValueError, match="a, b > 0 and a·b < s"):
        optimisers.learning_times(M, {n: 10 * w for n, w in params.items()})
    with pytest.raises(ValueError, match="M must not be zero"):
        optimisers.learning_times(0 * M, params)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("alpha", [1e-8, 1e-2])
def test_sign_descent_leaves_a_saddle_in_bounded_time(alpha):
    """One product of two scalars, up to 0.9 of the target: time 0.95 whatever α is."""
    problem = gb.Regression([[1.0]], [[1.0]], 0.5)
    net = gb.TwoLayer(1, 1, 1)
    params = {"W1": np.array([[alpha]]), "W2": np.array([[alpha]])}
    dynamics = gb.Steepest(1e-3, gb.geometry.Linf)
    escape = optimisers.signed_escape([alpha, alpha], 0.9)
    steps = int(escape / 1e-3)
    setup = gb.Setup(problem, net, params, dynamics, gb.Until(steps=steps), save_at=[100, steps])
    found = np.ravel(gb.simulate(setup).data["theta"].values)
    told = optimisers.signed_product([alpha, alpha], np.array([0.1, steps * 1e-3]))
    np.testing.assert_allclose(found, told, rtol=1e-12)
    assert escape == pytest.approx(0.9**0.5 - alpha, rel=1e-12)


def test_a_product_of_three_escapes_together():
    assert optimisers.signed_escape([0.1, 0.2, 0.3], 1.0) > 0
    t = optimisers.signed_escape([0.1, 0.2, 0.3], 1.0)
    assert (0.1 + t) * (0.2 + t) * (0.3 + t) == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(ValueError, match="start must be numbers that are not zero"):
        optimisers.signed_product([0.0, 1.0], 0.1)
