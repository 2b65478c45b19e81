"""Warnings that point at the line of the user's own that led to them."""

import sys
import warnings

PASSED_OVER = {"gradbias", "contextlib"}  # the library, and the standard library's decorators


def warn_user(message: str) -> None:
    """Warn, at the first caller outside the library."""
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and _package(frame.f_globals) in PASSED_OVER:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)


def _package(module: dict[str, object]) -> str:
    return str(module.get("__name__", "")).partition(".")[0]
