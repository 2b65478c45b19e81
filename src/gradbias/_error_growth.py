"""How far errors of a reduced run may have grown, by what was seen along it."""

from typing import Any

import numpy as np

from ._chunks import UNSEEN, Trail
from .dynamics import Dynamics

EXACT = 1e-10  # what a reduced run promises, relative to a layer


class ErrorGrowth:
    """Collects the rates at which errors of the members can grow.

    Args:
        starts: the members.
    """

    def __init__(self, starts: list[Any]):
        self.starts = starts
        self.asked = [m for m, start in enumerate(starts) if start.rounding > 0]
        self.clocks: list[np.ndarray] = []
        self.rates: list[np.ndarray] = []

    def note(self, trail: Trail) -> None:
        """What a chunk has shown."""
        if self.asked:
            self.clocks.append(np.asarray(trail.clocks)[self.asked])
            self.rates.append(np.asarray(trail.rates)[self.asked])

    def bounds(self, params: Any) -> np.ndarray:
        """The largest error that each member may have now, relative to a layer.

        Args:
            params: of all members at their ends.
        """
        found = np.zeros(len(self.starts))
        if not self.asked:
            return found
        clocks, rates = (np.concatenate(parts, axis=1) for parts in (self.clocks, self.rates))
        ends = {name: value for name, value in params.items() if name != "rest"}
        sizes = {name: _sizes(value) for name, value in ends.items()}
        for m, clock, rate in zip(self.asked, clocks, rates, strict=True):
            start, seen = self.starts[m], np.any(rate != UNSEEN, axis=-1)
            grown = _logarithm(start.dynamics, clock[seen], rate[seen])
            least = min(max(sizes[name][m], _sizes(start.params[name][None])[0]) for name in ends)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                found[m] = np.exp(grown) * (start.rounding / least)
        return np.where(np.isnan(found), np.inf, found)


def _logarithm(dynamics: Dynamics, clocks: np.ndarray, rates: np.ndarray) -> float:
    """∫‖M‖ dt + ½ lr ∫‖M‖² dt, each taken at the larger end of every stretch."""
    lengths, between = np.diff(dynamics.time(clocks)), np.diff(clocks)
    faster = 1 / (1 - float(getattr(dynamics, "momentum", 0.0)))
    if dynamics.axis == "step":
        lr = lengths / np.where(between > 0, between, 1)
    else:
        lr = float(getattr(dynamics, "lr", 0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        drift, noise = np.maximum(rates[:-1], rates[1:]).T
        return float(np.sum(faster * lengths * (drift + 0.5 * faster * lr * noise)))


def _sizes(stacked: np.ndarray) -> np.ndarray:
    """The norms of some matrices; without overflow or underflow of their squares."""
    largest = np.abs(stacked).max(axis=(1, 2), initial=0.0)
    unit = stacked / np.where(largest > 0, largest, 1.0)[:, None, None]
    return largest * np.sqrt(np.sum(unit * unit, axis=(1, 2)))
