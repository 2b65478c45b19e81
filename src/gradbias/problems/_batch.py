"""What one step of an optimiser sees of the data."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.core import Tracer


class Batch(eqx.Module):
    """One draw: some rows, some label noise, or fresh samples. Fields left at None are not drawn.

    Attributes:
        indices: (b,) rows of the data; all rows if None.
        label_noise: (b, k) added to the labels of those rows.
        x: (b, d) fresh inputs, instead of rows.
        y: (b, k) their labels.
    """

    indices: Any = None
    label_noise: Any = None
    x: Any = None
    y: Any = None


def rows(array, indices) -> Any:
    """Some rows of `array`; NumPy cannot look up rows that jax is still tracing."""
    return (jnp.asarray(array) if isinstance(indices, Tracer) else array)[indices]
