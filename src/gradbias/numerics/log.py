"""What gradbias says that is not a result: the logger "gradbias", on stderr by default."""

import logging
import sys
from typing import TextIO

NAME = "gradbias"


class _ToStderr(logging.Handler):
    """Plain lines on what is stderr at the moment."""

    def emit(self, record: logging.LogRecord) -> None:
        stream: TextIO | None = sys.stderr
        if stream is not None:  # a program without a console has none
            print(self.format(record), file=stream, flush=True)


def logger() -> logging.Logger:
    """The logger; what people have set on it stays.

    Without a handler of theirs it writes to stderr itself, and hands nothing on to the root logger,
    which would say it again.
    """
    log = logging.getLogger(NAME)
    if not log.handlers:
        log.addHandler(_ToStderr())
        log.propagate = False
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)
    return log


def say(line: str) -> None:
    """One line of information."""
    logger().info("%s", line)
