"""Gradients of single samples of any jax loss, and sums over them that never hold them all."""

from collections.abc import Callable
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.precision import to_numpy, warn_of_float32
from ..numerics.types import PyTree

CHUNK = 64  # samples whose gradients are held at once
# Arrays whose first axis counts samples.
Data: TypeAlias = ArrayLike | tuple[ArrayLike, ...]
ROUNDING = 1e-28  # of a variance, relative to the square of the mean


def prepared(
    loss: Callable[..., Any], params: PyTree, data: Data
) -> tuple[PyTree, tuple[np.ndarray, ...]]:
    """Parameters and samples as float64 arrays; a loss that can be called.

    Args:
        loss: `loss(params, *sample)` of one sample.
        params: a PyTree of arrays.
        data: an array, or a tuple of arrays whose first axis counts samples.
    """
    if not callable(loss):
        raise ValueError(f"loss must be a function of (params, *sample), got {loss!r:.80}")
    params = jax.tree.map(lambda leaf: checks.array("params", leaf), params)
    if not jax.tree.leaves(params):
        raise ValueError(f"params must hold arrays, got {params!r:.80}")
    arrays = tuple(_double(np.asarray(a)) for a in (data if isinstance(data, tuple) else (data,)))
    lengths = [a.shape[0] if a.ndim else 0 for a in arrays]
    if len(set(lengths)) != 1 or lengths[0] == 0:
        raise ValueError(f"data must hold the same number of samples, at least 1, got {lengths}")
    value = warn_of_float32("loss", loss, params, *(a[0] for a in arrays))
    if jax.tree.leaves(value)[0].shape != () or len(jax.tree.leaves(value)) != 1:
        raise ValueError(f"loss must return one number for a sample, got {value}")
    return params, arrays


def _double(array: np.ndarray) -> np.ndarray:
    return checks.array("data", array) if array.dtype.kind == "f" else array


def losses(loss: Callable[..., Any], params: PyTree, samples: PyTree) -> np.ndarray:
    """(n,) the losses of the samples."""
    return np.asarray(_losses(loss, params, samples))


def gradients(loss: Callable[..., Any], params: PyTree, samples: PyTree) -> PyTree:
    """A PyTree of (n, …) gradients of the samples: for few samples or small nets."""
    return to_numpy(_gradients(loss, params, samples))


def mean_gradient(loss: Callable[..., Any], params: PyTree, samples: PyTree) -> PyTree:
    """The gradient of the mean loss."""
    return to_numpy(_mean(loss, params, samples))


def mean_of(
    function: Callable[[Any], Any],
    loss: Callable[..., Any],
    params: PyTree,
    samples: PyTree,
    centre: PyTree,
) -> PyTree:
    """The mean over samples of a function of the gradient less `centre`.

    Args:
        function: of a PyTree of parameter shape; an equinox module, or it is compiled anew.
        loss: of one sample.
        params: where.
        samples: arrays whose first axis counts samples.
        centre: the mean gradient: squares of differences keep digits that differences of
            squares lose.
    """
    return to_numpy(_mean_of(function, loss, params, samples, centre))


def noise_of(
    squares: Callable[[Any], Any],
    loss: Callable[..., Any],
    params: PyTree,
    samples: PyTree,
    centre: PyTree,
) -> PyTree:
    """`mean_of` squares of gradients, with 0 for what is only rounding of the mean gradient.

    Samples that are all alike have no noise; their differences from the mean are not quite 0.
    """
    noise = mean_of(squares, loss, params, samples, centre)
    return jax.tree.map(without_rounding, noise, to_numpy(squares(centre)))


def without_rounding(variance: np.ndarray, square: np.ndarray) -> np.ndarray:
    """Variances, 0 where they are rounding beside the square of the mean."""
    return np.where(np.abs(variance) > ROUNDING * np.abs(square), variance, 0.0)


class Square(eqx.Module):
    """Entry by entry: its mean is the diagonal of the covariance."""

    def __call__(self, tree: PyTree) -> PyTree:
        return jax.tree.map(lambda leaf: leaf * leaf, tree)


@eqx.filter_jit
def _losses(loss, params, samples) -> jax.Array:
    return jax.lax.map(lambda z: loss(params, *z), samples, batch_size=CHUNK)


@eqx.filter_jit
def _gradients(loss, params, samples) -> PyTree:
    return jax.lax.map(lambda z: jax.grad(loss)(params, *z), samples, batch_size=CHUNK)


@eqx.filter_jit
def _mean(loss, params, samples) -> PyTree:
    def total(p):
        return jnp.mean(jax.lax.map(lambda z: loss(p, *z), samples, batch_size=CHUNK))

    return jax.grad(total)(params)


@eqx.filter_jit
def _mean_of(function, loss, params, samples, centre) -> PyTree:
    n = jax.tree.leaves(samples)[0].shape[0]

    def of_chunk(chunk):
        def of_sample(z):
            g = jax.grad(loss)(params, *z)
            return function(jax.tree.map(jnp.subtract, g, centre))

        return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), jax.vmap(of_sample)(chunk))

    def add(total, chunk):
        return jax.tree.map(jnp.add, total, of_chunk(chunk)), None

    whole = n // CHUNK * CHUNK
    size = min(n, CHUNK)
    chunks = jax.tree.map(lambda a: a[:whole].reshape(-1, size, *a.shape[1:]), samples)
    rest = jax.tree.map(lambda a: a[whole:], samples)
    shapes = jax.eval_shape(of_chunk, jax.tree.map(lambda a: a[:1], samples))
    total = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    if whole:
        total = jax.lax.scan(add, total, chunks)[0]
    if n > whole:
        total, _ = add(total, rest)
    return jax.tree.map(lambda leaf: leaf / n, total)
