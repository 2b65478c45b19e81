"""Which gradbias computed something: its version, in development the content of its source."""

import functools
import hashlib
from pathlib import Path

from .. import __version__
from .fingerprint import in_installed_folder

BESIDE = {
    "torch",
    "cli",
    "report",
    "plot",
    "testing",
    "figures",
    "_text",
}  # rooms that compute no results


@functools.cache
def source_version() -> str:
    """The version; where the source may be edited, with a word for its content."""
    folder = Path(__file__).parents[1]
    return __version__ if in_installed_folder(folder) else f"{__version__}+source.{_hash(folder)}"


def _hash(folder: Path) -> str:
    hashed = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if inside.parts[0] not in BESIDE:
            hashed.update(f"\0{inside.as_posix()}\0".encode() + path.read_bytes())
    return hashed.hexdigest()[:12]
