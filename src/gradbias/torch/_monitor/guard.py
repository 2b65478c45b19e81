"""Errors of a measurement must not be errors of the training run."""

import sys
import warnings
from types import TracebackType


class Guard:
    """Turns an error inside a training step into one warning of its kind.

    Args:
        what: what was being done, for the warning.
        warned: what was warned of before; it grows.
    """

    def __init__(self, what: str, warned: set[str]):
        self._what = what
        self._warned = warned

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False  # Ctrl-C is not ours
        if self._what not in self._warned:
            self._warned.add(self._what)
            message = (
                f"gradbias could not do {self._what}; training goes on. {kind.__name__}: {error}"
            )
            try:
                warnings.warn(message, RuntimeWarning, stacklevel=3)
            except RuntimeWarning:  # warnings are errors here, but not to training
                print(message, file=sys.stderr)
        return True
