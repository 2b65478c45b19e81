"""Random data of which something is true."""

from collections.abc import Callable

from ...problems import Classification, separable
from ...theory import margin
from .._figure import Settings


def first_with(s: Settings, good: Callable[[margin.Offset], bool]) -> Classification:
    """The first data of this key that are not degenerate and whose offset law is as wanted."""
    key = 10_000 * s.key
    while True:
        candidate = separable(s.n, s.d, key=key, loss="exponential")
        key += 1
        try:
            law = margin.offset(candidate)
        except ValueError:  # degenerate
            continue
        if good(law):
            return candidate
