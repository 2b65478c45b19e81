"""Every built-in net, small, with data and gradients written without the library's problems."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

import gradbias as gb

D, K, N = 4, 2, 6

NETS = {
    "two layers": lambda: gb.TwoLayer(D, K, 5),
    "two layers, width one": lambda: gb.TwoLayer(D, K, 1),
    "deep": lambda: gb.Deep([D, 3, 5, K]),
    "rank one": lambda: gb.Rank1(D, 3, 3),
    "diagonal": lambda: gb.Diagonal(D),
    "relu": lambda: gb.MLP([D, 4, 3, K], "relu"),
    "leaky, no bias": lambda: gb.MLP([D, 4, K], "leaky", bias=False),
    "linear": lambda: gb.MLP([D, 3, K], "linear", bias=False),
    "linear with bias": lambda: gb.MLP([D, 3, K], "linear"),
    "normalised A": lambda: gb.NormalisedA(D, K, 3),
    "normalised B": lambda: gb.NormalisedB(D, K, 3),
}
EACH = [(net, name) for net, make in NETS.items() for name in make().symmetries()]


def outputs(net):
    return 1 if isinstance(net, (gb.Rank1, gb.Diagonal)) else K


@functools.cache
def data(k=K):
    rng = np.random.default_rng(3)
    return rng.normal(size=(N, D)), rng.normal(size=(N, k))


def point(net, seed=0, scale=0.7):
    rng = np.random.default_rng(seed)
    return {name: scale * rng.normal(size=shape) for name, shape in net.shapes().items()}


@functools.cache
def gradient(name):
    """The gradient of the mean square error on some rows, compiled; NumPy in and out."""
    net = NETS[name]()
    X, Y = data(outputs(net))

    def loss(params, X, Y):
        return jnp.mean(jnp.sum((net(params, X).reshape(Y.shape) - Y) ** 2, axis=1))

    compiled = jax.jit(jax.grad(loss))

    def call(params, rows):
        with jax.enable_x64(True):
            return jax.tree.map(np.asarray, compiled(params, X[rows], Y[rows]))

    return call


def ravel(tree):
    return np.concatenate([np.ravel(tree[name]) for name in sorted(tree)])


def unravel(flat, like):
    cuts = np.cumsum([like[name].size for name in sorted(like)])[:-1]
    parts = np.split(flat, cuts)
    return {n: a.reshape(like[n].shape) for n, a in zip(sorted(like), parts, strict=True)}
