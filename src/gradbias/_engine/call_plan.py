"""Which segments a compiled call has: a function of the run alone, never of the machine's speed."""

import math
from typing import NamedTuple

import numpy as np


class Plan(NamedTuple):
    """The segments of a compiled call.

    Attributes:
        starts: where they start.
        targets: where they end.
        checks: which ends are looked at for convergence.
        saves: which ends are measured.
    """

    starts: np.ndarray
    targets: np.ndarray
    checks: np.ndarray
    saves: np.ndarray


def plan_call(
    clock: float,
    stops: np.ndarray,
    every: int | None,
    end: float,
    slots: int,
    first: bool,
    grain: int = 1024,
) -> Plan:
    """The next segments: each ends at a save or limit, at a check, or where a call may end.

    So a run has the same segments, and the same bits, however fast the machine is.

    Args:
        clock: where the call starts.
        stops: clock values that a segment must end at, in order: saves and limits. All are
            measured: limits are few.
        every: look for convergence on multiples of this; None for every segment.
        end: where the call ends at the latest; may be infinite.
        slots: how many segments the compiled program has; unused ones repeat the last.
        first: is this the first call? Its first segment looks at the start itself.
        grain: calls end on multiples of this, where steps are counted.
    """
    start = clock
    targets, checks, saves = ([clock], [True], [True]) if first else ([], [], [])
    ahead = int(np.searchsorted(stops, clock, side="right"))
    while len(targets) < slots and clock < end:
        ends = [end] if ahead == len(stops) else [end, stops[ahead]]
        if every is not None:
            ends += [(clock // every + 1) * every, (clock // grain + 1) * grain]
        elif ahead == len(stops) and not np.isfinite(end):
            ends.append(max(1.0, math.ldexp(1.0, math.frexp(clock)[1])))  # the next power of two
        clock = min(ends)
        stops_here = ahead < len(stops) and clock == stops[ahead]
        ahead += stops_here
        targets.append(clock)
        saves.append(stops_here)
        checks.append(every is None or clock % every == 0)
    unused = slots - len(targets)
    dtype = np.float64 if every is None else np.int64
    targets += [targets[-1]] * unused
    return Plan(
        np.asarray([start, *targets[:-1]], dtype),
        np.asarray(targets, dtype),
        np.asarray(checks + [False] * unused),
        np.asarray(saves + [False] * unused),
    )


def plan_end(clocks: np.dtype, slots: int) -> Plan:
    """No steps: only what is measured where the members are."""
    nowhere = np.zeros(slots, clocks)
    never = np.zeros(slots, bool)
    return Plan(nowhere, nowhere, never, np.arange(slots) == 0)


def segments_that_fit(size: int) -> int:
    """How many segments a call may have if each of them hands out so many bytes.

    Two megabytes of them, but at least 16 that fit into 32: memory that is asked for anew at every
    call costs as much as the steps, and so does a call.
    """
    size = max(size, 1)
    return int(np.clip(2**21 // size, np.clip(2**25 // size, 4, 16), 128))
