"""Jumps along symmetries: nothing that the net computes changes, and the noise balances."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import gradbias as gb
from gradbias import symmetry
from gradbias.numerics.balance_roots import joint_balance
from gradbias.theory import symmetry as ts

RNG = np.random.default_rng(1)
N = 30
X, Y = RNG.normal(size=(N, 4)), RNG.normal(size=(N, 2))
RELU = gb.MLP([4, 5, 4, 2], "relu")


def loss(params, x, y):
    """A ReLU net by hand."""
    for i in (1, 2):
        x = jax.nn.relu(x @ params[f"W{i}"] + params[f"b{i}"])
    return jnp.sum((x @ params["W3"] + params["b3"] - y) ** 2)


def relu_point(seed=0, scales=(4.0, 1.0, 0.25)):
    rng = np.random.default_rng(seed)
    p = {name: rng.normal(size=shape) * 0.7 for name, shape in RELU.shapes().items()}
    return {name: value * scales[int(name[1]) - 1] for name, value in p.items()}


def hand_noise(p):
    """Per-unit noise in and out of every hidden unit, from gradients by hand."""
    acts, z = [X], X
    for i in (1, 2):
        z = np.maximum(z @ p[f"W{i}"] + p[f"b{i}"], 0)
        acts.append(z)
    delta = 2 * (z @ p["W3"] + p["b3"] - Y)
    noise = {}
    for i in (3, 2, 1):
        g = np.einsum("na,nb->nab", acts[i - 1], delta)
        noise[f"W{i}"], noise[f"b{i}"] = g.var(axis=0), delta.var(axis=0)
        delta = delta @ p[f"W{i}"].T * (acts[i - 1] > 0)
    return noise


def outputs(p):
    z = X
    for i in (1, 2):
        z = np.maximum(z @ p[f"W{i}"] + p[f"b{i}"], 0)
    return z @ p["W3"] + p["b3"]


@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_relu_net(gamma):
    start, kappa = relu_point(), 0.05
    jump = symmetry.equilibrate(start, RELU.symmetries(), loss, (X, Y), kappa, gamma)
    np.testing.assert_allclose(outputs(jump.params), outputs(start), rtol=1e-12, atol=1e-12)
    assert jump.change < 1e-12
    noise, p = hand_noise(jump.params), jump.params
    for i, name in ((1, "hidden1"), (2, "hidden2")):
        decay_in = (p[f"W{i}"] ** 2).sum(axis=0) + p[f"b{i}"] ** 2
        decay_out = (p[f"W{i + 1}"] ** 2).sum(axis=1)
        up = kappa * (noise[f"W{i}"].sum(axis=0) + noise[f"b{i}"]) + 4 * gamma * decay_out
        down = kappa * noise[f"W{i + 1}"].sum(axis=1) + 4 * gamma * decay_in
        alive = jump.alive[name]
        np.testing.assert_allclose((up / down)[alive], 1.0, rtol=1e-10)
        np.testing.assert_allclose(jump.ratio_after[name][alive], 1.0, rtol=1e-10)
        assert np.abs(np.log(jump.ratio_before[name][alive])).max() > 0.5
    assert sum(a.sum() for a in jump.alive.values()) >= 7
    if gamma == 0:
        assert jump.noise_after < jump.noise_before
        assert jump.noise_after == pytest.approx(sum(v.sum() for v in noise.values()), rel=1e-12)


def test_it_does_not_matter_where_on_the_orbit_one_starts():
    start = relu_point()
    moved = start
    for family in RELU.symmetries().values():
        moved = family.move(moved, RNG.normal(size=family.charge(start).shape))
    ends = [symmetry.equilibrate(p, RELU.symmetries(), loss, (X, Y)) for p in (start, moved)]
    for name, family in RELU.symmetries().items():
        alive = ends[0].alive[name]
        charges = [family.charge(end.params)[alive] for end in ends]
        np.testing.assert_allclose(*charges, rtol=1e-9, atol=1e-9)


def test_dead_units_stay():
    start = relu_point()
    start["b1"][2] = -1e3
    start["W1"][:, 2] = 0.0
    jump = symmetry.equilibrate(start, RELU.symmetries(), loss, (X, Y))
    assert not jump.alive["hidden1"][2] and jump.lam["hidden1"][2] == 0
    assert np.isnan(jump.ratio_after["hidden1"][2])
    assert jump.alive["hidden1"].sum() >= 3


def test_balance():
    start = relu_point()
    jump = symmetry.balance(start, RELU.symmetries(), loss, (X, Y))
    np.testing.assert_allclose(outputs(jump.params), outputs(start), rtol=1e-12, atol=1e-12)
    for i, name in ((1, "hidden1"), (2, "hidden2")):
        p = jump.params
        into = (p[f"W{i}"] ** 2).sum(axis=0) + p[f"b{i}"] ** 2
        np.testing.assert_allclose(into, (p[f"W{i + 1}"] ** 2).sum(axis=1), rtol=1e-11)
        np.testing.assert_allclose(jump.ratio_after[name], 1.0, rtol=1e-11)
    assert jump.norm_after < jump.norm_before
    assert np.isfinite([jump.noise_before, jump.noise_after, jump.change]).all()
    alone = symmetry.balance(start, RELU.symmetries())
    assert np.isnan(alone.noise_after) and np.isnan(alone.change)
    np.testing.assert_allclose(alone.params["W2"], jump.params["W2"])
    assert 0 < alone.moved < 5
    again = symmetry.balance(alone.params, RELU.symmetries())
    assert again.moved < 1e-12


def linear(params, x, y):
    return jnp.sum((x @ params["W1"] @ params["W2"] - y) ** 2)


@pytest.mark.slow
def test_matrix_families_by_the_geometric_mean():
    """Two outputs, two units: the engine's row form against the theory's column form."""
    rng = np.random.default_rng(3)
    start = {"W1": 3 * rng.normal(size=(4, 2)), "W2": 0.2 * rng.normal(size=(2, 2))}
    family = {"seam": symmetry.pair("W1", "W2")}
    problem, kappa, gamma = gb.Regression.mean(X, Y), 0.1, 0.03
    jump = symmetry.equilibrate(start, family, linear, (X, Y), kappa, gamma)
    assert jump.change < 1e-12
    np.testing.assert_allclose(jump.ratio_after["seam"], 1.0, rtol=1e-10)
    U, W = start["W2"].T, start["W1"].T
    told = ts.pair_equilibrium(U, W, *ts.factorisation_noise(problem, U, W), kappa, gamma)
    np.testing.assert_allclose(jump.params["W2"].T @ jump.params["W2"], told.UUt, rtol=1e-9)
    np.testing.assert_allclose(jump.params["W1"] @ jump.params["W1"].T, told.WtW, rtol=1e-9)
    balanced = symmetry.balance(start, family).params
    np.testing.assert_allclose(
        balanced["W1"].T @ balanced["W1"], balanced["W2"] @ balanced["W2"].T, rtol=1e-9
    )
    wide = {"W1": rng.normal(size=(4, 6)), "W2": rng.normal(size=(6, 2))}
    stays = symmetry.equilibrate(wide, family, linear, (X, Y))
    assert not stays.alive["seam"] and stays.moved == 0


def test_other_families_and_mixtures():
    """One generator of a seam, a general matrix, and a hyperbolic family."""

    def diagonal(params, x, y):
        return (x @ (params["u"] ** 2 - params["v"] ** 2) - y[0]) ** 2

    start = {"u": np.array([1.0, 2, 0.5, 1]), "v": np.array([0.3, 0.1, 2, 0.9])}
    families = {"u-v": symmetry.hyperbolic("u", "v")}
    jump = symmetry.equilibrate(start, families, diagonal, (X, Y), 1.0, 0.2)
    np.testing.assert_allclose(jump.ratio_after["u-v"], 1.0, rtol=1e-10)
    assert jump.change < 1e-12

    rng = np.random.default_rng(4)
    start = {"W1": 2 * rng.normal(size=(4, 2)), "W2": rng.normal(size=(2, 2))}
    B = np.array([[1.0, 0.4], [0.4, -0.5]])
    one = {"B": symmetry.pair("W1", "W2", B)}
    A = symmetry.pair("W1", "W2", B).dense(start)
    ends = [
        symmetry.equilibrate(start, chosen, linear, (X, Y), 0.1, 0.01)
        for chosen in (one, {"A": symmetry.general(A)})
    ]
    assert ends[0].lam["B"] == pytest.approx(ends[1].lam["A"], rel=1e-9)
    assert ends[0].ratio_after["B"] == pytest.approx(1, abs=1e-10)


def test_the_joint_balance_is_the_least_of_its_orbit():
    rng = np.random.default_rng(5)
    mu = rng.normal(size=(3, 12))
    sigma2, theta2 = np.exp(3 * rng.normal(size=(2, 12)))
    found = ts.joint_equilibrium(mu, sigma2, theta2, 0.3, 0.1)

    def potential(lam):
        move = 2 * lam @ mu
        return 0.3 * np.exp(-move) @ sigma2 + 0.4 * np.exp(move) @ theta2

    best = scipy.optimize.minimize(potential, np.zeros(3), method="BFGS", tol=1e-12)
    np.testing.assert_allclose(found.lam, best.x, atol=1e-5)
    assert np.abs(found.imbalance).max() < 1e-12
    assert found.potential[1] == pytest.approx(potential(found.lam), rel=1e-12)
    assert found.potential[1] <= best.fun * (1 + 1e-12)
    single = ts.joint_equilibrium(mu[:1], sigma2, theta2, 0.3, 0.1).lam[0]
    assert single == pytest.approx(float(ts.fixed_point(mu[0], sigma2, theta2, 0.3, 0.1)))


def test_joint_balances_of_many_sizes():
    """Chains of units over sixty decades, redundant generators, and one without an end."""
    rng = np.random.default_rng(6)
    for decades in (2, 30, 60):
        units, width = 12, 4
        K = np.zeros((units * width, units))
        for i in range(units * width):
            a, b = rng.choice(units, 2, replace=False)
            K[i, a], K[i, b] = 2, -2
        logs = rng.uniform(-1, 1, units * width) * decades * np.log(10) / 2
        both = joint_balance(np.vstack([K, -K]), np.concatenate([logs, rng.permutation(logs)]))
        assert both.reached, decades
    double = joint_balance(np.array([[2.0, 2], [-2, -2], [2, 2]]), np.array([0.0, 5.0, 1.0]))
    assert double.reached
    runaway = joint_balance(np.array([[1.0, -2.0], [-2.0, 1.0]]),
                            np.zeros(2))  # fmt: skip
    assert not runaway.reached


def test_measurements():
    start = relu_point(scales=(1.0, 1.0, 1.0))
    start["b1"][2], start["W1"][:, 2] = -1e3, 0.0
    lr, S, gamma = 0.05, 3, 0.02
    found = symmetry.noise_balance(
        loss, start, (X, Y), RELU.symmetries(), lr, S, gamma, half_batch=1
    )
    noise = hand_noise(start)
    into = noise["W1"].sum(axis=0) + noise["b1"]
    out = noise["W2"].sum(axis=1)
    one = found["hidden1"]
    np.testing.assert_allclose(one.trace, into - out, rtol=1e-10, atol=1e-10)
    problem = gb.Regression.mean(X, Y)
    descent = gb.Descent(lr, gb.Minibatch(S, replace=True), weight_decay=gamma)
    run = gb.Setup(problem, RELU, start, descent)
    flow = symmetry.noether_flow(run)["hidden1"]
    for part in ("charge", "decay", "noise", "gd"):
        got, want = getattr(one.flow, part), getattr(flow, part)
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9 * np.abs(want).max())
    assert one.alive.all()  # decay keeps a dead unit moving
    plain = symmetry.noise_balance(loss, start, (X, Y), RELU.symmetries())["hidden1"]
    assert plain.alive.tolist() == [True, True, False, True, True] and np.isnan(plain.lam[2])
    live = plain.alive
    np.testing.assert_allclose(plain.lam[live], np.log(into[live] / out[live]) / 4)
    assert plain.distance == pytest.approx(np.abs(plain.lam[plain.alive]).mean())
    jump = symmetry.equilibrate(start, RELU.symmetries(), loss, (X, Y))
    there = symmetry.noise_balance(loss, jump.params, (X, Y), RELU.symmetries())
    assert max(b.distance for b in there.values()) < 1e-10


def test_half_batches_are_unbiased():
    """The mean over many splits is the trace itself; the standard error is honest."""
    start = relu_point(scales=(1.0, 1.0, 1.0))
    for s in (1, 3):
        splits = [
            symmetry.noise_balance(loss, start, (X, Y), RELU.symmetries(), half_batch=s, key=k)
            for k in range(40)
        ]
        for name in RELU.symmetries():
            values = np.array([split[name].half_batches for split in splits])
            live = values.std(axis=0) > 0
            z = (values.mean(axis=0) - splits[0][name].trace)[live] / (
                values.std(axis=0)[live] / np.sqrt(40)
            )
            assert np.abs(z).max() < 4
            told = np.array([split[name].error for split in splits])[:, live].mean(axis=0)
            assert np.all(told > 0.5 * values.std(axis=0)[live])


def sgd_paths(start, copies, lr, S, steps, every):
    """Many runs of SGD on the linear net by hand: for each a list of saved points."""
    rng = np.random.default_rng(8)
    W1, W2 = (np.repeat(start[n][None], copies, axis=0) for n in ("W1", "W2"))
    paths = [[] for _ in range(copies)]
    for k in range(steps + 1):
        if k % every == 0:
            for path, a, b in zip(paths, W1, W2, strict=True):
                path.append({"W1": a.copy(), "W2": b.copy()})
        rows = rng.integers(N, size=(copies, S))
        r = 2 / S * (X[rows] @ W1 @ W2 - Y[rows])
        g1 = X[rows].swapaxes(1, 2) @ r @ W2.swapaxes(1, 2)
        g2 = (X[rows] @ W1).swapaxes(1, 2) @ r
        W1, W2 = W1 - lr * g1, W2 - lr * g2
    return paths


def test_half_batches_and_drift_where_they_are_exact():
    """Two samples make one pair; a run that stands still has the flow of its point."""
    rng = np.random.default_rng(8)
    start = {"W1": rng.normal(size=(4, 2)), "W2": rng.normal(size=(2, 2))}
    seam, lr = {"seam": symmetry.pair("W1", "W2")}, 0.1
    two = symmetry.noise_balance(linear, start, (X[:2], Y[:2]), seam, lr)["seam"]
    np.testing.assert_allclose(two.half_batches, two.trace, rtol=1e-10, atol=1e-10)
    still = symmetry.drift(linear, [start, start, start], (X[:2], Y[:2]), seam, lr, 1, 7)["seam"]
    np.testing.assert_allclose(still.noise, 14 * lr * two.flow.noise, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(still.gd, 14 * lr * two.flow.gd, rtol=1e-10, atol=1e-10)


def test_drift_along_sgd():
    rng = np.random.default_rng(8)
    start = {"W1": rng.normal(size=(4, 2)), "W2": rng.normal(size=(2, 2))}
    lr, S, every, copies = 0.002, 2, 10, 12
    seam = {"seam": symmetry.pair("W1", "W2")}
    paths = sgd_paths(start, copies, lr, S, 300, every)
    found = [symmetry.drift(linear, p, (X, Y), seam, lr, S, every)["seam"] for p in paths]
    gaps = np.array([one.observed - one.predicted for one in found])
    z = gaps.mean(axis=0) / (gaps.std(axis=0, ddof=1) / np.sqrt(copies))
    assert np.abs(z).max() < 4
    told, seen = (
        np.mean([getattr(d, n) for d in found], axis=0) for n in ("predicted", "observed")
    )
    np.testing.assert_allclose(seen, told, atol=0.15 * np.abs(told).max())
    assert 0.5 < found[0].slope < 2 and found[0].correlation > 0.8
    ends = [p["W1"].T @ p["W1"] - p["W2"] @ p["W2"].T for p in (paths[0][0], paths[0][-1])]
    np.testing.assert_allclose(found[0].observed, ends[1] - ends[0])


def test_approximate_symmetry():
    """Corrected Eq 21–23 against SGD on (uw − y)² + ζ(…)², by hand."""
    rng = np.random.default_rng(9)
    y, zeta = np.array([0.2, 1.8]), 5.0

    def first(theta, label):
        return (theta[0] * theta[1] - label) ** 2

    def second(theta):
        return (theta[0] - 2.0) ** 2 + (theta[1] - 0.5) ** 2

    star = np.array([2.0, 0.5])  # a minimum of both: uw = mean y
    A = np.diag([1.0, -1.0])
    told = ts.approximate_bias(first, second, zeta, star, y, A)
    H = hessian(star, zeta)
    lr, copies = 0.004, 1000
    theta, linear_part, total = np.tile(star, (copies, 1)), np.zeros((copies, 2)), []
    for _ in range(800):
        label = y[rng.integers(2, size=copies)]
        slope = 2 * (theta.prod(axis=1) - label)[:, None] * theta[:, ::-1]
        theta = theta - lr * (slope + 2 * zeta * (theta - star))
        # The linear process has mean zero, and nearly all of the fluctuations.
        kick = 2 * (1 - label)[:, None] * star[::-1]
        linear_part = linear_part - lr * (linear_part @ H + kick)
        total.append(np.mean(theta**2 @ [1, -1] - 2 * linear_part @ A @ star))
    bias = (np.mean(total[200:]) - told.charge) / lr
    assert told.charge_bias == pytest.approx(bias, rel=0.04)
    exact = told.trace / (2 * zeta) - np.sum(A * told.covariance)  # where loss2 bends alike
    assert told.charge_bias == pytest.approx(exact, rel=1e-12)
    late = ts.printed.approximate_charge(told.trace, zeta, 2.0)
    assert abs(late - bias) > 0.2 * abs(bias)
    sample = lambda theta, label: second(theta)  # noqa: E731
    again = ts.approximate_bias(first, sample, zeta, star, (y,), A)
    np.testing.assert_allclose(again.covariance, told.covariance)
    Q = told.covariance
    slopes = np.array([2 * (1.0 - v) * star[::-1] for v in y])
    np.testing.assert_allclose(H @ Q + Q @ H, np.cov(slopes.T, bias=True), atol=1e-12)
    for bad, sentence in [
        (lambda: ts.approximate_bias(first, second, zeta, star + 0.1, y, A), "must be a minimum"),
        (lambda: ts.approximate_bias(first, lambda t: 0.0 * t[0], zeta, star, y, A), "curvature"),
        (lambda: ts.approximate_bias(first, 3, zeta, star, y, A), "loss2 must be a function"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            bad()
    flow = ts.approximate_flow(star, A, np.zeros(2), np.eye(2), zeta, 0.1)
    assert flow == 0
    assert ts.approximate_flow(star, A, [1.0, 0], np.zeros((2, 2)), 0.5, 0.1) == pytest.approx(-2)


def hessian(star, zeta):
    u, w = star
    return 2 * np.array([[w * w, 2 * u * w - 1.0], [2 * u * w - 1.0, u * u]]) + 2 * zeta * np.eye(2)


def test_bad_input():
    start = relu_point()
    families = RELU.symmetries()
    for call, sentence in [
        (lambda: symmetry.equilibrate(start, families, loss, (X, Y), 0.0), "not both be 0"),
        (
            lambda: symmetry.equilibrate(start, families, loss, (X, Y), 1.0, -1.0),
            "weight_decay must be",
        ),
        (lambda: symmetry.equilibrate(start, [1], loss, (X, Y)), "symmetries must be a dict"),
        (lambda: symmetry.equilibrate(start, families, loss, (X, Y[:2])), "data must hold"),
        (lambda: symmetry.balance(start, {"q": symmetry.scaling("q")}), "acts on 'q'"),
        (lambda: symmetry.balance(start, families, loss), "given together"),
        (
            lambda: symmetry.noise_balance(loss, start, (X, Y), families, half_batch=99),
            "half_batch must be at most",
        ),
        (
            lambda: symmetry.drift(loss, [start], (X, Y), families, 0.1, 1, 1),
            "at least two points",
        ),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()
    assert symmetry.equilibrate(start, {}, loss, (X, Y)).moved == 0


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_extreme_scales(scale):
    start = relu_point(scales=(1.0, 1.0, 1.0))
    far = {**start, **{n: scale * start[n] for n in ("W1", "b1")}, "W2": start["W2"] / scale}
    near, jump = (
        symmetry.equilibrate(p, RELU.symmetries(), loss, (X, Y)).params for p in (start, far)
    )
    for name in ("W1", "W2", "W3"):
        np.testing.assert_allclose(jump[name], near[name], rtol=1e-9)
    alone = symmetry.balance(far, RELU.symmetries()).ratio_after["hidden1"]
    np.testing.assert_allclose(alone, 1.0, rtol=1e-11)
    measured = symmetry.noise_balance(loss, far, (X, Y), RELU.symmetries())["hidden1"]
    assert 100 < measured.distance < 300


def test_samples_that_are_all_alike_have_no_noise():
    """Only rounding is left of their differences, and rounding is no equilibrium."""
    same = np.tile(X[:1], (N, 1)), np.tile(Y[:1], (N, 1))
    for data in (same, (X[:1], Y[:1])):
        jump = symmetry.equilibrate(relu_point(), RELU.symmetries(), loss, data)
        assert not any(alive.any() for alive in jump.alive.values()) and jump.moved == 0
    one = symmetry.noise_balance(loss, relu_point(), (X[:1], Y[:1]), RELU.symmetries())["hidden1"]
    assert np.isnan(one.distance) and np.isnan(one.error)


def test_scale_invariant_weights_have_an_equilibrium_norm():
    net = gb.NormalisedB(4, 2, 3)
    start = gb.init.gaussian(net, 0.7)

    def normalised(params, x, y):
        return jnp.sum((net(params, x[None])[0] - y) ** 2)

    kappa, gamma = 0.01, 0.001
    jump = symmetry.equilibrate(start, net.symmetries(), normalised, (X, Y), kappa, gamma)
    measured = symmetry.noise_balance(normalised, start, (X, Y), net.symmetries())["u"]
    told = ts.equilibrium_norm(measured.trace, np.sum(start["u"] ** 2), kappa, gamma)
    assert np.linalg.norm(jump.params["u"]) == pytest.approx(told, rel=1e-12)
    assert not symmetry.equilibrate(start, net.symmetries(), normalised, (X, Y)).alive["u"]
