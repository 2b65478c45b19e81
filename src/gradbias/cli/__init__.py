"""The command line: typed, lazy; a command imports what it needs when it runs."""

from ._main import main

__all__ = ["main"]
