"""From free exponents to families: which units, which parameters, under which name."""

import bisect
import collections
import dataclasses
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .family import Family, ParameterPart
from .ledger import EPSILON_WORD, Ledger, Use
from .solve import Solved

WORDS = 3  # modules named on each side of a family

# Family, eigenvalue and layer -> unit of every position. An entry that two units of a family grow
# alike, as D of a state space is grown by B and by C, has one of them in each layer.
Pieces = dict[tuple[int, float, int], np.ndarray]


def families(ledger: Ledger) -> list[Family]:
    """Every diagonal symmetry that the ledger allows, those of one layer in one family."""
    solved = Solved(ledger)
    uses = [piece for use in ledger.uses for piece in _resolved(use, solved)]
    groups = _grouped(uses, solved, ledger)
    home = {free: (g, i) for g, members in enumerate(groups) for i, free in enumerate(members)}
    parts: dict[int, list[ParameterPart]] = collections.defaultdict(list)
    for use in uses:
        for (group, mu, _), unit in _pieces(use, solved, home).items():
            parts[group].append(_part(use, unit, mu))
    marks: dict[int, list[str]] = collections.defaultdict(list)
    for ids, word in ledger.marks:
        for group in _touched(ids, solved, home):
            marks[group].append(word)
    heads: dict[int, list[tuple[int, str]]] = collections.defaultdict(list)
    for ids, size, word in ledger.heads:
        for group in _touched(ids, solved, home):
            heads[group].append((size, word))
    result = []
    for group, members in enumerate(groups):
        kept = _cancelled(parts[group])
        if kept:
            result.append(_family(len(members), kept, marks[group], heads[group]))
    return _distinct(result)


def _distinct(families: list[Family]) -> list[Family]:
    """No two names are the same."""
    count: collections.Counter[str] = collections.Counter()
    result = []
    for family in families:
        count[family.name] += 1
        again = f" #{count[family.name]}" if count[family.name] > 1 else ""
        result.append(dataclasses.replace(family, name=family.name + again))
    return result


def _resolved(use: Use, solved: Solved) -> list[Use]:
    """A use of a weight's own entries, told by what they connect."""
    ids = use.ids.numpy()
    known = solved.out[ids] >= 0
    if not known.any():
        return [use]
    rest = np.where(known, -1, ids)
    sides = [(rest, 1.0), (solved.out[ids], 1.0), (solved.into[ids], -1.0)]
    return [
        Use(use.parameter, use.dims, torch.from_numpy(side), use.sign * sign)
        for side, sign in sides
        if (side >= 0).any()
    ]


def _grouped(uses: list[Use], solved: Solved, ledger: Ledger) -> list[list[int]]:
    """The free exponents of parameters: one family for one place and one set of parameters.

    The three parts of a packed projection are in one place, but queries meet keys, and values
    the output.
    """
    signatures: dict[int, list[tuple[str, float]]] = collections.defaultdict(list)
    for use in uses:
        numbers = np.unique(use.ids.numpy())
        classes = np.unique(solved.of[numbers[numbers >= 0]]).tolist()
        for free in dict.fromkeys(f for c in classes for f in solved.combination(c)):
            signatures[free].append((use.parameter, use.sign))
    groups: dict[Any, list[int]] = collections.defaultdict(list)
    for number in sorted(signatures):
        place = bisect.bisect_right(ledger.starts, number) - 1
        groups[place, tuple(dict.fromkeys(signatures[number]))].append(number)
    return list(groups.values())


def _pieces(use: Use, solved: Solved, home: dict[int, tuple[int, int]]) -> Pieces:
    ids = use.ids.numpy()
    numbers, where = np.unique(ids, return_inverse=True)
    pieces: Pieces = {}
    for k, number in enumerate(numbers.tolist()):
        for free, c in solved.combination(number).items():
            group, unit = home[free]
            layer = 0
            while _taken(pieces.get((group, use.sign * c, layer)), k):
                layer += 1
            key = (group, use.sign * c, layer)
            pieces.setdefault(key, np.full(len(numbers), -1))[k] = unit
    return {key: np.asarray(units[where.reshape(ids.shape)]) for key, units in pieces.items()}


def _taken(units: np.ndarray | None, k: int) -> bool:
    return units is not None and bool(units[k] >= 0)


def _part(use: Use, unit: np.ndarray, mu: float) -> ParameterPart:
    """A part with as few axes as tell its units apart."""
    dims = list(use.dims)
    for axis in reversed(range(unit.ndim)):
        first = unit.take([0], axis=axis)
        if unit.ndim > 1 and np.array_equal(np.broadcast_to(first, unit.shape), unit):
            unit = first.squeeze(axis)
            dims.pop(axis)
    return ParameterPart(use.parameter, tuple(dims), torch.from_numpy(unit.copy()), mu)


def _cancelled(parts: list[ParameterPart]) -> tuple[ParameterPart, ...]:
    """Entries that go into a unit and come out of it are not moved."""
    kept: list[ParameterPart] = []
    for part in parts:
        for i, other in enumerate(kept):
            if other.parameter == part.parameter and other.mu == -part.mu:
                kept[i], part = _apart(other, part)
        kept.append(part)
    return tuple(part for part in kept if bool((part.unit >= 0).any()))


def _apart(one: ParameterPart, other: ParameterPart) -> tuple[ParameterPart, ParameterPart]:
    dims = tuple(sorted({*one.dims, *other.dims}))
    sizes = {d: n for part in (one, other) for d, n in zip(part.dims, part.unit.shape, strict=True)}

    def spread(part: ParameterPart) -> Tensor:
        shape = [sizes[d] if d in part.dims else 1 for d in dims]
        return part.unit.reshape(shape).expand([sizes[d] for d in dims])

    a = spread(one)
    b = spread(other)
    both = (a == b) & (a >= 0)
    if not bool(both.any()):
        return one, other
    left, right = (torch.where(both, -1, unit).contiguous() for unit in (a, b))
    return (
        ParameterPart(one.parameter, dims, left, one.mu),
        ParameterPart(other.parameter, dims, right, other.mu),
    )


def _family(
    units: int, parts: tuple[ParameterPart, ...], bent: list[str], heads: list[tuple[int, str]]
) -> Family:
    """Of parts, what their exponents passed through, and the heads that work on them."""
    into = [part.parameter for part in parts if part.mu > 0]
    out = [part.parameter for part in parts if part.mu < 0]
    if not into:  # a unit that only shrinks what it meets is one that only grows it
        parts = tuple(ParameterPart(p.parameter, p.dims, p.unit, -p.mu) for p in parts)
        into, out = out, into
    words = [w for w in dict.fromkeys([*bent, *(h for _, h in heads)]) if w != EPSILON_WORD]
    name = _modules(into) + (f" -> {_modules(out)}" if out else "")
    name += f" ({', '.join(words)})" if words else ""
    block = None if bent else _block([size for size, _ in heads], units)
    kind = "rescaling" if out else "scaling"
    soft = EPSILON_WORD in bent
    return Family(name, kind, units, parts, block=block, epsilon=soft)


def _touched(ids: np.ndarray, solved: Solved, home: dict[int, tuple[int, int]]) -> set[int]:
    """The families that these exponents depend on."""
    classes = np.unique(solved.of[ids[ids >= 0]]).tolist()
    free = {f for c in classes for f in solved.combination(c)}
    return {home[f][0] for f in free if f in home}


def _block(heads: list[int], units: int) -> int | None:
    """How many neighbouring units may mix: those of a head, else all; one alone is no matrix."""
    size = min([*heads, units])
    return size if size > 1 and units % size == 0 else None


def _modules(names: list[str]) -> str:
    """The modules of parameters, in words."""
    modules = list(dict.fromkeys(name.rpartition(".")[0] or name for name in names))
    more = ", …" if len(modules) > WORDS else ""
    return ", ".join(modules[:WORDS]) + more
