"""Gradients of ⟨W, J⟩ some samples at a time, and the drift from a Cholesky factor of JJᵀ."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias._manifold.residuals import SAMPLES
from gradbias._manifold.target import target_at
from gradbias._manifold.third_derivative import pulled
from gradbias.theory import manifold

NET = gb.MLP([3, 40, 2], "tanh")  # 242 parameters: above the size at which nothing is dense


def residual_of(n, params):
    X = np.random.default_rng(n).standard_normal((n, 3))
    with gb.float64():
        labels = np.asarray(NET(params, X))
    return manifold.residuals(gb.Regression.half_mean(X, labels), NET)


@eqx.filter_jit
def both(target, flat, W):
    whole = jax.grad(lambda x: jnp.sum(W * target.jacobian(x)))(flat)
    return pulled(target, flat, W), whole


@pytest.mark.parametrize("n", [SAMPLES + 1, 2 * SAMPLES])
def test_chunks_of_samples_are_all_samples(n):
    params = gb.init.gaussian(NET, 0.5, key=0)
    with gb.float64():
        target, flat = target_at(params, None, residual_of(n, params))
        W = np.random.default_rng(0).standard_normal((2 * n, len(flat)))
        some, whole = map(np.asarray, both(target, flat, W))
    assert np.abs(some - whole).max() < 1e-12 * np.abs(whole).max()


def test_the_drift_from_a_factor_is_that_from_a_decomposition():
    params = gb.init.gaussian(NET, 0.5, key=0)
    residual = residual_of(SAMPLES + 1, params)
    fast = manifold.label_noise_drift(params, 0.7, residual=residual)
    rank = 2 * (SAMPLES + 1)
    slow = manifold.label_noise_drift(params, 0.7, residual=residual, rank=rank)
    for name, expected in slow.items():
        assert np.abs(fast[name] - expected).max() < 1e-9 * np.abs(expected).max()
