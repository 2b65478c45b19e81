"""Noise equilibria of linear nets: per-sample gradients, scipy on the orbit, SGD by hand."""

import itertools

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import gradbias as gb
from gradbias.theory import symmetry as ts
from gradbias.theory.symmetry import printed

RNG = np.random.default_rng(0)
D, K, H, N = 4, 3, 2, 30
X, Y = RNG.normal(size=(N, D)), RNG.normal(size=(N, K))
U, W = RNG.normal(size=(K, H)), RNG.normal(size=(H, D))
S_X = np.diag([0.5, 1.0, 1.7, 0.8])
S_EPS = np.diag([0.3, 1.2, 0.6])
V = RNG.normal(size=(K, D))
POPULATION = gb.Population(S_X, V, S_EPS)


def per_sample(U, W, X, Y, scale=1.0):
    R = X @ (U @ W).T - Y
    gU = 2 * scale * np.einsum("ni,nh->nih", R, X @ W.T)
    gW = 2 * scale * np.einsum("nh,nj->nhj", R @ U, X)
    return gU, gW


def brute_noise(U, W, X, Y, scale=1.0):
    gU, gW = (g - g.mean(axis=0) for g in per_sample(U, W, X, Y, scale))
    return np.einsum("nia,nib->ab", gU, gU) / len(X), np.einsum("naj,nbj->ab", gW, gW) / len(X)


def test_noise_is_that_of_single_samples():
    for problem, scale in ((gb.Regression.mean(X, Y), 1.0), (gb.Regression.half_sum(X, Y), N / 2)):
        found = ts.factorisation_noise(problem, U, W)
        for got, want in zip(found, brute_noise(U, W, X, Y, scale), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12 * np.abs(want).max())
    wide = gb.Regression.mean(X, Y[:, 0])  # labels as a vector, one hidden unit
    found = ts.factorisation_noise(wide, U[:1, :1], W[:1])
    np.testing.assert_allclose(found[0], brute_noise(U[:1, :1], W[:1], X, Y[:, :1])[0])


def test_noise_of_fresh_samples():
    """Gaussian fourth moments, against the noise library's exact covariance."""
    found = ts.factorisation_noise(POPULATION, U, W)
    net = gb.TwoLayer(D, K, H)
    covariance = gb.Minibatch(1).covariance(POPULATION, net, {"W1": W.T, "W2": U.T})
    first = covariance[: D * H, : D * H].reshape(D, H, D, H)
    second = covariance[D * H :, D * H :].reshape(H, K, H, K)
    np.testing.assert_allclose(found.noise_W, np.einsum("iaib->ab", first), rtol=1e-11)
    np.testing.assert_allclose(found.noise_U, np.einsum("aibi->ab", second), rtol=1e-11)


def test_the_mean_of_one_step_is_the_flow():
    """Prop 5.1 over all batches of two: κ, not κ/2, and the mean gradient beside it."""
    problem, lr, gamma = gb.Regression.mean(X[:7], Y[:7]), 0.01, 0.0
    gU, gW = per_sample(U, W, X[:7], Y[:7])
    change = np.zeros((H, H))
    for i, j in itertools.product(range(7), repeat=2):
        U2, W2 = U - lr * (gU[i] + gU[j]) / 2, W - lr * (gW[i] + gW[j]) / 2
        change += (U2.T @ U2 - W2 @ W2.T) / 49
    change = (change - (U.T @ U - W @ W.T)) / lr
    told = ts.factorisation_flow(problem, U, W, lr / 2, gamma, lr)
    np.testing.assert_allclose(told, change, rtol=1e-9)
    decay = ts.factorisation_flow(problem, U, W, 0.0, 0.1)
    np.testing.assert_allclose(decay, -0.4 * (U.T @ U - W @ W.T))


def test_rank_one_decays_exactly():
    x, y = RNG.normal(size=(2, 20))
    problem = gb.Regression.mean(x[:, None], y)
    u, w, lr = RNG.normal(size=(1, 5)), RNG.normal(size=(5, 1)), 0.05
    slopes = 2 * ((u @ w)[0, 0] * x - y) * x
    assert ts.rank_one_rate(problem, u, w, 0.3) == pytest.approx(0.3 * slopes.var(), rel=1e-12)
    M, start = u.T @ u - w @ w.T, np.sign(u[0])
    for i in RNG.integers(20, size=3000):
        g = 2 * ((u @ w)[0, 0] * x[i] - y[i]) * x[i]
        u, w = u - lr * g * w.T, w - lr * g * u.T
        np.testing.assert_allclose(u.T @ u - w @ w.T, (1 - (lr * g) ** 2) * M, atol=1e-13)
        M = u.T @ u - w @ w.T
    assert np.ptp(np.sign(u[0] * w[:, 0])) == 0  # products agree in sign …
    assert np.ptp(start) > 0  # … factors need not


def test_pair_equilibrium():
    for problem, kappa, gamma in (
        (POPULATION, 0.1, 0.0),
        (POPULATION, 0.1, 0.02),
        (gb.Regression.mean(X, Y), 0.3, 0.5),
    ):
        noise = ts.factorisation_noise(problem, U, W)
        found = ts.pair_equilibrium(U, W, *noise, kappa, gamma)
        left = kappa * noise.noise_W + 4 * gamma * U.T @ U
        right = kappa * noise.noise_U + 4 * gamma * W @ W.T
        np.testing.assert_allclose(found.P @ left @ found.P, right, atol=1e-12 * right.max())
        B = scipy.linalg.sqrtm(found.P).real
        np.testing.assert_allclose(found.UUt, U @ B @ (U @ B).T, rtol=1e-10)
        np.testing.assert_allclose(found.WtW, W.T @ np.linalg.solve(found.P, W), rtol=1e-9)
        moved = U @ B, np.linalg.solve(B, W)
        assert ts.factorisation_residual(problem, *moved, kappa, gamma) < 1e-12
        flow = ts.factorisation_flow(problem, *moved, kappa, gamma)
        assert np.abs(flow).max() < 1e-12 * np.abs(right).max()
        assert found.finite


def test_the_pair_has_the_least_noise_of_its_orbit():
    problem, kappa, gamma = gb.Regression.mean(X, Y), 0.3, 0.1

    def total(flat):
        B = flat.reshape(H, H)
        u, w = U @ B, np.linalg.solve(B, W)
        noise = sum(np.trace(n) for n in brute_noise(u, w, X, Y))
        return kappa * noise + 4 * gamma * (np.sum(u * u) + np.sum(w * w))

    best = scipy.optimize.minimize(total, np.eye(H).ravel(), method="BFGS", tol=1e-10)
    B = best.x.reshape(H, H)
    found = ts.pair_equilibrium(U, W, *ts.factorisation_noise(problem, U, W), kappa, gamma)
    np.testing.assert_allclose(found.P, B @ B.T, rtol=1e-4)


def test_wide_pairs_have_limits():
    """With more units than needed P runs away; what the factors make of it does not."""
    wide_U, wide_W = RNG.normal(size=(K, 6)), RNG.normal(size=(6, D))
    target = wide_U @ wide_W
    noise = ts.factorisation_noise(POPULATION, wide_U, wide_W)
    for kappa, gamma in ((0.2, 0.0), (0.2, 0.01)):
        found = ts.pair_equilibrium(wide_U, wide_W, *noise, kappa, gamma)
        u, w = ts.factorisation_equilibrium(POPULATION, 6, target, kappa, gamma)
        np.testing.assert_allclose(found.UUt, u @ u.T, rtol=1e-8)
        np.testing.assert_allclose(found.WtW, w.T @ w, rtol=1e-7, atol=1e-9)
        assert not found.finite and np.isnan(found.P).all()


@pytest.mark.parametrize("gamma", [0.0, 0.03])
def test_explicit_equilibria(gamma):
    turn = np.linalg.qr(RNG.normal(size=(5, 5)))[0][:K]
    for frame, width in ((None, 3), (None, 5), (turn, 5)):
        u, w = ts.factorisation_equilibrium(POPULATION, width, None, 0.1, gamma, frame)
        np.testing.assert_allclose(u @ w, V, atol=1e-12)
        assert ts.factorisation_residual(POPULATION, u, w, 0.1, gamma) < 1e-12
        if gamma:  # 2γ where γ/κ should be
            assert printed.factorisation_residual(POPULATION, u, w, gamma) > 0.01
        else:  # Eq 14
            sides = w @ S_X @ w.T / np.trace(S_X), u.T @ S_EPS @ u / np.trace(S_EPS)
            np.testing.assert_allclose(*sides, atol=1e-12)


def test_hessian_trace():
    """Second differences of the loss along every entry."""
    problem, gamma, h = gb.Regression.mean(X, Y), 0.1, 1e-3

    def loss(flat):
        u, w = flat[: K * H].reshape(K, H), flat[K * H :].reshape(H, D)
        return np.mean(np.sum((X @ (u @ w).T - Y) ** 2, axis=1)) + gamma * flat @ flat

    flat = np.concatenate([U.ravel(), W.ravel()])
    steps = h * np.eye(len(flat))
    trace = sum(loss(flat + e) + loss(flat - e) - 2 * loss(flat) for e in steps) / h**2
    assert ts.factorisation_hessian_trace(problem, U, W, gamma) == pytest.approx(trace, rel=1e-6)
    assert printed.hessian_trace(problem, U, W) < 0.55 * trace
    half = gb.Regression.half_mean(X, Y)
    assert ts.factorisation_hessian_trace(half, U, W) == pytest.approx(
        ts.factorisation_hessian_trace(problem, U, W) / 2
    )


def test_flat_or_sharp():
    """Isotropic label noise: the flattest point of the orbit; anisotropic: sharper than balance."""
    flat = gb.Population(np.eye(3), V[:, :3], np.eye(3))
    u, w = ts.factorisation_equilibrium(flat, 3)
    least = ts.factorisation_hessian_trace(flat, u, w)
    for _ in range(50):
        B = np.eye(3) + 0.3 * RNG.normal(size=(3, 3))
        assert ts.factorisation_hessian_trace(flat, u @ B, np.linalg.solve(B, w)) > least
    uneven = gb.Population(np.eye(3), np.eye(3), np.diag([0.01, 0.2, 3.0]))
    u, w = ts.factorisation_equilibrium(uneven, 3)
    balanced = ts.factorisation_hessian_trace(uneven, np.eye(3), np.eye(3))
    assert ts.factorisation_hessian_trace(uneven, u, w) > 1.05 * balanced


@pytest.mark.parametrize("width", [3, 8, 12])
def test_autoencoders(width):
    """Eq 15: narrow ones keep a residual, which moves their equilibrium."""
    d, s2 = 8, 0.25
    problem = gb.Population(np.eye(d), np.eye(d), s2 * np.eye(d))
    found = ts.autoencoder_equilibrium(d, width, s2)
    r = min(width, d)
    u, w = ts.factorisation_equilibrium(problem, width, np.diag([1.0] * r + [0.0] * (d - r)))
    assert (np.sum(u * u), np.sum(w * w)) == pytest.approx((found.norm_U, found.norm_W))
    trace = ts.factorisation_hessian_trace(problem, u, w)
    assert found.hessian_trace == pytest.approx(trace)
    assert ts.factorisation_residual(problem, u, w) < 1e-12
    start = ts.initial_hessian_trace(d, d, width, d, 1 / (d + width), 1 / (d + width))
    if width >= d:  # the paper's Xavier is half of Glorot's: below the end, by max/(sum)
        assert start / trace == pytest.approx(width / (d + width))


def test_the_example_of_the_narrow_autoencoder():
    assert ts.autoencoder_equilibrium(20, 5, 0.25).hessian_trace == pytest.approx(500)


def test_deep_equilibrium():
    for widths in ([3], [3, 3], [5, 4, 3, 7]):
        weights = ts.deep_equilibrium(V, S_X, S_EPS, widths)
        assert ts.equilibrium_residual(weights, POPULATION).max() < 1e-12
        np.testing.assert_allclose(np.linalg.multi_dot([*weights[::-1]]), V, atol=1e-12)
        wrong = printed.deep_equilibrium(V, S_X, S_EPS, widths)
        np.testing.assert_allclose(np.linalg.multi_dot([*wrong[::-1]]), V, atol=1e-12)
        assert ts.equilibrium_residual(wrong, POPULATION).max() > 0.05
        net = gb.Deep([D, *widths, K])
        params = weights.as_params(net)
        np.testing.assert_allclose(np.asarray(net.predictor(params)), V.T, atol=1e-12)
    first, *_, last = weights
    c2 = np.sum(weights[1] ** 2) / 3
    live = scipy.linalg.sqrtm(S_EPS).real @ last, first @ scipy.linalg.sqrtm(S_X).real
    norms = [np.sum(m**2) for m in live]
    assert norms == pytest.approx([c2 * np.trace(S_EPS), c2 * np.trace(S_X)])  # Eq 19
    u = ts.factorisation_equilibrium(POPULATION, 3).U
    two = ts.deep_equilibrium(V, S_X, S_EPS, [3])
    np.testing.assert_allclose(two[1] @ two[1].T, u @ u.T, atol=1e-12)
    assert ts.deep_equilibrium(V, S_X, S_EPS, [2 + 1]).as_params(gb.TwoLayer(D, K, 3))


def test_dead_blocks_are_free():
    weights = ts.deep_equilibrium(V, S_X, S_EPS, [5, 5])
    weights[1][3:, 3:] = 7.0  # unused units to unused units
    assert ts.equilibrium_residual(weights, POPULATION).max() < 1e-12
    weights[1][3, 0] = 0.1
    assert ts.equilibrium_residual(weights, POPULATION).max() > 1e-3


def test_seam_noise_is_that_of_single_samples():
    sizes = [D, 3, 2, K]
    layers = [RNG.normal(size=(b, a)) for a, b in itertools.pairwise(sizes)]
    problem = gb.Regression.mean(X, Y)
    grads = deep_gradients(layers, X, Y)
    for centred in (True, False):
        each = [g - g.mean(axis=0) * centred for g in grads]
        for i, (later, earlier) in enumerate(ts.seam_noise(layers, problem, centred)):
            want = np.einsum("nab,nac->bc", each[i + 1], each[i + 1]) / N
            np.testing.assert_allclose(later, want, rtol=1e-10, atol=1e-10)
            want = np.einsum("nab,ncb->ac", each[i], each[i]) / N
            np.testing.assert_allclose(earlier, want, rtol=1e-10, atol=1e-10)
    pair = ts.seam_noise([W, U], problem)[0]
    for got, want in zip(pair, ts.factorisation_noise(problem, U, W), strict=True):
        np.testing.assert_allclose(got, want)


def deep_gradients(layers, X, Y):
    inputs = list(itertools.accumulate(layers, lambda A, W: A @ W.T, initial=X))
    delta, grads = 2 * (inputs[-1] - Y), []
    for W, A in zip(layers[::-1], inputs[-2::-1], strict=True):
        grads.append(np.einsum("na,nb->nab", delta, A))
        delta = delta @ W
    return grads[::-1]


def test_sgd_ends_there_and_gd_does_not():
    """Fresh samples, many copies at once: the residual falls with noise only."""
    d, copies, lr, batch = 3, 20, 0.03, 4
    rng = np.random.default_rng(5)
    s_x, s_eps = np.diag([0.5, 1.0, 1.5]), np.diag([0.4, 1.0, 1.6])
    problem = gb.Population(s_x, np.eye(d), s_eps)
    start_u, start_w = rng.normal(size=(d, d)) * 0.4, rng.normal(size=(d, d)) * 1.2
    steps, ends = int(8 * ts.equilibration_time(s_x, s_eps, lr / batch) / lr), {}
    for noisy in (True, False):
        u, w = (np.repeat(m[None], copies if noisy else 1, axis=0) for m in (start_u, start_w))
        for _ in range(steps):
            if noisy:
                x = rng.normal(size=(copies, batch, d)) @ np.sqrt(s_x)
                y = x + rng.normal(size=(copies, batch, d)) @ np.sqrt(s_eps)
                r = np.einsum("cij,cbj->cbi", u @ w, x) - y
                G = np.einsum("cbi,cbj->cij", r, x) * 2 / batch
            else:
                G = 2 * (u @ w - np.eye(d)) @ s_x
            u, w = u - lr * G @ w.swapaxes(1, 2), w - lr * u.swapaxes(1, 2) @ G
        ends[noisy] = u, w
    want = ts.factorisation_equilibrium(problem, d)
    told = np.sum(want.U**2), np.sum(want.W**2)
    got = [np.mean(np.sum(m**2, axis=(1, 2))) for m in ends[True]]
    assert got == pytest.approx(told, rel=0.06)
    assert ts.factorisation_residual(problem, *(m[0] for m in ends[False])) > 0.5


def test_extreme_and_degenerate():
    tiny = gb.Regression.mean(1e-60 * X, 1e60 * Y)
    found = ts.factorisation_noise(tiny, 1e50 * U, 1e-50 * W)
    assert all(np.isfinite(n).all() for n in found)
    pair = ts.pair_equilibrium(1e50 * U, 1e-50 * W, *found)
    assert pair.finite
    one = gb.Regression.mean([[2.0]], [1.0])  # a single sample has no noise
    assert ts.factorisation_residual(one, [[1.0]], [[3.0]]) == 0
    with pytest.raises(ValueError, match="noise of the inputs"):
        ts.factorisation_equilibrium(one, 2)
    zero = ts.deep_equilibrium(np.zeros((K, D)), S_X, S_EPS, [2, 2])
    assert all(np.all(layer == 0) for layer in zero)
    np.testing.assert_array_equal(ts.deep_equilibrium(V, S_X, S_EPS, [])[0], V)


def test_bad_input():
    samples = gb.Samples(lambda f, y: (f - y) @ (f - y), X, Y)
    for call, sentence in [
        (lambda: ts.factorisation_noise(samples, U, W), "problem must be"),
        (lambda: ts.factorisation_noise(POPULATION, W, U), "U .* and W .* must fit"),
        (lambda: ts.factorisation_noise(POPULATION, W.T, W), "product of the weights"),
        (lambda: ts.factorisation_equilibrium(POPULATION, 2), "at least the rank 3"),
        (lambda: ts.deep_equilibrium(V, S_X, S_EPS, [2]), "at least the rank 3"),
        (lambda: ts.deep_equilibrium(V, 0 * S_X, S_EPS, [3]), "sigma_x must be positive"),
        (lambda: ts.equilibrium_residual([U, W], POPULATION), "weights must fit"),
        (
            lambda: ts.deep_equilibrium(V, S_X, S_EPS, [3]).as_params(gb.Deep([D, 4, K])),
            "net must be a chain",
        ),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()
