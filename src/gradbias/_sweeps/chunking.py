"""Which members run together: a function of the whole grid alone.

Never of the number of workers, nor of what is finished: then a result has the same bits whatever
the executor, the order or the number of restarts.
"""

import itertools
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .._engine.host_loop import Prepared
from .._engine.measurement import View
from .._engine.prepare import padded
from .._engine.simulate import DifferingLeaves
from .._engine.stacking import VMAP_BYTES, bytes_of, names_of, same, shape_of
from ..nets import LinearNet
from ..numerics.memo import Memo
from ..numerics.program_keys import keyed_by
from ..numerics.types import PyTree
from ..observe import Running
from ..problems import Population
from ..problems.base import LossOfOutputs
from ..reductions import PaddedSize
from .members import Members
from .results import Outline, outline_of

CHUNK_BYTES = 2**26  # states and results of the members that run together
CHUNK_SECONDS = 20.0  # that a chunk should take at most: what a crash may cost
# a rough guess of what a step costs
STEP_SECONDS = 5e-8
BYTES_PER_SECOND = 1e10
# members in one chunk where they advance side by side
LEAST = 32
MOST = 128
UNKNOWN_STEPS = 20_000  # of an adaptive integrator
# how much may be lost to zeros
PADDED_BYTES = 2**15
PADDED_FACTOR = 8


class Group(NamedTuple):
    """Members that run as one program.

    Attributes:
        members: their numbers.
        frame: to which reduced runs are padded; None where they are not reduced.
        own: in what they differ.
        size: members in one chunk.
        outline: the variables that they make.
        cost: of one member, in seconds; a rough guess.
    """

    members: list[int]
    frame: PaddedSize | None
    own: DifferingLeaves
    size: int
    outline: Outline
    cost: float


class Chunk(NamedTuple):
    """Members that run together.

    Attributes:
        number: its place in the sweep.
        members: their numbers.
        group: what they have in common.
    """

    number: int
    members: list[int]
    group: Group

    @property
    def cost(self) -> float:
        """In seconds; a rough guess."""
        return self.group.size * self.group.cost

    def starts(self, roster: Members) -> list[Prepared]:
        """The members, as many as in every chunk of the group: the last one fills it up."""
        starts = [roster.start(m) for m in self.members]
        if self.group.frame is not None:
            memo = Memo()
            starts = [padded(start, self.group.frame, memo) for start in starts]
        return starts + starts[-1:] * (self.group.size - len(starts))


class _Flat:
    """A member in parts, each with its leaves and its shape.

    Attributes:
        parts: what its program is made of (system and stepper), what its observables see (record,
            problem, net and lift), and its params.
    """

    def __init__(self, start: Prepared, memo: Memo):
        setup = start.setup
        view = start.record, setup.problem, setup.net, start.lift
        self.parts = start.system, start.stepper, *view, start.params
        self.leaves: list[list[Any]] = []
        self.shapes: list[Hashable] = []
        for i, part in enumerate(self.parts):
            # Most parts are the same object in all members.
            leaves, shape = memo.of(f"part {i}", (part,), lambda part=part: _flattened(part))
            self.leaves.append(leaves)
            self.shapes.append(shape)

    @property
    def shape(self) -> Hashable:
        """What members of one program have in common."""
        return tuple(self.shapes)

    @property
    def seen(self) -> Hashable:
        """The shape of all but what the reduction makes."""
        return tuple(self.shapes[1:5])


def _flattened(part: PyTree) -> tuple[list[Any], Hashable]:
    leaves, structure = jax.tree.flatten(part)
    return leaves, shape_of(leaves, structure)


class _Variant:
    """Members of exactly one shape."""

    def __init__(self, start: Prepared, flat: _Flat):
        self.first = start
        self.flat = flat
        self.members = list[int]()
        view = View(start.record, start.setup.problem, start.setup.net, start.lift)
        names = [*names_of((start.system, start.stepper)), *names_of(view)]
        self.names = _split(names, flat.leaves[:-1])
        self.own = [set[str](), set[str]()]

    def add(self, member: int, flat: _Flat) -> None:
        self.members.append(member)
        for i, names in enumerate(self.names):
            known = self.flat.leaves[i]
            leaves = flat.leaves[i]
            own = self.own[i >= 2]
            if known is not leaves:
                triples = zip(names, known, leaves, strict=True)
                own.update(name for name, a, b in triples if name not in own and not same(a, b))

    def table(self, which: int) -> dict[str, Any]:
        """The leaves of the program (0) or of what observables see (1), by name."""
        parts = slice(2, None) if which else slice(0, 2)
        pairs = zip(self.names[parts], self.flat.leaves[:-1][parts], strict=True)
        return {n: leaf for names, leaves in pairs for n, leaf in zip(names, leaves, strict=True)}


def _split(names: list[str], leaves: list[list[Any]]) -> list[list[str]]:
    """The names of all leaves, part by part."""
    rest = iter(names)
    return [list(itertools.islice(rest, len(part))) for part in leaves]


def chunks_of(roster: Members, chunk: int | None) -> list[Chunk]:
    """Build all members and put them into chunks.

    Args:
        roster: the members.
        chunk: how many run together; None decides by their size.
    """
    families: dict[Hashable, dict[Hashable, _Variant]] = {}
    memo = Memo()
    for member, start in roster.read():
        flat = _Flat(start, memo)
        variants = families.setdefault(_family(start, flat), {})
        if flat.shape not in variants:
            variants[flat.shape] = _Variant(start, flat)
        variants[flat.shape].add(member, flat)
    groups = [
        _group(alike, chunk)
        for variants in families.values()
        for alike in _in_one_frame(list(variants.values()))
    ]
    chunks: list[Chunk] = []
    for group in sorted(groups, key=lambda group: group.members[0]):
        for i in range(0, len(group.members), group.size):
            chunks.append(Chunk(len(chunks), group.members[i : i + group.size], group))
    return chunks


def _family(start: Prepared, flat: _Flat) -> Hashable:
    """What members must have in common to run as one program, once they are padded."""
    setup = start.setup
    dynamics = start.dynamics
    common = (
        type(dynamics),
        callable(getattr(dynamics, "lr", None)),
        setup.until.check_every,
        setup.goal is None,
        dynamics.axis,
        # An adaptive integrator stops at the saves of all members that run with it.
        None if dynamics.counts_steps else (setup.save_clock.tobytes(), setup.limit),
    )
    if start.lift is None or not dynamics.counts_steps:
        # Adaptive steps look at the mean over all parameters, and zeros would count.
        return (*common, flat.shape)
    running = tuple(f for f in setup.record.values() if isinstance(f, Running))
    rank = start.system.net.dims[0] if isinstance(setup.problem, Population) else None
    growth = start.system.growth
    watched = None if growth is None else growth.at_looks
    return (*common, "reduced", watched, rank, flat.seen, shape_of(*jax.tree.flatten(running)))


def _in_one_frame(variants: list[_Variant]) -> list[list[_Variant]]:
    """Variants that are padded to one size, unless that would cost much more than it saves."""
    if variants[0].first.lift is None:
        return [[variant] for variant in variants]
    variants = sorted(variants, key=lambda v: -_frame(v.first).size)  # stable: ties by member
    found: list[list[_Variant]] = []
    for variant in variants:
        largest = None if not found else _frame(found[-1][0].first).size
        fits = largest is not None and (
            8 * largest <= PADDED_BYTES or largest <= PADDED_FACTOR * _frame(variant.first).size
        )
        if fits and not variant.first.dynamics.counts_steps:
            # Zeros around it change roundings, and these the steps that a flow takes.
            fits = _frame(found[-1][0].first) == _frame(variant.first)
        if fits:
            found[-1].append(variant)
        else:
            found.append([variant])
    return found


def _frame(start: Prepared) -> PaddedSize:
    return PaddedSize.of(start.system.net, start.lift)


def _group(variants: Sequence[_Variant], chunk: int | None) -> Group:
    members = sorted(m for variant in variants for m in variant.members)
    first = min(variants, key=lambda v: v.members[0]).first
    own = [set[str](), set[str]()]
    frame = None
    for variant in variants:
        for i in range(2):
            own[i] |= variant.own[i] | _differing(variants[0].table(i), variant.table(i))
    if first.lift is not None:
        frame = PaddedSize.around([_frame(variant.first) for variant in variants])
        first = padded(first, frame, Memo())
    with keyed_by(first.setup):
        outline = outline_of(first)
    cost = _seconds(first)
    size = _size(first, outline, cost) if chunk is None else chunk
    size = -(-len(members) // -(-len(members) // size))  # chunks of about equal size
    return Group(members, frame, DifferingLeaves(*map(frozenset, own)), size, outline, cost)


def _differing(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    both = one.keys() & other.keys()
    return {n for n in one.keys() | other.keys() if n not in both or not same(one[n], other[n])}


def _size(start: Prepared, outline: Outline, cost: float) -> int:
    """How many members run together: bounded in memory, and in the time that a crash costs."""
    state = bytes_of(start.params)
    rows = len(start.setup.save_at) + 1
    by_memory = CHUNK_BYTES // (state + rows * outline.bytes)
    by_time = CHUNK_SECONDS / cost
    least = LEAST if state <= VMAP_BYTES else 1
    return int(np.clip(min(by_memory, max(by_time, least)), 1, MOST))


def _seconds(start: Prepared) -> float:
    """What one member costs; only its order of magnitude matters, and that it never changes."""
    setup = start.setup
    steps = setup.limit if start.dynamics.counts_steps else UNKNOWN_STEPS
    quick = isinstance(setup.net, LinearNet) and isinstance(setup.problem, LossOfOutputs)
    samples = 1 if quick else getattr(setup.problem, "n", 1)
    step = STEP_SECONDS + samples * bytes_of(start.params) / BYTES_PER_SECOND
    return step * (10**6 if steps is None else steps)
