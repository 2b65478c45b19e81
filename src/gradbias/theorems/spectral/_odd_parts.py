"""Control variates for noise alone: the parts of every step that are odd in the noise.

Labels with noise of either sign are as likely, so these sums have mean zero whatever its size;
what they explain of a quantity is chance.
"""

import jax.numpy as jnp
import numpy as np

from ..prelude import Measured, measured


def push(gradient, lr):
    """Wᵀy, for a step W + y aᵀ and a + Wᵀy."""
    return -lr * gradient["W2"][:, 0]


def square_of_second(problem, net, params, gradient, lr):
    """Of |a|²: 2a·Wᵀy."""
    return 2 * params["W2"][:, 0] @ push(gradient, lr)


def trace_of_first(problem, net, params, gradient, lr):
    """Of tr(AWWᵀ), A = XᵀX."""
    return -2 * lr * jnp.sum((problem.X @ gradient["W1"]) * (problem.X @ params["W1"]))


def square_of_first(problem, net, params, gradient, lr):
    """Of WWᵀ: y(Wa)ᵀ and its transpose."""
    half = -lr * gradient["W1"] @ params["W1"].T
    return half + half.T


def wedge(problem, net, params, gradient, lr):
    """Of z_i ∧ a: z_i ∧ Wᵀy."""
    outer = params["W1"][:, :, None] * push(gradient, lr)
    return outer - jnp.swapaxes(outer, 1, 2)


def square_of_wedge(problem, net, params, gradient, lr):
    """Of Σ_i (z_i ∧ a)², and of Σ_{i<j} (z_i ∧ z_j)², too."""
    outer = params["W1"][:, :, None] * params["W2"][:, 0]
    before = outer - jnp.swapaxes(outer, 1, 2)
    return 2 * jnp.sum(before * wedge(problem, net, params, gradient, lr), axis=0)


def rates(problem, net, params, gradient, lr):
    """Of log|(w, a)| of the first column, of log|plane| with the second, and of √|(w, a)|.

    Each times powers of the share of a: what the rate of growth depends on is odd parts so
    weighted, up to its values at the ends.
    """
    w = params["W1"][:, :2]
    a = params["W2"][:2, 0]
    y = push(gradient, lr)[:2]
    size = w[:, 0] @ w[:, 0] + a[0] ** 2
    share = a[0] ** 2 / size
    G = w.T @ w + jnp.outer(a, a)
    turned = jnp.array([G[1, 1] * a[0] - G[0, 1] * a[1], G[0, 0] * a[1] - G[0, 1] * a[0]])
    turned = turned / (G[0, 0] * G[1, 1] - G[0, 1] ** 2)
    first = 2 * a[0] * y[0] / size * share ** jnp.arange(POWERS)
    plane = 2 * (turned @ y) * (turned @ a) ** jnp.arange(POWERS)
    return jnp.concatenate([first, plane, size**0.25 * first])


POWERS = 4


def mean(values: np.ndarray, *parts: np.ndarray) -> Measured:
    """Over the members, without what sums of odd parts explain by least squares.

    Args:
        values: (members, …).
        parts: (members, saves, …) each, of the same shape or one for all entries.
    """
    count = len(values)
    flat = values.reshape(count, -1)
    means, errors = np.zeros((2, flat.shape[1]))
    for i, column in enumerate(flat.T):
        odd = np.concatenate([_entry(part, i) for part in parts], axis=1)
        slopes = np.linalg.lstsq(odd - odd.mean(axis=0), column - column.mean(), rcond=None)[0]
        rest = column - odd @ slopes
        means[i] = rest.mean()
        errors[i] = rest.std() / np.sqrt(count - 1 - odd.shape[1])
    shape = values.shape[1:]
    return measured(means.reshape(shape), standard_error=errors.reshape(shape))


def _entry(part: np.ndarray, i: int) -> np.ndarray:
    columns = part.reshape(*part.shape[:2], -1)
    return columns[:, :, i if columns.shape[2] > 1 else 0]
