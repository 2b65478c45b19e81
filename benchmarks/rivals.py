"""Who else could do a job of Descent, by the names of the table."""

from collections.abc import Sequence

import gradbias as gb

from . import batched_torch, plain_jax, torch_loops
from .protocol import Arm

LOOP = "PyTorch, a loop over members"
TUNED = "PyTorch, the loop without an optimiser"
BATCHED = "PyTorch, members in one tensor"
VMAP = "plain jax, vmap"
ONE_BY_ONE = "plain jax, one by one"


def descent(
    setups: Sequence[gb.Setup], steps: int, vmap: int, one_by_one: int, batched: int = 100
) -> dict[str, Arm]:
    """All arms for these members, each of `steps` steps.

    Args:
        setups: a member each; GD or SGD.
        steps: of a member.
        vmap: how many steps plain jax is timed on with `vmap`.
        one_by_one: the same with `lax.map`.
        batched: the same for PyTorch with members in one tensor.
    """
    noisy = getattr(setups[0].dynamics, "noise", None) is not None
    loop = torch_loops.minibatch if noisy else torch_loops.full_batch
    stack = batched_torch.minibatch if noisy else batched_torch.full_batch
    jax = plain_jax.minibatch if noisy else plain_jax.full_batch
    return {
        ONE_BY_ONE: Arm(lambda: jax(setups, False), steps, one_by_one),
        VMAP: Arm(lambda: jax(setups, True), steps, vmap),
        BATCHED: Arm(lambda: stack(setups), steps, batched),
        LOOP: Arm(lambda: loop(setups[0]), len(setups) * steps),
        TUNED: Arm(lambda: loop(setups[0], tuned=True), len(setups) * steps),
    }
