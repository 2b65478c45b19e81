"""From the segments of a run to the rows of its record."""

import numpy as np

from ..dynamics import State
from ..dynamics.protocol import AT_REST, CONVERGED, FLOOR, STATIONARY
from .call_plan import Plan
from .compiled_loop import Trail
from .recorder import Recorder
from .setup import Setup
from .stacking import block, pick


class Saves:
    """Which row of the record a clock value is, for each member."""

    def __init__(self, setups: list[Setup], recorder: Recorder):
        self.recorder = recorder
        self.clocks = [setup.save_clock for setup in setups]
        groups: dict[bytes, list[int]] = {}
        for member, clocks in enumerate(self.clocks):
            groups.setdefault(clocks.tobytes(), []).append(member)
        self.groups = [
            (
                np.asarray(members),
                {c: row for row, c in enumerate(self.clocks[members[0]].tolist())},
            )
            for members in groups.values()
        ]

    def take(self, plan: Plan, trail: Trail, stopped: np.ndarray) -> None:
        """Hand what was measured at a save to the recorder, up to where each member is now."""
        at = trail.measured & (plan.targets <= stopped[:, None])
        found = [(plan.targets[j].item(), j) for j in np.flatnonzero(plan.saves).tolist()]
        for members, rows in self.groups:
            saves = [(rows[target], j) for target, j in found if target in rows]
            if saves and at[members][:, [j for _, j in saves]].all():
                self._hand_over(members, saves, trail)
            else:
                for row, j in saves:
                    self._hand_over(members[at[members, j]], [(row, j)], trail)

    def fill(self, states: State, there: Trail, counts: bool) -> None:
        """States that no longer move are those of all later saves; the end has a row of its own."""
        ends = [STATIONARY, FLOOR, AT_REST] + ([] if counts else [CONVERGED])
        still = np.isin(states.code, ends)
        later = np.stack(self.clocks) > states.clock[:, None]  # (members, saves)
        everyone = np.arange(len(self.clocks))
        self._hand_over(everyone, [(self.recorder.total - 1, 0)], there)
        self.recorder.repeat_end(later & still[:, None])

    def _hand_over(self, members: np.ndarray, saves: list[tuple[int, int]], trail: Trail) -> None:
        """Of some members, the rows of the record that these segments are."""
        if len(members):
            rows, slots = np.transpose(saves)
            chosen = block(members, slots)
            values, params = pick((trail.values | trail.sums, trail.params), chosen)
            self.recorder.take(members, rows, values, params)
