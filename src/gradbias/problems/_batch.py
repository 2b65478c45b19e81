"""What one step of an optimiser sees of the data."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.core import Tracer

from ..numerics.types import Array


class Batch(eqx.Module):
    """One draw: some rows, some label noise, or fresh samples. Fields left at None are not drawn.

    Attributes:
        indices: (b,) rows of the data; all rows if None.
        label_noise: (b, k) added to the labels of those rows.
        x: (b, d) fresh inputs, instead of rows.
        y: (b, k) their labels.
        weights: (b,) factors of the losses of those rows, of mean one; all ones if None.
    """

    indices: Any = None
    label_noise: Any = None
    x: Any = None
    y: Any = None
    weights: Any = None


def rows(array, indices) -> Array:
    """Some rows of `array`; NumPy cannot look up rows that jax is still tracing."""
    return (jnp.asarray(array) if isinstance(indices, Tracer) else array)[indices]


def weighted(terms, batch: Batch | None) -> Array:
    """Row by row (of losses or residuals), times the weights of a draw if it has any."""
    if batch is None or batch.weights is None:
        return terms
    return batch.weights.reshape(-1, *(1,) * (terms.ndim - 1)) * terms
