"""What the theorems say of every member of a sweep, beside what was measured."""

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import xarray as xr

from .._engine.setup import Setup
from .grid import Grid

if TYPE_CHECKING:  # most sweeps ask no theorem
    from ..theorems import Theorem

Predicted: TypeAlias = "dict[Theorem, dict[str, np.ndarray]]"


def before_the_run(pattern: str) -> "list[Theorem]":
    """The theorems that need nothing from a run."""
    from ..theorems import find

    found = [theorem for theorem in find(pattern) if not theorem.given]
    if not found:
        raise ValueError(f"predict={pattern!r}: these theorems take something from the run")
    return found


def predicted_variables(
    said: list[Predicted], grid: Grid, theorems: "list[Theorem]", data: xr.Dataset
) -> dict[str, Any]:
    """The new variables: what each theorem says at every point, and where it applies.

    Args:
        said: what `predicted_values` returned, for every point.
        grid: the points.
        theorems: those that were asked.
        data: what was measured.
    """
    quantities = {
        (theorem.id, name): value.shape
        for row in said
        for theorem, values in row.items()
        for name, value in values.items()
    }
    names = [name for _, name in quantities]
    variables: dict[str, Any] = {}
    for (theorem, quantity), shape in quantities.items():
        clash = names.count(quantity) > 1
        label = f"{quantity}_predicted" + (f"_{theorem}" if clash else "")
        variables[label] = _variable(said, theorem, quantity, shape, grid, data)
    applies = np.asarray([[theorem.id in _ids(row) for theorem in theorems] for row in said])
    if len(theorems) == 1:
        variables["applies"] = (grid.names, applies[:, 0].reshape(grid.shape))
    else:
        ids = [theorem.id for theorem in theorems]
        variables["applies"] = ((*grid.names, "theorem"), applies.reshape(*grid.shape, len(ids)))
        variables["theorem"] = ("theorem", ids)
    return variables


def predicted_values(setup: Setup, theorems: "list[Theorem]") -> Predicted:
    """What the theorems that apply say of a member."""
    from .._verdicts.predict import predict

    found = [p for theorem in theorems for p in predict(setup, theorem)]
    return {p.theorem: {name: np.asarray(v) for name, v in p.value.items()} for p in found}


def _ids(row: Predicted) -> set[str]:
    return {theorem.id for theorem in row}


def _variable(
    said: list[Predicted],
    theorem: str,
    quantity: str,
    shape: tuple[int, ...],
    grid: Grid,
    data: xr.Dataset,
) -> tuple[tuple[str, ...], np.ndarray]:
    """One quantity at all points; members where it has another shape are refused."""
    values = np.full((len(said), *shape), np.nan)
    for i, row in enumerate(said):
        for told, found in row.items():
            if told.id == theorem and quantity in found:
                if found[quantity].shape != shape:
                    raise ValueError(
                        f"predict: {theorem} gives {quantity!r} of shape {shape} at one point and "
                        f"{found[quantity].shape} at {grid.point(i)}"
                    )
                values[i] = found[quantity]
    return (*grid.names, *_dims(quantity, shape, grid, data)), values.reshape(*grid.shape, *shape)


def _dims(quantity: str, shape: tuple[int, ...], grid: Grid, data: xr.Dataset) -> tuple[str, ...]:
    """The names that the measured quantity gives to its axes, so that the two can be compared."""
    measured = data.get(f"{quantity}_end")
    own = () if measured is None else tuple(str(d) for d in measured.dims if d not in grid.names)
    if measured is not None and tuple(measured.sizes[d] for d in own) == shape:
        return own
    return tuple(f"{quantity}_predicted_axis{i}" for i in range(len(shape)))
