"""What noise makes of Adam and of scale-invariant weights, against NumPy."""

import numpy as np
import pytest

from gradbias.theory import optimisers


def worst(beta1, beta2, steps=20_000):
    """|m|/√v of the gradients that attain the bound, the last one first."""
    ratio = (beta1 / beta2) ** np.arange(steps)
    m = (1 - beta1) * np.sum(beta1 ** np.arange(steps) * ratio)
    v = (1 - beta2) * np.sum(beta2 ** np.arange(steps) * ratio**2)
    return m / np.sqrt(v)


@pytest.mark.parametrize(
    ("betas", "printed"), [((0.9, 0.999), 7.2703), ((0.9, 0.99), 2.3452), ((0.9, 0.95), 1.1650)]
)
def test_update_bound_is_attained_and_never_passed(betas, printed):
    bound = optimisers.update_bound(*betas)
    assert bound == pytest.approx(printed, abs=5e-5)
    assert worst(*betas) == pytest.approx(bound, rel=1e-9)
    rng = np.random.default_rng(0)
    g = np.exp(rng.normal(size=(3000, 50)).cumsum(axis=0) * 0.1)
    m, v, largest = 0.0, 0.0, 0.0
    for row in g:  # of NumPy: 50 paths of 3000 gradients that grow and shrink
        m = betas[0] * m + (1 - betas[0]) * row
        v = betas[1] * v + (1 - betas[1]) * row**2
        largest = max(largest, float(np.max(m / np.sqrt(v))))
    assert 0.5 * bound < largest < bound


def adamw(gradients, lr, decay, beta1, beta2=0.999, start=0.0):
    """Weights and the size of updates at the end, of many coordinates at once."""
    m = np.zeros(gradients(0).shape)
    v, w, sizes = m.copy(), m + start, []
    for k in range(12_000):
        g = gradients(k)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        u = m / (1 - beta1 ** (k + 1)) / np.sqrt(v / (1 - beta2 ** (k + 1)))
        w = (1 - lr * decay) * w - lr * u
        if k >= 8000 and k % 500 == 0:
            sizes.append(np.mean(u * u))
    return w, np.sqrt(np.mean(sizes))


@pytest.mark.slow
@pytest.mark.parametrize("beta1", [0.9, 0.5])
def test_noise_floor(beta1):
    rng = np.random.default_rng(1)
    lr, decay = 1e-2, 0.1
    w, u = adamw(lambda k: rng.normal(size=20_000), lr, decay, beta1)
    assert u == pytest.approx(optimisers.update_rms(beta1), rel=0.01)
    assert np.sqrt(np.mean(w * w)) == pytest.approx(optimisers.noise_rms(lr, decay), rel=0.015)
    used = decay * np.sqrt(np.mean(w * w))
    assert used == pytest.approx(optimisers.noise_floor(lr, decay), rel=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_signal_share(share):
    rng = np.random.default_rng(2)
    mean = np.sqrt(share / (1 - share))
    _, u = adamw(lambda k: mean + rng.normal(size=5000), 1e-3, 0.0, 0.9)
    assert optimisers.signal_share(u, 0.9) == pytest.approx(share, rel=0.03)


def test_numbers_of_the_literature():
    assert optimisers.update_rms(0.9) == pytest.approx(0.2294, abs=5e-5)
    assert optimisers.noise_floor(3e-4, 0.1) == pytest.approx(0.00387, abs=1e-5)
    assert optimisers.signal_share(optimisers.update_rms(0.9), 0.9) == pytest.approx(0, abs=1e-15)
    assert optimisers.signal_share(1.0, 0.9) == 1.0


def walk(lr, decay, momentum, kind, steps=6000, members=400, size=50):
    """Scale-invariant weights in a random field at right angles to them."""
    rng = np.random.default_rng(3)
    w = rng.normal(size=(members, size))
    w *= (lr / decay) ** (0.5 if kind == "unit" else 0.25) / np.linalg.norm(w, axis=1)[:, None]
    v, turned = np.zeros_like(w), []
    for k in range(steps):
        g = rng.normal(size=w.shape)
        length = np.linalg.norm(w, axis=1)[:, None]
        g -= np.sum(g * w, axis=1)[:, None] * w / length**2
        g /= np.linalg.norm(g, axis=1)[:, None]
        if kind == "sgd":
            v = momentum * v + g / length + decay * w
            new = w - lr * v
        else:
            new = (1 - lr * decay) * w - lr * g
        if k >= steps // 2:
            cos = np.sum(w * new, axis=1) / (length[:, 0] * np.linalg.norm(new, axis=1))
            turned.append(np.mean(np.arccos(np.clip(cos, -1, 1)) ** 2))
        w = new
    return np.mean(np.linalg.norm(w, axis=1)), np.sqrt(np.mean(turned))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "momentum"), [("unit", 0.0), ("sgd", 0.0), ("sgd", 0.9)])
def test_rotational_equilibrium(kind, momentum):
    lr, decay = 0.02, 0.1
    told = optimisers.rotational_equilibrium(lr, decay, 1.0, kind, momentum)
    norm, angle = walk(lr, decay, momentum, kind)
    assert norm == pytest.approx(told.norm, rel=0.01)
    assert angle == pytest.approx(told.angle, rel=0.01)


def test_a_walk_of_unit_steps_is_exact():
    """At the equilibrium norm one step keeps it and turns by the angle told: no expectation."""
    told = optimisers.rotational_equilibrium(0.3, 0.5)
    new = np.array([(1 - 0.15) * told.norm, 0.3])
    assert np.linalg.norm(new) == pytest.approx(told.norm, rel=1e-14)
    assert np.arctan2(new[1], new[0]) == pytest.approx(told.angle, rel=1e-14)


def test_refusals():
    with pytest.raises(ValueError, match=r"beta2 must be above beta1² = 0.81, got 0.8"):
        optimisers.update_bound(0.9, 0.8)
    with pytest.raises(ValueError, match="weight_decay must be greater than 0"):
        optimisers.noise_floor(0.1, 0)
    with pytest.raises(ValueError, match="kind must be one of 'unit', 'sgd'"):
        optimisers.rotational_equilibrium(0.1, 0.1, kind="adam")
    with pytest.raises(ValueError, match="momentum must be 0 for updates of unit size"):
        optimisers.rotational_equilibrium(0.1, 0.1, momentum=0.9)
    with pytest.raises(ValueError, match=r"lr·weight_decay must be less than 1, got 2"):
        optimisers.rotational_equilibrium(2, 1)
