"""A sweep with what the theorems say of every member beside it."""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from . import _sweep
from ._grid import Grid
from ._setup import Setup

if TYPE_CHECKING:  # most sweeps ask no theorem
    from .theorems import Theorem


def sweep(
    build: Callable[..., Setup],
    over: Mapping[str, Iterable[Any]],
    store: str | os.PathLike[str] | None = None,
    executor: Any = None,
    record: Any = None,
    progress: bool | None = None,
    *,
    chunk: int | None = None,
    predict: str | None = None,
) -> xr.Dataset:
    """Run a setup for every point of a grid; members of one shape run as one compiled program.

    Results have the same bits whatever the executor, the order and the number of restarts, on one
    type of processor, version of jax and number of XLA's threads. `simulate(build(**point))`
    repeats a member up to rounding.

    Args:
        build: returns the Setup of a point, `build(scale=0.1, seed=3)`; called in this process,
            and twice for members that do not fit into memory.
        over: the axes of the grid, `{"scale": [0.1, 1.0], "seed": range(10)}`; values are numbers
            or strings.
        store: a folder that holds every finished chunk; the same call goes on where the last one
            was stopped. A changed `build` or `over` is refused.
        executor: None computes in this process, a number in so many others; or any
            `concurrent.futures.Executor`, such as dask's `client.get_executor()`.
        record: what to save, for all members; by default what each Setup says.
        progress: show a line while it runs; by default where a person may be looking. False also
            silences the estimate that is printed before anything longer than 30 s.
        chunk: members that run together; by default as many as memory and a loss of about 20 s in
            a crash allow. Another number changes results by rounding only.
        predict: a pattern of theorem ids, such as "rank1.thm1"; then `x_predicted` stands beside
            the measured quantities, NaN where the theorem does not apply, and `applies` says
            where it does.

    Returns:
        A Dataset with the axes of `over` and `step` or `time`: every observable `x`, its value
        `x_end` where the member stopped, `status` (see its flag_meanings) and `stopped_at`. With
        a store, values are read from its `sweep.nc` when they are used.
    """
    theorems = [] if predict is None else _before_the_run(predict)
    data = _sweep.sweep(build, over, store, executor, record, progress, chunk=chunk)
    return data.assign(_foretold(build, Grid.of(over), theorems, data)) if theorems else data


def _before_the_run(pattern: str) -> "list[Theorem]":
    """The theorems that need nothing from a run."""
    from .theorems import find

    found = [theorem for theorem in find(pattern) if not theorem.given]
    if not found:
        raise ValueError(f"predict={pattern!r}: these theorems take something from the run")
    return found


def _foretold(
    build: Callable[..., Setup], grid: Grid, theorems: "list[Theorem]", data: xr.Dataset
) -> dict[str, Any]:
    """The new variables: what each theorem says at every point, and where it applies."""
    said = [_said(build(**point), theorems) for point in grid.points()]
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


def _said(setup: Setup, theorems: "list[Theorem]") -> "dict[Theorem, dict[str, np.ndarray]]":
    from ._predict import predict

    found = [p for theorem in theorems for p in predict(setup, theorem)]
    return {p.theorem: {name: np.asarray(v) for name, v in p.value.items()} for p in found}


def _ids(row: "dict[Theorem, Any]") -> set[str]:
    return {theorem.id for theorem in row}


def _variable(
    said: "list[dict[Theorem, dict[str, np.ndarray]]]",
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
