"""Dimensional analysis of a network: which rescalings of its tensors fit together.

Every entry of every tensor has an unknown exponent: multiplied by exp(λ·exponent), nothing may
change at the inputs and outputs of the model. Operations relate exponents: an addition makes them
equal, a product adds them, tanh makes them 0. What is left free is a symmetry.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

ZERO = 0  # the exponent of inputs, outputs and constants
EPSILON_WORD = "epsilon"  # marks what holds only nearly
ANY = -1  # the exponent of an entry that is always zero: it fits everything


def constant(value: int, shape: torch.Size | tuple[int, ...]) -> Tensor:
    """One exponent for a whole tensor, without its memory."""
    return torch.tensor(value).expand(tuple(shape))


def slices(*ids: Tensor) -> list[Tensor]:
    """Tensors of one shape without the axes along which every one of them repeats itself.

    What is the same for all words of a vocabulary, or all positions, is looked at once.
    """
    shape = torch.broadcast_shapes(*(t.shape for t in ids))
    wide = [t.expand(shape) for t in ids]
    for d, n in enumerate(shape):
        if n > 1 and all(t.stride(d) == 0 for t in wide):
            wide = [t.narrow(d, 0, 1) for t in wide]
    return wide


def distinct(ids: Tensor) -> np.ndarray:
    """Every number in a tensor, once."""
    return np.unique(slices(ids)[0].numpy())


def has(ids: Tensor, number: int) -> bool:
    """Is a number among them?"""
    return bool((slices(ids)[0] == number).any())


def is_all(ids: Tensor, number: int) -> bool:
    """Are all of them this number?"""
    return bool((slices(ids)[0] == number).all())


@dataclasses.dataclass(frozen=True)
class Use:
    """What a parameter's exponent is: ± that of a tensor, along some of its axes.

    Attributes:
        parameter: its name.
        dims: the axes along which it varies.
        ids: the exponents' numbers, one for every position along `dims`.
        sign: + where the parameter makes the tensor, − where it reads it.
    """

    parameter: str
    dims: tuple[int, ...]
    ids: Tensor
    sign: float


class Ledger:
    """Unknown exponents by number, and what is known about them."""

    def __init__(self) -> None:
        self.count = 1
        self.equal: list[np.ndarray] = []
        self.rows: list[tuple[np.ndarray, tuple[float, ...]]] = []
        self.uses: list[Use] = []
        self.defined: list[tuple[Tensor, Tensor, Tensor]] = []
        self.starts: list[int] = [0]
        self.marks: list[tuple[np.ndarray, str]] = []
        self.heads: list[tuple[np.ndarray, int, str]] = []

    def fresh(self, *shape: int) -> Tensor:
        """New unknowns; those of one call belong together."""
        size = int(np.prod(shape))
        self.starts.append(self.count)
        self.count += size
        return torch.arange(self.count - size, self.count).reshape(shape)

    def merge(self, a: Tensor, b: Tensor) -> None:
        """They are equal, entry by entry; shapes broadcast."""
        a, b = slices(a, b)
        if not has(a, ANY) and not has(b, ANY):
            # All of a row with all of a column: one of each with all of the other says it, too.
            across = _alone(a, b)
            down = _alone(b, a)
            if across and down:
                self._merge(_start(a, across), _start(b, across))
                a = _start(a, down)
                b = _start(b, down)
        self._merge(a, b)

    def _merge(self, a: Tensor, b: Tensor) -> None:
        differ = (a != b) & (a != ANY) & (b != ANY)
        if bool(differ.any()):
            low = torch.minimum(a, b)[differ]
            high = torch.maximum(a, b)[differ]
            pairs = torch.unique(low * self.count + high)
            self.equal.append(torch.stack([pairs // self.count, pairs % self.count]).numpy())

    def zero(self, ids: Tensor) -> None:
        """They do not scale."""
        self.merge(ids, torch.tensor(ZERO))

    def along(self, ids: Tensor, dims: Sequence[int], keep: bool = False) -> Tensor:
        """All entries along `dims` are equal; what is left without these axes."""
        shown = ids
        for d in sorted((d % max(ids.ndim, 1) for d in dims), reverse=True):
            if ids.ndim:
                shown = self._first(shown, d)
        self.merge(ids, shown)
        axes = {d % max(ids.ndim, 1) for d in dims}
        return shown if keep else shown.squeeze([d for d in axes if d < ids.ndim])

    def _first(self, ids: Tensor, dim: int) -> Tensor:
        """One entry along an axis, of those that are not always zero where there are any."""
        if not has(ids, ANY):
            return ids.narrow(dim, 0, 1)
        return ids.amax(dim, keepdim=True)

    def relate(self, ids: tuple[Tensor, ...], coefficients: tuple[float, ...]) -> None:
        """Σ coefficient·exponent = 0, entry by entry."""
        stacked = torch.stack([t.reshape(-1) for t in slices(*ids)])
        keep = (stacked != ANY).all(0)
        if bool(keep.any()):
            self.rows.append((_rows(stacked[:, keep], self.count)[0].numpy().T, coefficients))

    def combined(self, terms: list[tuple[Tensor, float]]) -> Tensor:
        """The exponent Σ coefficient·term, as a known one where possible, else as a new one."""
        alive = [(ids, c) for ids, c in terms if not is_all(ids, ZERO)]
        shape = torch.broadcast_shapes(*(ids.shape for ids, _ in terms))
        if not alive:
            return constant(ZERO, shape)
        if len(alive) == 1 and alive[0][1] == 1:
            return alive[0][0].expand(shape)
        columns = slices(*(ids for ids, _ in alive))
        stacked = torch.stack([t.reshape(-1) for t in columns])
        rows, where = _rows(stacked, self.count)
        new = self.fresh(rows.shape[1])
        self.relate((*rows, new), (*(c for _, c in alive), -1.0))
        new = torch.where((rows == ANY).any(0), ANY, new)
        return new[where].reshape(columns[0].shape).expand(shape)

    def use(self, parameter: str, dims: tuple[int, ...], ids: Tensor, sign: float) -> None:
        """The exponent of this parameter has `sign`·ids in it."""
        self.uses.append(Use(parameter, dims, ids, sign))

    def define(self, entries: Tensor, out: Tensor, into: Tensor) -> None:
        """Entries of a parameter, with the exponents out − into."""
        self.defined.append((entries.reshape(-1), out.reshape(-1), into.reshape(-1)))

    def head(self, ids: Tensor, word: str) -> None:
        """Channels, along the last axis, that one head of attention works on."""
        self.heads.append((distinct(ids), ids.shape[-1], word))

    def mark(self, ids: Tensor, word: str) -> None:
        """Remember what these passed through, for names and to know what is linear."""
        self.marks.append((distinct(ids), word))


def _alone(a: Tensor, b: Tensor) -> list[int]:
    """The axes along which `a` alone varies."""
    return [d for d, n in enumerate(a.shape) if n > 1 and a.stride(d) != 0 and b.stride(d) == 0]


def _start(ids: Tensor, dims: Sequence[int]) -> Tensor:
    """The first entry along some axes."""
    for d in dims:
        ids = ids.narrow(d, 0, 1)
    return ids


def _rows(stacked: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """(terms, n) without equal columns, and where each of them is in it.

    Args:
        stacked: numbers from ANY to below `count`.
        count: how many numbers there are.
    """
    where = torch.zeros(stacked.shape[1], dtype=torch.int64)
    for term in stacked:  # pairs of numbers, as one number each
        _, where = torch.unique(where * (count + 1) + term - ANY, return_inverse=True)
    first = torch.full((int(where.max()) + 1 if len(where) else 0,), len(where))
    first.scatter_reduce_(0, where, torch.arange(len(where)), "amin")
    return stacked[:, first], where
