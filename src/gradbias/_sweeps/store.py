"""A sweep on disk: its content, and every finished chunk.

A store is a folder with `sweep.json` (what is computed, readable), `chunk-00000.npz`, … and, once
all chunks are there, `sweep.nc`. Each file appears under its name only when it is complete. Two
processes may work on one store: equal content has equal bits, so it does not matter whose file
stays. Every chunk carries the key of its sweep, so that others cannot be mixed in.
"""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..numerics.checksum import Damaged, with_checksum, without_checksum
from ..numerics.files import remove_stale, write_atomically
from ..numerics.source_version import source_version
from ..numerics.warn import warn_user
from .chunking import Chunk
from .environment import Environment
from .fingerprint_table import FingerprintTable
from .grid import Grid
from .results import ChunkResult

FORMAT = 1


class Store:
    """Where the chunks of one sweep are.

    Args:
        path: the folder; made if it is not there.
        grid: the axes.
        table: the content of every member.
        chunks: all chunks of the sweep.
    """

    def __init__(
        self, path: str | os.PathLike[str], grid: Grid, table: FingerprintTable, chunks: list[Chunk]
    ):
        self.path = Path(path)
        self.chunks = chunks
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"store must be a folder, got the file {self.path}")
        self.path.mkdir(parents=True, exist_ok=True)
        remove_stale(self.path)
        content = _content(grid, table, chunks)
        self.key = _hash(content)
        stored = self._stored()
        if stored is None:
            environment = Environment.here()._asdict()
            about = {**content, "key": self.key, "environment": environment}
            text = _in_lines({**about, "checksum": _hash(about)})
            write_atomically(self.path / "sweep.json", text.encode())
        elif stored.get("key") != self.key:
            raise ValueError(_first_difference(self.path, stored, content, grid))
        else:
            self._warn_of_environment(stored.get("environment"))

    def file(self, chunk: Chunk) -> Path:
        """Where a chunk is, or will be."""
        return self.path / f"chunk-{chunk.number:05d}.npz"

    def missing(self) -> list[Chunk]:
        """The chunks that are not there; whether the others are sound shows when they are read."""
        return [chunk for chunk in self.chunks if not self.file(chunk).exists()]

    def read(self, damaged: list[Chunk]) -> Iterator[tuple[Chunk, ChunkResult]]:
        """All chunks, each read once; those that are damaged are named, and put into that list."""
        for chunk in self.chunks:
            try:
                result = self._get(chunk)
            except (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
                warn_user(
                    f"store: {self.file(chunk)} is damaged ({error}): its {len(chunk.members)} "
                    "members are computed again"
                )
                damaged.append(chunk)
            else:
                yield chunk, result

    def _get(self, chunk: Chunk) -> ChunkResult:
        content = without_checksum(self.file(chunk).read_bytes())
        with np.load(io.BytesIO(content), allow_pickle=False) as found:
            if str(found["key"]) != f"{self.key} {chunk.number}":
                raise ValueError("it belongs to another sweep, or elsewhere in this one")
            names = json.loads(str(found["dims"]))
            return ChunkResult(
                found["status"],
                found["stopped"],
                {name: found[f"value {name}"] for name in names},
                {name: tuple(dims) for name, dims in names.items()},
            )

    def put(self, chunk: Chunk, piece: ChunkResult) -> None:
        """Store the results of a chunk."""
        arrays = {f"value {name}": values for name, values in piece.values.items()}
        key = f"{self.key} {chunk.number}"
        dims = json.dumps(piece.dims)
        buffer = io.BytesIO()
        np.savez(buffer, key=key, dims=dims, status=piece.status, stopped=piece.stopped, **arrays)  # pyright: ignore[reportArgumentType]
        write_atomically(self.file(chunk), with_checksum(buffer.getbuffer()))

    def said(self) -> str:
        """Which chunks are stored, in words."""
        there = [chunk.number for chunk in self.chunks if self.file(chunk).exists()]
        if not there:
            return f"no chunk of {len(self.chunks)} is stored in {self.path} yet"
        return (
            f"{len(there)} of {len(self.chunks)} chunks are stored in {self.path} "
            f"({_ranges(there)}); the same call resumes"
        )

    def _warn_of_environment(self, stored: object) -> None:
        """Other machines and versions may give other bits."""
        here = Environment.here()
        if not isinstance(stored, dict) or set(stored) != set(here._asdict()):
            changed: str | None = "its sweep.json does not say where"
        else:
            changed = Environment(**stored).difference(here)
        if changed:
            warn_user(
                f"store: {self.path} was begun elsewhere ({changed}): the chunks that are "
                "computed now may differ from those in the last bits"
            )

    def _stored(self) -> dict[str, Any] | None:
        file = self.path / "sweep.json"
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
            if stored["format"] != FORMAT:
                raise ValueError(f"it has format {stored['format']}, this version reads {FORMAT}")
            _check_description(stored)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"store: {file} is not a description of a sweep ({error}): choose another folder, "
                "or remove this file; chunks beside it that belong to the sweep are kept"
            ) from error
        return stored


def refuse_unseen(unseen: dict[str, str]) -> None:
    """Refuse a sweep of which nobody could say later whether it is the same.

    Args:
        unseen: where something cannot be followed, and why.
    """
    for path, why in unseen.items():
        raise ValueError(
            f"store: {path} {why}, so that a store cannot tell whether "
            "results still belong to this sweep. Hand the value over as an argument, a field or a "
            "variable of an enclosing function, or sweep without a store"
        )


def _content(grid: Grid, table: FingerprintTable, chunks: list[Chunk]) -> dict[str, Any]:
    """All that decides the results: if it is the same, so are they."""
    return {
        "format": FORMAT,
        "gradbias": source_version(),
        "axes": [[name, list(map(repr, values))] for name, values in grid.axes.items()],
        "members": table.as_json(),
        "chunks": [[chunk.group.size, chunk.members] for chunk in chunks],
    }


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_description(stored: dict[str, Any]) -> None:
    """Raise Damaged if `sweep.json` is not what was written."""
    about = dict(stored)
    checksum = about.pop("checksum", None)
    content = {n: value for n, value in about.items() if n not in ("key", "environment")}
    whole = checksum is None or _hash(about) == checksum  # one without it, by its key alone
    if not whole or _hash(content) != about.get("key"):
        raise Damaged("its checksum does not fit")


def _in_lines(content: object, depth: int = 3) -> str:
    """JSON with a line for each item of the outer objects: readable, and not too long."""
    if not depth or not isinstance(content, dict) or not content:
        return json.dumps(content, ensure_ascii=False)
    items = [f"{json.dumps(k)}: {_in_lines(v, depth - 1)}" for k, v in content.items()]
    return "{\n" + ",\n".join(items) + "\n}"


def _first_difference(path: Path, stored: dict[str, Any], now: dict[str, Any], grid: Grid) -> str:
    """A sentence that says what changed since the store was begun."""
    end = "Take another store for it, or remove this one to compute everything again."
    say = f"store: {path} holds another sweep. The first difference: "
    if stored["gradbias"] != now["gradbias"]:
        versions = f"gradbias: stored {stored['gradbias']}, now {now['gradbias']}"
        return f"{say}{versions}. {end}"
    if stored["axes"] != now["axes"]:
        return f"{say}{_axis_difference(dict(stored['axes']), dict(now['axes']))}. {end}"
    tables = (
        FingerprintTable.from_json(stored["members"]),
        FingerprintTable.from_json(now["members"]),
    )
    for member, name, before, after in tables[0].differences(tables[1]):
        return f"{say}at {grid.point(member)}, {name}: stored {before}, now {after}. {end}"
    sizes = [sorted({size for size, _ in content["chunks"]}) for content in (stored, now)]
    return f"{say}chunk: stored {sizes[0]} members, now {sizes[1]}. {end}"


def _axis_difference(stored: dict[str, list[str]], now: dict[str, list[str]]) -> str:
    if list(stored) != list(now):
        return f"over: stored axes {list(stored)}, now {list(now)}"
    name = next(name for name in now if stored[name] != now[name])
    if len(stored[name]) != len(now[name]):
        return f"over[{name!r}]: stored {len(stored[name])} values, now {len(now[name])}"
    pairs = zip(stored[name], now[name], strict=True)
    i, (before, after) = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
    return f"over[{name!r}][{i}]: stored {before}, now {after}"


def _ranges(numbers: list[int]) -> str:
    """1, 2, 3, 7 as "1–3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 1 else str(r[0]) for r in runs)
