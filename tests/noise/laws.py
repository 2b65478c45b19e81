"""Problems, nets and laws that the tests of noise share; small, because covariances are dense."""

import functools
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import gradbias as gb
from gradbias import noise
from gradbias.dynamics import gradient
from gradbias.numerics.counter_rng import seed

N, D = 5, 3


class Dropped(noise.DataNoise):
    """Every sample is left out with some probability: an own law."""

    keep: float

    def draw(self, key, n, k=1):
        seen = noise.uniform(key, n) < self.keep
        return jnp.where(seen, 1 / self.keep, 0.0), None

    def moments(self, n):
        return (1 / self.keep - 1) * np.eye(n), 0.0


class Importance(noise.DataNoise):
    """One row, drawn with given chances and weighted to stay unbiased; noisy labels."""

    chances: np.ndarray
    stds: np.ndarray

    def draw(self, key, n, k=1):
        ends, u = jnp.cumsum(jnp.asarray(self.chances)), noise.uniform(key)
        seen = (ends - self.chances <= u) & (u < ends)
        return jnp.where(seen, 1 / self.chances, 0.0), self.stds[:, None] * noise.normal(
            key, (n, k)
        )

    def moments(self, n):
        return jnp.diag(1 / self.chances) - 1, self.stds**2


CHANCES = np.array([0.1, 0.3, 0.2, 0.15, 0.25])

LAWS = {
    "one row": noise.Minibatch(1),
    "two rows": noise.Minibatch(2),
    "four rows": noise.Minibatch(4),
    "two rows with replacement": noise.Minibatch(2, replace=True),
    "seven rows with replacement": noise.Minibatch(7, replace=True),
    "signs on all labels": noise.LabelNoise(0.7),
    "normals on all labels": noise.LabelNoise(0.7, law="gaussian"),
    "signs on two labels": noise.LabelNoise(0.7, 2),
    "normals on two labels": noise.LabelNoise(0.7, 2, law="gaussian"),
    "signs with replacement": noise.LabelNoise(0.7, 3, replace=True),
    "dropped samples": Dropped(0.6),
    "importance": Importance(CHANCES, np.linspace(0.2, 1.0, N)),
}


def normal(*shape, key=0):
    return np.random.default_rng(key).normal(size=shape)


def logistic(output, y):
    return jnp.logaddexp(0.0, -y * output)


NETS = {
    "two layers": (lambda: gb.TwoLayer(D, 2, 2), 2),
    "rank one": (lambda: gb.Rank1(D, 3, 2), 1),
    "diagonal": (lambda: gb.Diagonal(D), 1),
    "tanh": (lambda: gb.MLP([D, 2, 2], "tanh"), 2),
    "logistic": (lambda: gb.Rank1(D, 3, 2), 1),
}


@functools.cache
def case(name):
    """A problem on finite data, a net and parameters."""
    make, k = NETS[name]
    net, X, Y = make(), normal(N, D), normal(N, k, key=1)
    params = {key: normal(*shape, key=i + 2) for i, (key, shape) in enumerate(net.shapes().items())}
    if name == "logistic":
        return gb.Samples(logistic, X, np.sign(Y[:, 0])), net, params
    return gb.Regression(X, Y if k > 1 else Y[:, 0], 0.3), net, params


@functools.cache
def population(name):
    """The same nets on fresh samples; inputs vary in two of three directions."""
    _, net, params = case(name)
    k, root, eps = NETS[name][1], normal(2, D, key=7), normal(NETS[name][1], 3, key=8)
    problem = gb.Population(root.T @ root, normal(k, D, key=9), eps @ eps.T / 3, weight=0.3)
    return problem, net, params


@eqx.filter_jit
def gradients(problem, net, params, law, key, steps):
    """(steps, D) stochastic gradients."""

    def one(step):
        grads = gradient(problem, net, params, law.batch(problem, key, step))
        added = law.added(key, step, params)
        if added is not None:
            grads = jax.tree.map(jnp.add, grads, added)
        return ravel_pytree(grads)[0]

    return jax.vmap(one)(steps)


def drawn(problem, net, params, law, count=40_000, key=0):
    with gb.float64():
        return np.asarray(
            gradients(problem, net, params, law, seed(key), np.arange(count, dtype=np.int64))
        )


def flat_gradient(problem, net, params, batch=None):
    with gb.float64():
        return np.asarray(ravel_pytree(gradient(problem, net, params, batch))[0])


def assert_covariance(draws, mean, covariance, largest=4.5):
    """Every entry of the mean and of the covariance, in standard errors of the draws."""
    centred = draws - mean
    count, scale = len(draws), np.sqrt(np.outer(np.diagonal(covariance), np.diagonal(covariance)))
    error = centred.std(axis=0) / np.sqrt(count)
    assert np.all(np.abs(centred.mean(axis=0)) <= largest * error + 1e-12)
    total, squares = centred.T @ centred / count, (centred**2).T @ centred**2 / count
    errors = np.sqrt(np.maximum(squares - total**2, 0) / count)
    # Entries without any spread of their own (two gradients in one fixed direction) must agree.
    worst = np.abs(total - covariance) / (errors + 1e-10 * scale + 1e-300)
    assert worst.max() < largest, worst.max()


def every_draw(n, b, replace):
    """All the index sets of a minibatch, each as likely as any other."""
    if replace:
        return np.array(list(itertools.product(range(n), repeat=b)))
    return np.array(list(itertools.combinations(range(n), b)))
