"""The exact laws of one step, on every net, over a thousand steps of a plain NumPy loop."""

import numpy as np
import pytest

import gradbias as gb
from gradbias import symmetry
from symmetry.small_nets import NETS, N, gradient, point, ravel

STEPS, LR, BETA = 1000, 0.01, 0.9


def drive(net, momentum, decay, law):
    """SGD with batches of three; hands every step's gradient and velocity to a law."""
    rng = np.random.default_rng(7)
    params = point(NETS[net](), seed=1)
    velocity = {k: np.zeros_like(v) for k, v in params.items()}
    lr = LR * (1 - momentum)
    for _ in range(STEPS):
        g = gradient(net)(params, rng.choice(N, 3))
        velocity = {k: momentum * velocity[k] + g[k] + 2 * decay * params[k] for k in params}
        params = {k: params[k] - lr * velocity[k] for k in params}
        law(g, velocity, lr)
    return params


LAWS = [(0.0, 0.0), (0.0, 0.3), (BETA, 0.3)]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("momentum, decay", LAWS)
def test_laws_are_exact_over_a_thousand_steps(net, momentum, decay):
    first, families = point(NETS[net](), seed=1), NETS[net]().symmetries()
    dense = {name: family.dense(first) for name, family in families.items()}
    told = {name: family.charge(first) for name, family in families.items()}
    cross = dict.fromkeys(families, 0.0)

    def law(g, v, lr):
        used = ravel(v if momentum else g)
        for name, A in dense.items():
            C, D, square = told[name], cross[name], A @ used @ used
            if momentum:
                told[name], cross[name] = symmetry.momentum_step(C, D, square, lr, momentum, decay)
            else:
                told[name] = symmetry.step(C, square, lr, decay)

    last = drive(net, momentum, decay, law)
    scale = ravel(first) @ ravel(first) + ravel(last) @ ravel(last)
    for name, family in families.items():
        now = family.charge(last)
        assert np.abs(told[name] - now).max() <= 1e-12 * scale
        assert np.abs(now - family.charge(first)).max() > 1e-6  # there was something to follow


@pytest.mark.parametrize("net", ["rank one", "leaky, no bias"])
@pytest.mark.parametrize("momentum, decay", LAWS[1:])
def test_a_tracker_follows_charges_and_their_drift(net, momentum, decay):
    first, tracker = point(NETS[net](), seed=1), symmetry.ChargeTracker(NETS[net]().symmetries())
    tracker.start(first)

    def law(g, v, lr):
        if momentum:
            tracker.update_momentum(v, lr, momentum, decay)
        else:
            tracker.update(g, lr, decay)

    last = drive(net, momentum, decay, law)
    for name, family in tracker.symmetries.items():
        now, then = family.charge(last), family.charge(first)
        np.testing.assert_allclose(tracker.charge[name], now, rtol=0, atol=1e-12)
        np.testing.assert_allclose(tracker.drift[name], now - then, rtol=0, atol=1e-12)


def test_step_functions_by_hand():
    """One step on L = ½(uw − 1)², in closed form."""
    u, w, lr, gamma, beta = 1.7, -0.4, 0.2, 0.1, 0.8
    family = symmetry.rescaling("u", "w")
    residual = u * w - 1
    g = {"u": residual * w, "w": residual * u}
    v = {"u": g["u"] + 2 * gamma * u, "w": g["w"] + 2 * gamma * w}
    p = {"u": u - lr * v["u"], "w": w - lr * v["w"]}
    C = family.charge({"u": u, "w": w})
    after = symmetry.step(C, family.form(g, g), lr, gamma)
    np.testing.assert_allclose(after, p["u"] ** 2 - p["w"] ** 2, rtol=1e-14)
    with_v, D = symmetry.momentum_step(C, 0.0, family.form(v, v), lr, beta, gamma)
    np.testing.assert_allclose(with_v, after, rtol=1e-14)
    np.testing.assert_allclose(D, family.form(p, v), rtol=1e-13)


def test_any_step_size_and_a_changing_learning_rate():
    net = "two layers"
    params = point(NETS[net](), seed=1)
    tracker = symmetry.ChargeTracker(NETS[net]().symmetries())
    tracker.start(params)
    for k, lr in enumerate([0.3, 0.001, 0.1, 0.05]):
        g = gradient(net)(params, np.array([k, k + 1, k + 2]))
        params = {name: params[name] - lr * g[name] for name in params}
        tracker.update(g, lr)
    now = NETS[net]().symmetries()["W1-W2"].charge(params)
    np.testing.assert_allclose(tracker.charge["W1-W2"], now, rtol=0, atol=1e-13 * np.abs(now).max())


def test_a_tracker_that_is_misused_says_so():
    tracker = symmetry.ChargeTracker(gb.Diagonal(2).symmetries())
    g = {"u": np.ones(2), "v": np.ones(2)}
    with pytest.raises(ValueError, match="call start"):
        tracker.update(g, 0.1)
    tracker.start(g)
    for call, sentence in [
        (lambda: tracker.update(g, -1.0), "lr must be greater than 0"),
        (lambda: tracker.update(g, 0.1, -1.0), "weight_decay must be at least 0"),
        (lambda: tracker.update_momentum(g, 0.1, 1.0), "momentum must be less than 1"),
        (lambda: tracker.update({"u": np.ones(2)}, 0.1), "acts on 'v'"),
        (lambda: symmetry.ChargeTracker([1]), "symmetries must be a dict"),
        (lambda: symmetry.ChargeTracker({"a": 1}), "must map names to symmetries"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            call()
    np.testing.assert_array_equal(tracker.drift["u-v"], [0, 0])
