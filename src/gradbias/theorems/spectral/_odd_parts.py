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


def size_of_wedge(problem, net, params, gradient, lr):
    """Of the square root of Σ_i (z_i ∧ a)²."""
    outer = params["W1"][:, :, None] * params["W2"][:, 0]
    before = outer - jnp.swapaxes(outer, 1, 2)
    size = jnp.sqrt(jnp.sum(before**2, axis=0))
    along = jnp.sum(before * wedge(problem, net, params, gradient, lr), axis=0)
    return jnp.where(size > 0, along / jnp.where(size > 0, size, 1.0), 0.0)


def rates(problem, net, params, gradient, lr):
    """Of log|(w, a)| of the first column, of log|plane| with the second, and of √|(w, a)|.

    Each times powers of the share of a: what the rate of growth depends on is odd parts so
    weighted, up to its values at the ends.
    """
    a = params["W2"][:, 0]
    # y of a step W + y aᵀ and a + Wᵀy
    y = -lr * gradient["W1"] @ a / (a @ a)
    first, other = jnp.concatenate([params["W1"], a[None]])[:, :2].T
    size = first @ first
    along = first / jnp.sqrt(size)
    # The columns become parallel: by Gram and Schmidt, not by determinants.
    across = other - (along @ other) * along
    across = across / jnp.sqrt(across @ across)
    both = along[-1] * along + across[-1] * across  # of the axis of a, on the plane
    powers = jnp.arange(POWERS)
    one = 2 * along[-1] * (along[:-1] @ y) * along[-1] ** (2 * powers)
    two = 2 * (both[:-1] @ y) * both[-1] ** powers
    return jnp.concatenate([one, two, size**0.25 * one])


POWERS = 4
ORDERS = 5  # of polynomials in time


def weighted(parts: np.ndarray) -> np.ndarray:
    """Sums (members, saves, …) up to every save as (members, 1 + orders, …).

    The last of them, and their means with weights that are polynomials in time: what a sum
    explains of the end changes smoothly with the time at which it is added. Few weights are known
    better than one for every save.
    """
    saves = parts.shape[1]
    time = np.linspace(-1, 1, saves)
    weights = np.polynomial.legendre.legvander(time, min(ORDERS, saves) - 1) / saves
    means = np.einsum("so,ms...->mo...", weights, parts)
    return np.concatenate([parts[:, -1:], means], axis=1)


def mean(values: np.ndarray, *parts: np.ndarray) -> Measured:
    """Over the members, without what sums of odd parts explain by least squares.

    What is taken from one half of the members is fitted on the other: a fit on the same ones
    would bend their mean.

    Args:
        values: (members, …).
        parts: (members, sums, …) each, of the same shape or one for all entries.
    """
    count = len(values)
    flat = values.reshape(count, -1)
    halves = np.arange(count) % 2 == 0, np.arange(count) % 2 == 1
    means, errors = np.zeros((2, flat.shape[1]))
    for i, column in enumerate(flat.T):
        odd = np.concatenate([_entry(part, i) for part in parts], axis=1)
        rest = np.empty(count)
        for here, there in (halves, halves[::-1]):
            centred = odd[there] - odd[there].mean(axis=0)
            slopes = np.linalg.lstsq(centred, column[there] - column[there].mean(), rcond=None)[0]
            rest[here] = column[here] - odd[here] @ slopes
        means[i] = rest.mean()
        errors[i] = rest.std() / np.sqrt(count - 1)
    shape = values.shape[1:]
    return measured(means.reshape(shape), standard_error=errors.reshape(shape))


def _entry(part: np.ndarray, i: int) -> np.ndarray:
    columns = part.reshape(*part.shape[:2], -1)
    return columns[:, :, i if columns.shape[2] > 1 else 0]
