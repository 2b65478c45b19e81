"""What somebody may have meant by a name that is not there."""

import difflib
from collections.abc import Iterable

CLOSE = 0.6  # of 1, which is the same name
AS_CLOSE = 0.05  # below the closest


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest names as the end of a sentence: "; did you mean 'a' or 'b'?"; or nothing.

    Args:
        name: what was asked for.
        known: what there is.
    """
    found = {one: difflib.SequenceMatcher(None, name.lower(), one.lower()).ratio() for one in known}
    best = max(found.values(), default=0.0)
    close = [one for one, ratio in found.items() if ratio >= best - AS_CLOSE]
    words = " or ".join(map(repr, sorted(close, key=lambda one: -found[one])[:3]))
    return f"; did you mean {words}?" if best >= CLOSE else ""
