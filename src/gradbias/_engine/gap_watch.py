"""What the gaps of a run say: how far it is, and whether rounding keeps it from falling on."""

from typing import TYPE_CHECKING

import jax
import numpy as np

from ..dynamics import State
from ..dynamics.protocol import FLOOR, RUNNING, STIFF
from ..numerics.progress import Ends
from .compiled_loop import Trail
from .stacking import pick

if TYPE_CHECKING:
    from .host_loop import MemberStack

TELLING = 0.25  # of the way that a gap falls, before its pace says when the run ends


class GapWatch:
    """The gaps of all members: the first, the lowest, and descent that rounding keeps above.

    Args:
        ensemble: the members.
    """

    def __init__(self, ensemble: "MemberStack"):
        members = len(ensemble.starts)
        self.ends = ensemble.ends
        self.counts = ensemble.counts
        self.unlimited = ensemble.unlimited
        self.wanted = ensemble.wanted
        self.unknown = ensemble.unknown
        self.first_gaps = np.full(members, np.nan)
        self.gaps = np.full(members, np.nan)
        self.lowest = np.full(members, np.inf)
        self.lowest_at = np.zeros(members)

    def look(self, states: State, trail: Trail) -> State:
        """Note the gaps of a call; returns the states, stopped where they are at their floor."""
        if np.isnan(self.first_gaps).all():
            self.first_gaps = np.asarray(trail.gaps[:, 0])
        seen = np.isfinite(trail.gaps)
        last = trail.gaps.shape[1] - 1 - np.argmax(seen[:, ::-1], axis=1)
        self.gaps = np.where(seen.any(axis=1), trail.gaps[np.arange(len(last)), last], self.gaps)
        if not (self.counts and self.unlimited.any()):
            return states
        for j in np.flatnonzero(seen.any(axis=0)).tolist():
            states = self._look_for_floor(states, trail, j)
        return states

    def _look_for_floor(self, states: State, trail: Trail, j: int) -> State:
        """Look at the gaps of one segment, in the order in which they were."""
        gaps = trail.gaps[:, j]
        clocks = trail.clocks[:, j]
        lower = gaps < self.lowest  # false where it was not looked at: infinite or NaN
        self.lowest = np.where(lower, gaps, self.lowest)
        self.lowest_at = np.where(lower, clocks, self.lowest_at)
        # Twice as many steps brought nothing: rounding keeps it above any smaller gap.
        floor = (self.unknown | (self.lowest <= 1e-20 * self.first_gaps)) & self.unlimited
        floor &= (clocks > 2 * self.lowest_at + 10_000) & (states.code == RUNNING)
        if not floor.any():
            return states
        there = states._replace(params=pick(trail.params, (slice(None), j)),
                                sums=pick(trail.sums, (slice(None), j)), clock=clocks,
                                code=np.full_like(states.code, FLOOR))  # fmt: skip
        return jax.tree.map(lambda new, old: _chosen(floor, new, old), there, states)

    def how_far(self, states: State) -> tuple[float, str, Ends]:
        """The fraction done, a note, and what its pace says about the end."""
        goal = self.ends.goal
        first = self.first_gaps
        fractions = np.where(self.unlimited, 0.0, states.clock / self.ends.limit)
        falls = (
            (not self.unknown) & (goal > 0) & (self.gaps > 0) & (self.gaps < first) & (goal < first)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            by_gap = np.where(falls, np.log(first / self.gaps) / np.log(first / goal), 0.0)
        running = np.isin(states.code, [RUNNING, STIFF])
        # A gap that does not fall yet may still do so at any time, and at first falls at any pace.
        asked = running & (goal > -np.inf)
        sooner = (asked & (by_gap < fractions))[: self.wanted].any()
        unsure = (asked & (by_gap >= fractions) & (by_gap < TELLING))[: self.wanted].any()
        fractions = np.where(running, np.minimum(np.maximum(fractions, by_gap), 1.0), 1.0)
        unit = "step" if self.counts else "time"
        slowest = int(np.argmin(fractions))
        clock = float(states.clock[slowest])
        gap = self.gaps[slowest]
        seen = f", gap {gap:.2e}" if np.isfinite(gap) else ""
        done = float(fractions[: self.wanted].mean())
        return (
            done,
            f"{unit} {clock:g}{seen}",
            "unknown" if unsure else "at most" if sooner else "about",
        )


def _chosen(members: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    return np.where(members.reshape(-1, *[1] * (np.ndim(old) - 1)), new, old)
