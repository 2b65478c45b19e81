"""Do the two arms take the same path?"""

from collections.abc import Callable, Iterable

import numpy as np

import gradbias as gb

from .protocol import Loop


def largest_difference(
    setups: Iterable[gb.Setup], loop: Callable[[gb.Setup], Loop], steps: int = 200
) -> float:
    """Of all predictors at every step, between gradbias and a loop."""
    worst = 0.0
    for setup in setups:
        short = setup.replace(
            until=gb.Until(steps=steps), record=[gb.observe.theta], save_at=range(steps + 1)
        )
        ours = gb.simulate(short, progress=False).data["theta"].values
        worst = max(worst, float(np.abs(ours - loop(setup).path(steps)).max()))
    return worst
