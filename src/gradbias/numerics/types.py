"""The types that signatures share: arrays, numbers, parameters of nets."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import jax

# On the host arrays are NumPy's; inside compiled functions they are jax's (tracers too).
Array: TypeAlias = "np.ndarray | jax.Array"
Number: TypeAlias = "float | np.ndarray | jax.Array"
# A key of `numerics.counter_rng`, or the number of a step.
Integer: TypeAlias = "int | np.integer | np.ndarray | jax.Array"

# Nested dicts, lists, tuples or modules with arrays as leaves: whatever `jax.tree.map` takes.
# The library's own nets keep a flat dict; people's nets may keep anything.
PyTree: TypeAlias = Any
