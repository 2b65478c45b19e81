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
        a, b = torch.broadcast_tensors(a, b)
        differ = (a != b) & (a != ANY) & (b != ANY)
        if bool(differ.any()):
            pairs = torch.stack([a[differ], b[differ]]).numpy()
            self.equal.append(np.unique(pairs, axis=1))

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
        if not bool((ids == ANY).any()):
            return ids.narrow(dim, 0, 1)
        return ids.amax(dim, keepdim=True)

    def relate(self, ids: tuple[Tensor, ...], coefficients: tuple[float, ...]) -> None:
        """Σ coefficient·exponent = 0, entry by entry."""
        stacked = torch.stack([t.reshape(-1) for t in torch.broadcast_tensors(*ids)])
        keep = (stacked != ANY).all(0)
        if bool(keep.any()):
            self.rows.append((np.unique(stacked[:, keep].numpy(), axis=1).T, coefficients))

    def combined(self, terms: list[tuple[Tensor, float]]) -> Tensor:
        """The exponent Σ coefficient·term, as a known one where possible, else as a new one."""
        alive = [(ids, c) for ids, c in terms if not bool((ids == ZERO).all())]
        shape = torch.broadcast_shapes(*(ids.shape for ids, _ in terms))
        if not alive:
            return constant(ZERO, shape)
        if len(alive) == 1 and alive[0][1] == 1:
            return alive[0][0].expand(shape)
        stacked = torch.stack(torch.broadcast_tensors(*(ids for ids, _ in alive))).expand(
            -1, *shape
        )
        rows, where = torch.unique(stacked.reshape(len(alive), -1), dim=1, return_inverse=True)
        new = self.fresh(rows.shape[1])
        self.relate((*rows, new), (*(c for _, c in alive), -1.0))
        new = torch.where((rows == ANY).any(0), ANY, new)
        return new[where].reshape(shape)

    def use(self, parameter: str, dims: tuple[int, ...], ids: Tensor, sign: float) -> None:
        """The exponent of this parameter has `sign`·ids in it."""
        self.uses.append(Use(parameter, dims, ids, sign))

    def define(self, entries: Tensor, out: Tensor, into: Tensor) -> None:
        """Entries of a parameter, with the exponents out − into."""
        self.defined.append((entries.reshape(-1), out.reshape(-1), into.reshape(-1)))

    def head(self, ids: Tensor, word: str) -> None:
        """Channels, along the last axis, that one head of attention works on."""
        self.heads.append((np.unique(ids.numpy()), ids.shape[-1], word))

    def mark(self, ids: Tensor, word: str) -> None:
        """Remember what these passed through, for names and to know what is linear."""
        self.marks.append((np.unique(ids.numpy()), word))
