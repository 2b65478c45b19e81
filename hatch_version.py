"""The version of a build: that of CITATION.cff, and between releases the commit.

Hatchling calls `version()`. Nothing but git is asked, and without it a build still has a version:
an sdist keeps the one that it was made with.
"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent


def version() -> str:
    """Such as 0.1.0 where the tag v0.1.0 is, otherwise 0.1.0.dev1135+gbe4caa3."""
    release = _field(ROOT / "CITATION.cff", "version")
    made = ROOT / "PKG-INFO"  # is there in an sdist alone
    if made.exists():
        return _field(made, "Version")
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        count = _git("rev-list", "--count", "HEAD")
        tags = _git("tag", "--points-at", "HEAD").split()
    except (OSError, subprocess.CalledProcessError):  # no git, or not a clone
        return f"{release}.dev0"
    return release if f"v{release}" in tags else f"{release}.dev{count}+g{commit}"


def _field(path: Path, name: str) -> str:
    match = re.search(rf"^{name}: *\"?([^\"\n]+)", path.read_text(encoding="utf-8"), re.M)
    if match is None:
        raise ValueError(f"{path.name} has no line `{name}: …`")
    return match[1].strip()


def _git(*words: str) -> str:
    # An archive that lies in somebody else's clone must not take that one's commit.
    if not (ROOT / ".git").exists():
        raise FileNotFoundError(".git")
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True)
    return done.stdout.decode().strip()
