"""Do all arms take the same path?"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

import gradbias as gb

from .protocol import Rival


def largest_difference(
    setups: Iterable[gb.Setup], loop: Callable[[gb.Setup], Rival], steps: int = 200
) -> float:
    """Of all predictors at every step, between gradbias and a loop that trains one member."""
    return max(
        float(np.abs(path_of(setup, steps) - loop(setup).path(steps)).max()) for setup in setups
    )


def difference_together(
    setups: Sequence[gb.Setup], rival: Callable[[Sequence[gb.Setup]], Rival], steps: int = 200
) -> float:
    """The same for a loop that trains all members at once."""
    ours = np.stack([path_of(setup, steps) for setup in setups])
    return float(np.abs(ours - rival(setups).path(steps)).max())


def path_of(setup: gb.Setup, steps: int) -> np.ndarray:
    """The predictors of gradbias, at the start and after each step."""
    short = setup.replace(
        until=gb.Until(steps=steps), record=[gb.observe.theta], save_at=range(steps + 1)
    )
    return gb.simulate(short, progress=False).data["theta"].values
