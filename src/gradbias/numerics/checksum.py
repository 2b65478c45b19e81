"""Files that say themselves whether they are as they were written.

The last 32 bytes of a file are the SHA-256 of all before them. Zip and HDF5 files may have such a
tail: other programs read them as ever.
"""

import hashlib
from pathlib import Path

SIZE = 32
BLOCK = 2**20  # bytes that are read at a time


class Damaged(ValueError):
    """A file is not what was written."""


def with_checksum(content: bytes | memoryview) -> bytes:
    """The content of a file, with its tail."""
    return bytes(content) + hashlib.sha256(content).digest()


def without_checksum(content: bytes) -> bytes:
    """The content without its tail; Damaged if they do not fit."""
    if hashlib.sha256(memoryview(content)[:-SIZE]).digest() != content[-SIZE:]:
        raise Damaged("its checksum does not fit")
    return content[:-SIZE]


def append_checksum(path: Path) -> None:
    """Give a file that is written its tail."""
    digest = _digest(path, path.stat().st_size)
    with open(path, "ab") as file:
        file.write(digest)


def check_file(path: Path) -> None:
    """Raise Damaged if a file does not fit its tail; reads all of it, piece by piece."""
    size = path.stat().st_size - SIZE
    with open(path, "rb") as file:
        file.seek(max(size, 0))
        tail = file.read()
    if _digest(path, size) != tail:
        raise Damaged("its checksum does not fit")


def _digest(path: Path, size: int) -> bytes:
    """Of the first `size` bytes of a file."""
    found = hashlib.sha256()
    left = size
    with open(path, "rb") as file:
        while left > 0 and (block := file.read(min(BLOCK, left))):
            found.update(block)
            left -= len(block)
    return found.digest()
