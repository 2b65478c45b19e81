"""What a monitor must keep for a run that is stopped and taken up again.

Everything is a number, a word, a tensor, or lists and dicts of them, so that `torch.load` with
`weights_only=True` reads it.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .csv_log import CsvLog
from .drift import Moved
from .steps import ChargeSplit

if TYPE_CHECKING:
    from .monitor import Monitor

State = dict[str, Any]


def state_of(monitor: "Monitor") -> State:
    """All that later measurements depend on; of a process that does not measure, nothing."""
    if not monitor.speaks:
        return {}
    readings = monitor.readings
    columns = monitor._log._columns if isinstance(monitor._log, CsvLog) else []
    return {
        "families": [[f.name, f.units] for f in monitor.families],
        "history": [[step, dict(values)] for step, values in monitor.history],
        "whole": monitor._whole,
        "clock": monitor.clock.state(),
        "columns": list(columns),
        "start": dict(monitor._start),
        "sums": {name: list(split) for name, split in monitor._sums.items()},
        "split": {name: list(split) for name, split in monitor._split.items()},
        "vector": readings._vector,
        "drift": {
            "moved": {name: _tensors(moved) for name, moved in monitor.drift.moved.items()},
            "rates": [[k, *rates] for k, rates in monitor.drift._rates.items()],
            "last": {name: _tensors(last) for name, last in monitor.drift._last.items()},
        },
    }


def restore(monitor: "Monitor", state: Mapping[str, Any]) -> None:
    """Go on from a state.

    Args:
        monitor: of the same model, whose parameters have been restored.
        state: from `state_of`.
    """
    if not (monitor.speaks and state):
        return
    mine = [[f.name, f.units] for f in monitor.families]
    theirs = [list(family) for family in state["families"]]
    if mine != theirs:
        raise ValueError(
            f"state must be of a monitor of the same families, got {theirs}, needs {mine}"
        )
    where = {name: charge.device for name, charge in monitor._start.items()}
    monitor.history[:] = [(int(step), dict(values)) for step, values in state["history"]]
    monitor._whole = state["whole"]
    monitor.clock.restore(state["clock"])
    if isinstance(monitor._log, CsvLog):
        monitor._log._columns = list(state["columns"])
    monitor._start = {name: c.to(where[name]) for name, c in state["start"].items()}
    monitor._sums = _splits(state["sums"], where)
    monitor._split = _splits(state["split"], where)
    vector = state["vector"]
    like = next(iter(monitor.model.parameters()))
    monitor.readings._vector = None if vector is None else vector.to(like)
    drift = state["drift"]
    monitor.drift.moved = {name: Moved(*_arrays(parts)) for name, parts in drift["moved"].items()}
    monitor.drift._rates = {int(k): (square, first) for k, square, first in drift["rates"]}
    monitor.drift._last = {name: _arrays(parts) for name, parts in drift["last"].items()}


def _splits(
    parts: Mapping[str, list[torch.Tensor]], where: Mapping[str, torch.device]
) -> dict[str, ChargeSplit]:
    return {name: ChargeSplit(*(t.to(where[name]) for t in three)) for name, three in parts.items()}


def _tensors(arrays: tuple[np.ndarray, ...]) -> list[torch.Tensor]:
    return [torch.from_numpy(np.array(array)) for array in arrays]


def _arrays(tensors: list[torch.Tensor]) -> tuple[np.ndarray, ...]:
    return tuple(tensor.cpu().numpy() for tensor in tensors)
