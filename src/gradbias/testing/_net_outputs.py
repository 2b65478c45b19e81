"""What a net returns: predictor and outputs, their shapes and precision, again and row by row."""

from typing import Any

import jax
import numpy as np

from ..nets import LinearNet, Net
from ..numerics.host_rng import generator
from ..numerics.types import PyTree
from ..problems import Population, Problem
from ..problems.base import FiniteData
from ._net_tracing import relative, traced
from ._report import Notes, said

ROWS = 6  # rows of data that a net is tried on
SAME = 1e-10  # relative: what is the same in exact arithmetic


def predictor_shape(
    notes: Notes, net: LinearNet, params: PyTree, problem: Problem | None
) -> jax.ShapeDtypeStruct | None:
    """The shape of the predictor, if it is one."""
    theta = traced(notes, "predictor", net.predictor, params)
    if theta is None:
        return None
    shape = getattr(theta, "shape", None)
    if shape is None or len(shape) not in (1, 2) or 0 in shape:
        got = type(theta).__name__ if shape is None else f"shape {shape}"
        notes.find(f"predictor must return an array (d, k) or (d,), got {got}")
        return None
    matrix = shape if len(shape) == 2 else (*shape, 1)
    if problem is not None and matrix != (problem.d, problem.k):
        notes.find(
            f"predictor must have shape {(problem.d, problem.k)} to fit the problem, got {shape}"
        )
        return None
    return theta if _is_double(notes, "predictor", theta) else None


def some_inputs(
    net: Net, theta: jax.ShapeDtypeStruct | None, problem: Problem | None, key: int
) -> np.ndarray:
    """Rows of the problem's inputs, or random ones."""
    if isinstance(problem, Population):
        return problem.sample(ROWS, key)[0]
    if isinstance(problem, FiniteData):
        return problem.X[:ROWS]
    sizes = getattr(net, "dims", None)
    d = getattr(net, "d", sizes[0] if sizes else None)
    d = d if theta is None else theta.shape[0]
    d = d if problem is None else problem.d
    if d is None:
        raise ValueError(
            f"problem must be given: nothing else says how many inputs {type(net).__name__} has"
        )
    return generator(key, "check_net inputs").standard_normal((ROWS, int(d)))


def outputs_of(notes: Notes, net: Net, params: PyTree, X: np.ndarray, k: int | None) -> int | None:
    """The number of outputs; None if they are not what they should be."""
    touched: list[bool] = []

    def call(params, X):
        before, structure = jax.tree.flatten(params)
        result = net(params, X)
        after, now = jax.tree.flatten(params)
        same = now == structure and all(a is b for a, b in zip(before, after, strict=True))
        touched.append(not same)
        return result

    outputs = traced(notes, "__call__", call, params, X)
    if outputs is None:
        return None
    if any(touched):
        notes.find("__call__ changes the params that it is given: work on a copy")
        return None
    shape: Any = getattr(outputs, "shape", ())
    n = len(X)
    width = shape[1] if len(shape) == 2 else 1
    if len(shape) not in (1, 2) or shape[0] != n or 0 in shape or k not in (None, width):
        need = f"({n}, k)" if k is None else f"({n}, {k})" + (f" or ({n},)" if k == 1 else "")
        got = f"shape {shape}" if hasattr(outputs, "shape") else type(outputs).__name__
        notes.find(f"__call__ must return outputs {need} on {n} rows of X, got {got}")
        return None
    return width if _is_double(notes, "__call__", outputs) else None


def _is_double(notes: Notes, what: str, array: jax.ShapeDtypeStruct) -> bool:
    if array.dtype == np.float64:
        return True
    notes.find(f"{what} must return float64, got {array.dtype}")
    return False


def is_repeatable(notes: Notes, net: Net, params: PyTree, X: np.ndarray) -> bool:
    """The same outputs each time, and for each row whatever the others are."""

    def outputs(X: np.ndarray) -> np.ndarray:
        # Traced anew: randomness of Python or NumPy is frozen into a compiled program.
        result = jax.jit(lambda params, X: net(params, X))(params, X)
        return np.asarray(result).reshape(len(X), -1)

    first = outputs(X)
    if not np.isfinite(first).all():
        notes.find(f"__call__ returns {first[~np.isfinite(first)][0]} at these params")
        return False
    if not np.array_equal(first, outputs(X)):
        notes.find("__call__ gives other outputs the second time: it must not draw or remember")
        return False
    try:
        alone = outputs(X[:1])
    except Exception as error:  # whatever the user's code raises is a finding
        notes.find(f"__call__ fails on a single row of X: {said(error)}")
        return False
    if relative(alone[0], first[0]) > SAME:
        notes.find("__call__ gives another output for a row when other rows are left out")
        return False
    return True
