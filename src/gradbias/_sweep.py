"""Grids of setups → one Dataset: members of one shape run as one program."""

import itertools
import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from ._drive import Start
from ._members import shape_of
from ._progress import Progress
from ._run import CONVENTION, variables_of, versions
from ._setup import Setup
from ._simulate import Done, run_members
from ._start import start_of
from ._status import Ending
from .numerics.linalg import one_blas_thread
from .numerics.precision import host

CHUNK_BYTES = 2**26  # saved states of the members that run together
MOST_MEMBERS = 1024  # in one chunk


@host
def sweep(
    build: Callable[..., Setup],
    over: Mapping[str, Iterable[Any]],
    record: Any = None,
    progress: bool | None = None,
) -> xr.Dataset:
    """Run a setup for every point of a grid; members of one shape run as one compiled program.

    Args:
        build: returns the Setup of a point, `build(scale=0.1, seed=3)`.
        over: the axes of the grid, `{"scale": [0.1, 1.0], "seed": range(10)}`; values are numbers
            or strings.
        record: what to save, for all members; by default what each Setup says.
        progress: show a line while it runs; by default where a person may be looking.

    Returns:
        A Dataset with the axes of `over` and `step` or `time`: every observable `x`, its value
        `x_end` where the member stopped, `status` (see its flag_meanings) and `stopped_at`.
    """
    axes = _axes(over)
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    setups = [_built(build, point, record) for point in points]
    _check_alike(setups, points)
    with one_blas_thread():
        starts = [start_of(setup, True) for setup in setups]
    pieces: list[tuple[list[int], Done]] = []
    chunks = _chunks(starts)
    with Progress(f"sweep of {len(setups)}", progress) as bar:
        for i, members in enumerate(chunks):
            part = _Part(bar, i, len(chunks))
            chosen = [starts[m] for m in members]
            pieces.append((members, run_members(chosen, part)))
    return _dataset(axes, setups, pieces)


class _Part(Progress):
    """The progress of one chunk as part of the whole."""

    def __init__(self, whole: Progress, index: int, count: int):
        self.whole, self.index, self.count = whole, index, count

    def update(self, fraction: float, note: str) -> None:
        self.whole.update((self.index + fraction) / self.count, note)


def _axes(over: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    if not isinstance(over, Mapping) or not over:
        raise ValueError(f"over must be a dict of axes, got {over!r:.80}")
    axes = {}
    for name, values in over.items():
        if not isinstance(name, str) or not name.isidentifier() or name in ("step", "time"):
            raise ValueError(f"over: {name!r} cannot be the name of an axis")
        values = values if isinstance(values, str | np.ndarray | list) else list(values)
        axes[name] = np.asarray(values).tolist()
        if np.ndim(values) != 1 or not axes[name] or np.asarray(values).dtype.kind not in "iufbU":
            raise ValueError(
                f"over[{name!r}] must be a list of numbers or of strings, got {values!r:.80}"
            )
    return axes


def _built(build: Callable[..., Setup], point: dict[str, Any], record: Any) -> Setup:
    setup = build(**point)
    if not isinstance(setup, Setup):
        raise ValueError(f"build must return a gb.Setup, got {type(setup).__name__} at {point}")
    return setup if record is None else setup.replace(record=record)


def _check_alike(setups: list[Setup], points: list[dict[str, Any]]) -> None:
    """One Dataset needs one time axis and one set of variables."""

    def layout(setup: Setup) -> tuple[Any, ...]:
        return setup.dynamics.axis, len(setup.save_at), tuple(setup.record)

    names = ("time axis", "number of saves", "record")
    for setup, point in zip(setups, points, strict=True):
        for name, a, b in zip(names, layout(setups[0]), layout(setup), strict=True):
            if a != b:
                raise ValueError(
                    f"all members need the same {name}, got {a!r} at {points[0]} and {b!r} at "
                    f"{point}"
                )


def _group(start: Start) -> Hashable:
    """What members must have in common to run as one program."""
    setup, dynamics = start.setup, start.dynamics
    record = {name: f.bind(setup.problem, setup.net) for name, f in setup.record.items()}
    tree = (start.system, start.stepper, start.params, start.lift, setup.problem, setup.net, record)
    return (
        shape_of(tree),
        type(dynamics),
        callable(getattr(dynamics, "lr", None)),
        setup.until.check_every,
    )


def _chunks(starts: list[Start]) -> list[list[int]]:
    """Members that run together; a function of the whole grid alone."""
    groups: dict[Hashable, list[int]] = {}
    for member, start in enumerate(starts):
        groups.setdefault(_group(start), []).append(member)
    chunks = []
    for members in groups.values():
        first = starts[members[0]]
        state = sum(leaf.nbytes for leaf in jax.tree.leaves(first.params))
        rows = len(first.setup.save_at) + 1
        size = int(np.clip(CHUNK_BYTES // max(state * rows, 1), 1, MOST_MEMBERS))
        size = -(-len(members) // -(-len(members) // size))  # chunks of about equal size
        chunks += [members[i : i + size] for i in range(0, len(members), size)]
    return chunks


def _dataset(
    axes: dict[str, list[Any]], setups: list[Setup], pieces: list[tuple[list[int], Done]]
) -> xr.Dataset:
    shape = tuple(map(len, axes.values()))
    status, stopped = np.zeros(len(setups), np.int64), np.zeros(len(setups))
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for members, done in pieces:
        status[members] = [int(s.ending) for s in done.statuses]
        stopped[members] = [s.at for s in done.statuses]
        for name, (dims, values) in variables_of(setups[members[0]], done.values).items():
            if name not in arrays:
                total = (len(setups), len(values), *values.shape[2:])
                arrays[name] = dims, np.full(total, np.nan)
            if values.shape[2:] != arrays[name][1].shape[2:]:
                raise ValueError(
                    f"record: {name!r} must have one shape in all members, got "
                    f"{arrays[name][1].shape[2:]} and {values.shape[2:]}"
                )
            arrays[name][1][members] = np.swapaxes(values, 0, 1)
    grid, axis = tuple(axes), setups[0].dynamics.axis
    variables: dict[str, Any] = {
        "status": (grid, status.reshape(shape), _flags()),
        "stopped_at": (grid, stopped.reshape(shape)),
    }
    for name, (dims, values) in arrays.items():
        whole = values.reshape(*shape, *values.shape[1:])
        before = (slice(None),) * len(grid)
        variables[name] = ((*grid, axis, *dims), whole[(*before, slice(0, -1))])
        variables[f"{name}_end"] = ((*grid, *dims), whole[(*before, -1)])
    attrs = {
        "convention": json.dumps(CONVENTION),
        "versions": json.dumps(versions()),
        "net": repr(setups[0].net),
    }
    return xr.Dataset(variables, {**axes, **_saves(grid, shape, setups)}, attrs)


def _flags() -> dict[str, Any]:
    return {
        "flag_values": [int(e) for e in Ending],
        "flag_meanings": " ".join(e.name.lower() for e in Ending),
    }


def _saves(grid: tuple[str, ...], shape: tuple[int, ...], setups: list[Setup]) -> dict[str, Any]:
    """The axis of saves; where members save at different points, those are a variable beside it."""
    axis, saves = setups[0].dynamics.axis, np.stack([setup.save_at for setup in setups])
    alike = bool((saves == saves[0]).all())
    coords: dict[str, Any] = {}
    if alike:
        coords[axis] = saves[0]
    else:
        coords[f"saved_at_{axis}"] = ((*grid, axis), saves.reshape(*shape, -1))
    if axis == "step":
        times = np.stack([setup.dynamics.time(setup.save_at) for setup in setups])
        same = bool((times == times[0]).all())
        coords["time"] = ("step", times[0]) if same else ((*grid, axis), times.reshape(*shape, -1))
    return coords
