"""How large errors of a reduced run may have become, by what was seen along it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..numerics.types import PyTree
from ..reductions import largest_between
from .compiled_loop import UNSEEN, Trail

if TYPE_CHECKING:
    from .host_loop import Prepared

EXACT = 1e-10  # what a reduced run promises, relative to a layer
# Along random steps the growth is bounded in mean square: by Chebyshev, one run of ten thousand at
# most has errors a hundred times as large.
BY_CHANCE = 100.0


class ErrorGrowth:
    """Collects what bounds the growth of errors of the members.

    Args:
        starts: the members.
    """

    def __init__(self, starts: "list[Prepared]"):
        self.starts = starts
        self.watched = starts[0].system.growth is not None
        self.seen: list[tuple[np.ndarray, ...]] = []

    def note(self, trail: Trail) -> None:
        """What a compiled call has shown."""
        if self.watched:
            self.seen.append((trail.clocks, trail.slopes, trail.looks))

    def largest(self, params: PyTree) -> np.ndarray:
        """The largest error that each member may have now, relative to its smallest layer.

        Args:
            params: of all members at their ends.
        """
        found = np.zeros(len(self.starts))
        if not self.watched:
            return found
        names = [name for name in params if name != "rest"]
        ends = np.stack([_sizes(params[name]) for name in names])
        begun = np.stack([_sizes(np.stack([s.params[n] for s in self.starts])) for n in names])
        least = np.maximum(ends, begun).min(axis=0)
        grown = self._logarithms()
        chance = np.array([BY_CHANCE if s.dynamics.draws else 1.0 for s in self.starts])
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = chance * np.exp(grown) * ([s.rounding for s in self.starts] / least)
        return np.where(np.isnan(found), np.inf, found)

    def _logarithms(self) -> np.ndarray:
        """∫‖M‖ dt + ½ lr ∫‖M − mean‖² dt of each member."""
        clocks, slopes, looks = (
            np.concatenate(parts, axis=1) for parts in zip(*self.seen, strict=True)
        )
        at = looks[:, :, 0] != UNSEEN
        each = zip(self.starts, clocks, slopes, looks, at, strict=True)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([_logarithm(s, c[at], a[at], b[at].T) for s, c, a, b, at in each])


def _logarithm(
    start: "Prepared", clocks: np.ndarray, slopes: np.ndarray, looks: np.ndarray
) -> float:
    growth = start.system.growth
    dynamics = start.dynamics
    along = np.diff(slopes)
    noise = np.maximum(looks[0, :-1], looks[0, 1:])
    norms = looks[1:]
    if not dynamics.draws and not growth.at_looks:
        return float(np.sum(along))
    steps = np.diff(clocks)
    kick = noise * _kicks(dynamics, clocks)
    if not growth.at_looks:
        others = growth.others([*np.maximum(norms[:, :-1], norms[:, 1:])])
        return float(np.sum(along) + 0.5 * np.sum(steps * (kick * others) ** 2))
    way = along + steps * kick
    if float(getattr(dynamics, "momentum", 0.0)) > 0:  # it goes on with what came before
        way = way + np.concatenate([[0.0], way[:-1]])
    shrink = float(dynamics.weight_decay) > 0
    others = growth.others([*largest_between(norms[:, :-1], norms[:, 1:], way, shrink)])
    # No way, no growth, however large the factors are.
    each = np.where(way > 0, along * others + 0.5 * steps * (kick * others) ** 2, 0.0)
    return float(np.sum(each))


def _kicks(dynamics: Any, clocks: np.ndarray) -> np.ndarray:
    """By how much the noise in the slope of a step moves a run, on each stretch."""
    if not dynamics.counts_steps:
        return np.zeros(len(clocks) - 1)
    steps = np.diff(clocks)
    time = np.diff(dynamics.time(clocks)) / np.where(steps > 0, steps, 1)
    if dynamics.axis == "time":
        return np.sqrt(float(dynamics.lr) * time)
    return time / (1 - float(dynamics.momentum))


def _sizes(stacked: np.ndarray) -> np.ndarray:
    """The norms of some matrices; without overflow or underflow of their squares."""
    largest = np.abs(stacked).max(axis=(1, 2), initial=0.0)
    unit = stacked / np.where(largest > 0, largest, 1.0)[:, None, None]
    return largest * np.sqrt(np.sum(unit * unit, axis=(1, 2)))
