"""Files that appear under their names only when they are complete."""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

STALE_SECONDS = 3600.0  # a file that is still being written is younger
SUFFIX = ".unfinished"


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Write a file so that it is there completely or not at all, whatever happens."""
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        said = f"cannot write {len(content)} bytes, {error.strerror or error}"
        raise OSError(error.errno, said, str(path)) from error


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write in the block, which takes the place of `path` once it is on the disk.

    After any exception in the block it is removed, and `path` is as it was.
    """
    # Another name for every process and call, in the same folder: no rename crosses file systems.
    name = f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
    temporary = path.with_name(name)
    try:
        yield temporary
        with open(temporary, "r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with contextlib.suppress(OSError):  # not every file system can
        _sync_folder(path.parent)


def remove_stale(folder: Path) -> None:
    """Remove what processes that were killed left unfinished."""
    for file in folder.glob(f".*{SUFFIX}"):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > STALE_SECONDS:
                file.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a loss of power."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
