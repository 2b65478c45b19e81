"""Members of a sweep against what theorems say of them."""

from collections.abc import Iterable

import jax
import numpy as np
import xarray as xr

from .._engine.run import Run
from .._engine.setup import Setup
from .._engine.status import Ending, Status
from ..numerics.pytrees import named_leaves
from ..numerics.types import PyTree
from ..observe import Observable, params
from ..theorems import Theorem
from .judge import judged
from .predictions import Prediction
from .runs import NotRecorded
from .verdict import Verdict, undecided
from .which_run import bytes_of_needs

PARAMS = "params"  # the name under which the parameters are recorded
MOST_BYTES = 2**28  # what a sweep may record beside what it was asked for


def needs(setup: Setup, theorems: Iterable[Theorem], members: int) -> dict[str, Observable]:
    """What a sweep must record so that theorems can be compared with each member.

    Args:
        setup: the first member.
        theorems: those that are asked.
        members: how many there are; together they must fit into memory.

    Returns:
        Observables that the setup does not record, by name; less where they are too large.
    """
    room = MOST_BYTES / (members * (len(setup.save_at) + 1))
    size = sum(8 * np.size(leaf) for leaf in jax.tree.leaves(setup.params))
    extra: dict[str, Observable] = {}
    if size <= room and PARAMS not in setup.record:
        extra[PARAMS] = params
        room -= size
    for theorem in theorems:
        if theorem.foreign(setup) or theorem.runs is not None:
            continue
        size = bytes_of_needs(theorem, setup)
        if size <= room:
            extra |= {n: f for n, f in theorem.observables.items() if n not in setup.record}
            room -= size
    return extra


def verdicts_on_member(prediction: Prediction, member: xr.Dataset) -> list[Verdict]:
    """The verdicts of one theorem on one member.

    Args:
        prediction: with the member's setup.
        member: its part of the Dataset of the sweep.
    """
    theorem = prediction.theorem
    if theorem.runs is not None:
        return [undecided(theorem.id, "it needs runs of its own: gb.check(setup) makes them")]
    return judged(prediction, {"run": run_of(prediction.setup, member)})


def run_of(setup: Setup, member: xr.Dataset) -> Run:
    """A member as a run; what the sweep has not recorded, its end among it, is not known."""
    axis = setup.dynamics.axis
    recorded = [str(name) for name in member if f"{name}_end" in member]
    data = member[recorded].assign_coords({axis: setup.save_at}).reset_coords(drop=True)
    ending = Ending(int(member["status"]))
    status = Status(ending, float(member["stopped_at"]), axis, setup.until.gap is not None)
    theta = member["theta_end"].values if "theta_end" in member else None
    ends = {name: member[f"{name}_end"].values for name in recorded if name in setup.record}
    # Of an observable that is a dict of arrays the end is not put together again.
    whole = ends if set(ends) == set(setup.record) - {PARAMS} else None
    return Run(setup, data, _final(setup.params, member), theta, status, {}, whole)


def _final(start: PyTree, member: xr.Dataset) -> PyTree:
    names = [f"{PARAMS}_{name}_end" for name, _ in named_leaves(start)]
    if not all(name in member for name in names):
        return NotRecorded()
    return jax.tree.unflatten(jax.tree.structure(start), [member[name].values for name in names])
