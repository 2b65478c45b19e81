"""The members of a sweep: built once if they fit into memory, else again when they are due."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._engine.host_loop import Prepared
from .._engine.prepare import start_of
from .._engine.setup import Setup
from .._engine.stacking import bytes_of
from ..noise import Replay
from ..numerics.fingerprint import Lines, Walk
from ..numerics.memo import Memo
from ..numerics.program_keys import code_in
from .fingerprint_table import FingerprintTable
from .grid import Grid
from .interning import interned
from .predictions import Questions
from .setup_lines import Reader

KEPT_BYTES = 2**29  # of members that wait for their turn; those beyond are built twice
MOST_KEPT = 2**13  # members, however small
MEMBER_BYTES = 2**14  # of a member without its arrays
# members that are built together
BLOCK = 128
BLOCK_BYTES = 2**24

Build = Callable[..., Setup]


class Members:
    """All members of a sweep, and what is known about them before anything runs.

    Args:
        build: makes the setup of a point.
        grid: the points.
        record: what to save; None for what each setup says.
        stored: is their content to be kept with the results?
        questions: what theorems are asked of each member; None asks none.

    Attributes:
        table: the content of every member; of those that wait in memory, without a store, only
            what is not their own.
        saves: where each member saves, and the gradient-flow times of that.
        axis: "step" or "time".
    """

    def __init__(
        self,
        build: Build,
        grid: Grid,
        record: Mapping[str, Any] | Sequence[Any] | None,
        stored: bool,
        questions: Questions | None = None,
    ):
        self.build = build
        self.grid = grid
        self.record = record
        self.stored = stored
        self.questions = questions
        self.reader = Reader()
        self.table = FingerprintTable()
        self.kept: dict[int, Prepared] = {}
        self.memo = Memo()
        self.free = KEPT_BYTES
        self.owned = set[int]()
        self.saves: list[tuple[np.ndarray, np.ndarray]] = []
        self.axis = ""
        self.layout = ()
        self.net = None
        self.rows = 0
        self.keys = set[int]()
        self.random = False
        self.code: tuple[Setup, Lines]

    def read(self) -> Iterator[tuple[int, Prepared]]:
        """Build all members for the first time.

        Block by block, and each step for a whole block: code that runs many times in a row is
        twice as fast as code that takes turns with other code.
        """
        first = 0
        while first < self.grid.size:
            setups = self._block(first)
            read = [interned(setup, self.reader) for setup in setups]
            for member, (setup, _) in enumerate(read, first):
                self._note(setup, member)
            starts = [start_of(setup, True, self.memo) for setup, _ in read]
            for member, (start, (setup, lines)) in enumerate(zip(starts, read, strict=True), first):
                if not self._keep(member, start) or self.stored:
                    lines |= self.reader.read_own(setup)
                self.table.add(lines)
            if self.questions is not None:
                for setup, _ in read:
                    self.questions.ask(setup)
            yield from enumerate(starts, first)
            first += len(setups)
        self._check_code()

    def _check_code(self) -> None:
        """Members run after all are built: what their code refers to must not change before."""
        (setup, before) = self.code
        changed = _code_lines(setup).items() ^ before.items()
        if changed:
            name = min(name for name, _ in changed)
            raise ValueError(
                f"build changes what the code in its setups refers to: {name} was "
                f"{before.get(name)} after the first call and is {_code_lines(setup).get(name)} "
                "after the last one. Members run after all of them are built, so they would all "
                "see the last value: make it a field, a parameter or a variable inside build"
            )

    def start(self, member: int) -> Prepared:
        """A member, for the second time."""
        if member in self.kept:
            return self.kept[member]
        setup, lines = interned(self._built(member), self.reader)
        changed = self.table.difference(member, lines | self.reader.read_own(setup))
        if changed is not None:
            raise ValueError(
                f"build must return the same Setup whenever it is called, but at "
                f"{self.grid.point(member)} it changed {changed}"
            )
        return start_of(setup, True, self.memo)

    def warn_of_equal_keys(self) -> None:
        """Equal keys are equal draws: an average over them would be one run."""
        if self.random and len(self.keys) == 1 and self.grid.size > 1:
            warnings.warn(
                f"all {self.grid.size} members have key={next(iter(self.keys))}, so that their "
                "noise makes the same draws: for independent ones give each its own, "
                "gb.Setup(…, key=seed)",
                stacklevel=4,
            )

    def coordinates(self) -> dict[str, Any]:
        """The axis of saves; where members save at different points, a variable beside it."""
        saves, times = ([pair[i] for pair in self.saves] for i in range(2))
        grid = self.grid.names
        shape = self.grid.shape
        axis = self.axis

        def each(rows: list[np.ndarray]) -> tuple[tuple[str, ...], np.ndarray]:
            return (*grid, axis), np.stack(rows).reshape(*shape, -1)

        coords: dict[str, Any] = {}
        if all(row is saves[0] for row in saves):
            coords[axis] = saves[0]
        else:
            coords[f"saved_at_{axis}"] = each(saves)
        if axis == "step":
            alike = all(row is times[0] for row in times)
            coords["time"] = ("step", times[0]) if alike else each(times)
        return coords

    def _block(self, first: int) -> list[Setup]:
        """Members from this one on, as many as are built together."""
        setups = list[Setup]()
        size = 0
        for member in range(first, min(first + BLOCK, self.grid.size)):
            setups.append(self._built(member))
            if member == 0:
                self.code = setups[0], _code_lines(setups[0])
            size += bytes_of(setups[-1].params)
            if size > BLOCK_BYTES:
                break
        return setups

    def _note(self, setup: Setup, member: int) -> None:
        """What all of them come to."""
        self._check_alike(setup, member)
        self.keys.add(setup.key)
        replayed = isinstance(getattr(setup.dynamics, "noise", None), Replay)
        self.random |= setup.dynamics.draws and not replayed
        self._note_saves(setup)
        self.net = self.net or setup.net
        self.rows = len(setup.save_at) + 1

    def _built(self, member: int) -> Setup:
        point = self.grid.point(member)
        setup = self.build(**point)
        if not isinstance(setup, Setup):
            raise ValueError(f"build must return a gb.Setup, got {type(setup).__name__} at {point}")
        setup = setup if self.record is None else setup.replace(record=self.record)
        return setup if self.questions is None else self.questions.recording(setup)

    @property
    def first(self) -> Setup:
        """The first member, once they are read."""
        return self.code[0]

    def _check_alike(self, setup: Setup, member: int) -> None:
        """One Dataset needs one time axis and one set of variables."""
        names = ("time axis", "number of saves", "record")
        layout = setup.dynamics.axis, len(setup.save_at), tuple(setup.record)
        self.axis = self.axis or layout[0]
        self.layout = self.layout or layout
        for name, first, this in zip(names, self.layout, layout, strict=True):
            if first != this:
                raise ValueError(
                    f"all members need the same {name}, got {first!r} at {self.grid.point(0)} "
                    f"and {this!r} at {self.grid.point(member)}"
                )

    def _note_saves(self, setup: Setup) -> None:
        """Where it saves; equal arrays are held once."""

        def saves() -> tuple[np.ndarray, np.ndarray]:
            clock = np.asarray(setup.save_at)
            time = np.asarray(setup.dynamics.time(setup.save_at))
            first = self.saves[0] if self.saves else (clock, time)
            return (
                first[0] if np.array_equal(first[0], clock) else clock,
                first[1] if np.array_equal(first[1], time) else time,
            )

        self.saves.append(self.memo.of("saves", (setup.save_at, setup.dynamics), saves))

    def _keep(self, member: int, start: Prepared) -> bool:
        """Keep it if there is room; arrays that members share count once.

        What is owned is known by its identity, and stays alive in a member that is kept.
        """
        held = (start.setup.problem, start.system, start.record, start.setup.params, start.params)
        parts = [part for part in (*held, start.lift) if id(part) not in self.owned]
        leaves = {id(leaf): leaf for leaf in jax.tree.leaves(parts) if eqx.is_array(leaf)}
        new = {name: leaf.nbytes for name, leaf in leaves.items() if name not in self.owned}
        size = MEMBER_BYTES + sum(new.values())
        if size <= self.free and len(self.kept) < MOST_KEPT:
            self.free -= size
            self.owned.update(new, map(id, parts))
            self.kept[member] = start
        return member in self.kept


def _code_lines(setup: Setup) -> Lines:
    """What the user's code in a setup refers to."""
    walk = Walk()
    for root in code_in(setup).values():
        walk.read(getattr(root, "__qualname__", type(root).__qualname__), root)
    return walk.lines
