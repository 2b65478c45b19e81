"""The run-time type checker of the test session: annotations must be true of every call that works.

A public function refuses a wrong type itself, with a sentence, and tests look at that sentence.
A checker that looks before the call would speak first. This one lets the call go ahead and
compares arguments and result with the annotations when it has come back.
"""

import inspect
from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

# An int where a float is meant is fine, as it is for every static checker.
_check = beartype(conf=BeartypeConf(is_pep484_tower=True))


def after_the_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep jaxtyping's check after a call, skip the one before it.

    jaxtyping hands over two functions that do nothing: one with the parameters alone, called
    before, and one with the result as a further keyword without annotation, called after.
    """
    further = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.kind is p.KEYWORD_ONLY and p.name.startswith("ret")
    ]
    return _check(function) if further else function
