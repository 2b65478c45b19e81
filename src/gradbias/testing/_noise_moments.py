"""What a law returns: shapes and precision of its draws, and moments that can be moments."""

import jax
import numpy as np

from ..noise import DataNoise, Noise, ParameterNoise
from ..numerics.counter_rng import seed
from ..numerics.types import Array, PyTree
from ..problems import Problem
from ..problems.base import FiniteData
from ._net_tracing import relative, traced
from ._report import Notes, said

SAME = 1e-10


def fits_problem(notes: Notes, noise: Noise, problem: Problem, params: PyTree) -> bool:
    """Do its draws have the shapes that a step needs?"""
    if isinstance(noise, DataNoise):
        return _data_shapes(notes, noise, problem)
    return not isinstance(noise, ParameterNoise) or _parameter_shapes(notes, noise, params)


def _parameter_shapes(notes: Notes, noise: ParameterNoise, params: PyTree) -> bool:
    found = traced(notes, "draw", noise.draw, seed(0), params)
    if found is None:
        return False
    if jax.tree.structure(found) != jax.tree.structure(params):
        notes.find(
            f"draw must return the structure of params, {jax.tree.structure(params)}, got "
            f"{jax.tree.structure(found)}"
        )
        return False
    good = True
    leaves = jax.tree_util.tree_leaves_with_path(params)
    for (path, leaf), got in zip(leaves, jax.tree.leaves(found), strict=True):
        good &= _fits(notes, f"draw{jax.tree_util.keystr(path)}", got, leaf.shape)
    return good


def _data_shapes(notes: Notes, noise: DataNoise, problem: Problem) -> bool:
    key = seed(0)
    step = np.asarray(0, np.int64)
    if isinstance(problem, FiniteData):
        n = problem.n
        k = problem.k
        made: list[PyTree] = []

        def draw(key: Array) -> PyTree:
            made.append(noise.draw(key, n, k))
            return made[0]

        found = traced(notes, "draw", draw, key)
        if found is None:
            return False
        if not isinstance(found, tuple) or len(found) != 2:
            notes.find(f"draw must return a pair (weights, label noise), got {made[0]!r:.80}")
            return False
        good = _fits(notes, "draw: weights", found[0], (n,))
        if not (_fits(notes, "draw: label noise", found[1], (n, k)) and good):
            return False
    found = traced(notes, "batch", lambda key, step: noise.batch(problem, key, step), key, step)
    return found is not None


def _fits(
    notes: Notes, what: str, array: jax.ShapeDtypeStruct | None, shape: tuple[int, ...]
) -> bool:
    if array is None:
        return True
    if getattr(array, "shape", None) != shape:
        notes.find(f"{what} must have shape {shape}, got {getattr(array, 'shape', array)}")
        return False
    if array.dtype != np.float64:
        notes.find(f"{what} must be float64, got {array.dtype}")
        return False
    return True


def claimed_moments(notes: Notes, noise: DataNoise, n: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Cov(w), (n, n), and Var(ε), (n,), as claimed."""
    try:
        covariance, variance = noise.moments(n)
        matrix = np.zeros((n, n)) if covariance is None else np.asarray(covariance, np.float64)
        labels = np.asarray(0.0 if variance is None else variance, np.float64)
    except Exception as error:  # whatever the user's code raises is a finding
        notes.find(f"moments must return (covariance, variance): {said(error)}")
        return None
    before = len(notes.findings)
    if matrix.shape != (n, n):
        notes.find(f"moments: the covariance must have shape {(n, n)}, got {matrix.shape}")
    elif not np.isfinite(matrix).all():
        notes.find("moments: the covariance must be finite")
    elif relative(matrix, matrix.T) > SAME:
        notes.find("moments: the covariance must be symmetric")
    elif np.linalg.eigvalsh(matrix)[0] < -1e-9 * max(np.abs(matrix).max(), 1e-300):
        least = np.linalg.eigvalsh(matrix)[0]
        notes.find(f"moments: the covariance must not have the negative eigenvalue {least:.3g}")
    if labels.shape not in ((), (n,)):
        notes.find(f"moments: the variance must be a number or ({n},), got {labels.shape}")
    elif not (np.isfinite(labels).all() and np.all(labels >= 0)):
        notes.find("moments: the variance must be finite and not negative")
    if len(notes.findings) > before:
        return None
    return matrix, np.broadcast_to(labels, (n,))
