"""Numbers that many hypotheses share, computed once for each setup."""

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from .._setup import Setup

Value = TypeVar("Value")


def fact(compute: Callable[[Setup], Value]) -> Callable[[Setup], Value]:
    """Remember the result for as long as the setup lives.

    Args:
        compute: a function of a setup alone.
    """
    known: weakref.WeakKeyDictionary[Setup, Any] = weakref.WeakKeyDictionary()

    @functools.wraps(compute)
    def remembered(setup: Setup) -> Value:
        if setup not in known:
            known[setup] = compute(setup)
        return known[setup]

    return remembered
