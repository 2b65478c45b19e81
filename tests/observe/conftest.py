"""How observables are called, and the models once more in NumPy, for complex steps."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb


@pytest.fixture
def measure():
    """Bind on the host, compile with every array traced, NumPy out: what the engine does."""

    def call(observable, problem, net, params):
        with jax.enable_x64(True):
            bound = observable.bind(problem, net)
            traced = jax.tree.map(jnp.asarray, (bound, problem, net, params))
            value = eqx.filter_jit(lambda f, *rest: f(*rest))(*traced)
            return jax.tree.map(np.asarray, value)

    return call


@pytest.fixture
def draw():
    """Random parameters of a net, by its shapes."""

    def call(net, seed=0, scale=1.0):
        rng = np.random.default_rng(seed)
        return {name: scale * rng.standard_normal(s) for name, s in net.shapes().items()}

    return call


def outputs(net, p, X):
    if isinstance(net, gb.Rank1):
        return X @ (np.prod(np.sum(p["u"] * p["v"], axis=1)) * p["v1"])[:, None]
    if isinstance(net, gb.Diagonal):
        return X @ (p["u"] ** 2 - p["v"] ** 2)[:, None]
    if isinstance(net, gb.NormalisedA):
        u, w = p["u"], p["w"]
        return np.tanh(X @ w.T / np.sqrt((u * u).sum())) @ u.T / np.sqrt((w * w).sum())
    layers = sum(name.startswith("W") for name in p)
    for i in range(1, layers + 1):
        X = X @ p[f"W{i}"] + p.get(f"b{i}", 0)
        X = np.tanh(X) if isinstance(net, gb.MLP) and i < layers else X
    return X


def loss(problem, net, p):
    if isinstance(problem, gb.Population):
        error = outputs(net, p, np.eye(problem.d)) - problem.V.T
        expected = np.trace(error.T @ problem.sigma_x @ error) + np.trace(problem.sigma_eps)
        return problem.weight * expected
    residual = outputs(net, p, problem.X) - problem.Y.reshape(problem.n, problem.k)
    if isinstance(problem, gb.Samples):
        return np.log(np.cosh(residual)).sum() / problem.n
    return problem.weight * (residual * residual).sum()


def log_cosh(output, y):
    return jnp.sum(jnp.log(jnp.cosh(output - y)))


@pytest.fixture
def log_cosh_loss():
    return log_cosh


@pytest.fixture
def numpy_loss():
    return loss


@pytest.fixture
def numpy_hessian():
    """The dense Hessian: complex steps for the gradient, central differences of that."""

    def call(problem, net, params):
        names = sorted(params)
        cuts = np.cumsum([params[n].size for n in names])[:-1]

        def value(flat):
            parts = np.split(flat, cuts)
            p = {n: a.reshape(params[n].shape) for n, a in zip(names, parts, strict=True)}
            return loss(problem, net, p)

        x = np.concatenate([params[n].ravel() for n in names])
        eye = np.eye(x.size)
        step = 1e-5

        def gradient(at):
            return np.array([value(at + 1e-30j * e).imag for e in eye]) / 1e-30

        H = np.stack([(gradient(x + step * e) - gradient(x - step * e)) / (2 * step) for e in eye])
        return (H + H.T) / 2

    return call


@pytest.fixture
def numpy_outputs():
    return outputs
