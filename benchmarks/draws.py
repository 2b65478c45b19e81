"""The draws of gradbias as arrays, so that every rival sees the same batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import gradbias as gb
from gradbias.numerics import counter_rng


def dynamics_of(setup: gb.Setup) -> Any:
    """Its dynamics; every workload has Descent."""
    return setup.dynamics


def batches(setups: Sequence[gb.Setup], steps: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows (members, steps, batch), and label noise shaped like the labels of a batch, if any."""
    drawn = [
        [
            dynamics_of(setup).noise.batch(setup.problem, counter_rng.seed(setup.key), k)
            for k in range(steps)
        ]
        for setup in setups
    ]
    rows = np.array([[batch.indices for batch in member] for member in drawn])
    if drawn[0][0].label_noise is None:
        return rows, None
    noise = [[np.reshape(batch.label_noise, -1) for batch in member] for member in drawn]
    return rows, np.array(noise)
