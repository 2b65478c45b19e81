"""What is equal becomes one object, so that `build` may make it anew for every point."""

import copy
from typing import Any

from .._engine.setup import Setup
from ..numerics.fingerprint import Lines
from .setup_lines import COMMON, OWN, Reader


def interned(setup: Setup, reader: Reader) -> tuple[Setup, Lines]:
    """The setup, with parts and functions read before in place of equal new ones, and its lines.

    What is made of one object is made once for all members that share it. And jax compiles again
    for every new function object, even if its code is the same.
    """
    lines = reader.read_shared(setup)
    if reader.shared:
        parts = {**setup.__getstate__(), **reader.shared}
        setup = copy.copy(setup)
        setup.__setstate__(parts)
    if not reader.replaced:
        return setup, lines
    memo: dict[int, Any] = {id(array): array for array in reader.arrays.values()}
    memo |= reader.replaced
    for name in (*COMMON, *OWN):
        if name not in reader.changed:
            part = getattr(setup, name)
            memo[id(part)] = part
    return copy.deepcopy(setup, memo), lines
