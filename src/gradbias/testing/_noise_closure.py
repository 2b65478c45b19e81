"""A law under the exact closure: the same run, in fewer coordinates."""

import jax
import numpy as np

from .. import observe
from .._engine.setup import Setup, Until
from .._engine.simulate import simulate
from ..dynamics import Descent, gradient
from ..nets import Net
from ..noise import Noise
from ..numerics.types import PyTree
from ..problems import Problem
from ._report import Notes, said

STEPS = 5
STRIDE = 1e-3  # the length of a step, relative to the parameters
SAME = 1e-8


def check_closure(
    notes: Notes, noise: Noise, problem: Problem, net: Net, params: PyTree, key: int
) -> None:
    """A few steps, reduced and in full."""
    start = _flat(params)
    slope = np.linalg.norm(_flat(gradient(problem, net, params)))
    lr = STRIDE * np.linalg.norm(start) / slope if slope > 0 else STRIDE
    descent = Descent(float(lr), noise)
    setup = Setup(problem, net, params, descent, Until(steps=STEPS), [observe.loss], [STEPS], key)
    moved = []
    for reduce in (False, True):
        try:
            moved.append(_flat(simulate(setup, reduce=reduce, progress=False).final) - start)
        except Exception as error:  # whatever the user's code raises is a finding
            how = "in the coordinates of the exact closure" if reduce else "in full"
            notes.find(f"a run {how} fails: {said(error)}")
            return
    full, small = moved
    apart, length = (float(np.linalg.norm(x)) for x in (full - small, full))
    if apart > SAME * length + 1e-13 * np.linalg.norm(start):
        notes.find(
            f"runs with and without the exact closure differ, by {apart / max(length, 1e-300):.2g} "
            "of their length: batch must not look at the inputs, or in_basis must return None"
        )


def _flat(tree: PyTree) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
