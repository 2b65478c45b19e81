"""Cold starts: how long a fresh Python takes."""

import functools
import os
import pathlib
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from .protocol import Check
from .w1 import seconds_of_children

README = pathlib.Path(__file__).parent.parent / "README.md"


def workloads(quick: bool) -> list[Check]:
    """What people wait for first; without jax's cache on disk, as most have none."""
    example = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[0]
    rounds = 1 if quick else 3

    def started(*arguments: str) -> Callable[[], tuple[float, dict[str, Any]]]:
        return functools.partial(_wall, arguments, rounds)

    return [
        Check("import gradbias", started("-c", "import gradbias"), 0.3, "s"),
        Check("gradbias --help", started("-m", "gradbias", "--help"), 0.5, "s"),
        Check("README example", started("-c", example), 5.0, "s"),
    ]


def _wall(arguments: tuple[str, ...], rounds: int) -> tuple[float, dict[str, Any]]:
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}

    def start() -> None:
        command = [sys.executable, *arguments]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)

    start()  # files that nobody has read yet are the disk's time, not ours
    raw = [seconds_of_children(start) for _ in range(rounds)]
    return statistics.median(wall for _, wall in raw), {"raw_seconds_cpu_wall": raw}
