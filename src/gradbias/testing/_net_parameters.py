"""Parameters against what a net says about them."""

from collections.abc import Mapping

import jax
import numpy as np

from ..nets import Net
from ..numerics.types import PyTree
from ._report import Notes, said


def as_float64(notes: Notes, params: PyTree) -> PyTree:
    """The parameters with float64 leaves; None after a finding if they are not numbers."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    if not leaves:
        notes.find(f"params must hold at least one array, got {params!r:.80}")
        return None
    arrays = [_leaf(notes, f"params{jax.tree_util.keystr(path)}", leaf) for path, leaf in leaves]
    if any(array is None for array in arrays):
        return None
    return jax.tree.unflatten(structure, arrays)


def _leaf(notes: Notes, name: str, leaf: object) -> np.ndarray | None:
    try:
        array = np.asarray(leaf)
    except Exception as error:  # anything may be in a PyTree
        notes.find(f"{name} must be an array of real numbers: {said(error)}")
        return None
    if array.dtype.kind not in "fiub":
        notes.find(f"{name} must be an array of real numbers, got {type(leaf).__name__}")
        return None
    if array.dtype.kind == "f" and array.dtype.itemsize < 8:
        notes.find(f"{name} is {array.dtype}: make it in float64")
    result = np.array(array, np.float64)
    if not np.isfinite(result).all():
        notes.find(f"{name} must be finite, got {result[~np.isfinite(result)][0]}")
        return None
    return result


def declared(notes: Notes, net: Net, params: PyTree) -> bool:
    """Do the parameters have the shapes that the net declares?"""
    try:
        shapes = net.shapes()
    except Exception as error:  # whatever the user's code raises is a finding
        notes.find(f"shapes fails: {said(error)}")
        return False
    if shapes is None:
        return True
    if not isinstance(shapes, Mapping) or not all(_is_shape(s) for s in shapes.values()):
        notes.find(f"shapes must return {{name: (sizes,)}} or None, got {shapes!r:.80}")
        return False
    if not isinstance(params, Mapping):
        notes.find(f"shapes declares {sorted(shapes)}, but params are a {type(params).__name__}")
        return False
    wrong = []
    for name in sorted(set(shapes) | set(params)):
        if name not in params:
            wrong.append(f"shapes declares {name!r}, which params do not have")
        elif name not in shapes:
            wrong.append(f"params have {name!r}, which shapes does not declare")
        elif np.shape(params[name]) != tuple(shapes[name]):
            got = np.shape(params[name])
            need = tuple(shapes[name])
            wrong.append(f"shapes declares {need} for {name!r}, but params have {got}")
    for sentence in wrong:
        notes.find(sentence)
    return not wrong


def _is_shape(value: object) -> bool:
    whole = (int, np.integer)
    return isinstance(value, tuple) and all(isinstance(size, whole) for size in value)
