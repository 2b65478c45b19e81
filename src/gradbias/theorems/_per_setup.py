"""Numbers that many hypotheses share, computed once for each setup."""

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from .._engine.setup import Setup
from ..numerics.program_keys import code_key

Value = TypeVar("Value")


def fact(compute: Callable[[Setup], Value]) -> Callable[[Setup], Value]:
    """Remember the result for as long as the setup lives and its code means the same.

    Args:
        compute: a function of a setup alone.
    """
    known: weakref.WeakKeyDictionary[Setup, Any] = weakref.WeakKeyDictionary()

    @functools.wraps(compute)
    def remembered(setup: Setup) -> Value:
        code = code_key(setup)
        before = known.get(setup)
        if before is None or before[0] != code:
            known[setup] = before = code, compute(setup)
        return before[1]

    return remembered
