"""A law under the exact closure: the same run, in fewer coordinates."""

from typing import Any

import jax
import numpy as np

from .. import observe
from .._setup import Setup, Until
from .._simulate import simulate
from ..dynamics import Descent
from ..nets import Net
from ..noise import Noise
from ._report import Notes, said
from ._tracing import relative

STEPS, LR = 5, 1e-3
SAME = 1e-8


def check_closure(
    notes: Notes, noise: Noise, problem: Any, net: Net, params: Any, key: int
) -> None:
    """A few steps, reduced and in full."""
    setup = Setup(
        problem, net, params, Descent(LR, noise), Until(steps=STEPS), [observe.loss], [STEPS], key
    )
    moved = []
    for reduce in (False, True):
        try:
            final = simulate(setup, reduce=reduce, progress=False).final
        except Exception as error:  # whatever the user's code raises is a finding
            how = "in the coordinates of the exact closure" if reduce else "in full"
            notes.find(f"a run {how} fails: {said(error)}")
            return
        moved.append(jax.tree.map(lambda a, b: np.asarray(a) - b, final, setup.params))
    full, small = (np.concatenate([x.ravel() for x in jax.tree.leaves(m)]) for m in moved)
    apart = relative(full, small)
    if apart > SAME:
        notes.find(
            f"runs with and without the exact closure differ, by {apart:.2g} of their length: "
            "batch must not look at the inputs, or in_basis must return None"
        )
