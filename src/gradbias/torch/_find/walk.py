"""What the rules write to while they follow a model: the ledger, its parameters, what is odd."""

import dataclasses
from collections.abc import Collection
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .ledger import ZERO, Ledger, constant, is_all, slices


@dataclasses.dataclass(frozen=True)
class Weight:
    """A parameter that nothing has been done to yet.

    Attributes:
        name: in `model.named_parameters()`.
        shape: its shape.
    """

    name: str
    shape: tuple[int, ...]


class Operation(NamedTuple):
    """One operation of a graph, with exponents in place of tensors.

    Attributes:
        word: its name, without its overload.
        args: as the operation takes them.
        kwargs: the named ones.
        shape: of the result: a torch.Size, of several results a tuple, of a number the number.
    """

    word: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: object

    @property
    def size(self) -> torch.Size:
        """The shape of the result, of several the first one's."""
        first = self.shape[0] if type(self.shape) is tuple else self.shape
        if not isinstance(first, torch.Size):
            raise ValueError(f"{self.word} gives no tensor")
        return first

    def argument(self, position: int, default: object = None) -> Any:
        """One of `args`, or `default` where there are not so many."""
        return self.args[position] if len(self.args) > position else default

    @property
    def rest(self) -> tuple[object, ...]:
        """The shapes of further results."""
        return self.shape[1:] if type(self.shape) is tuple else ()


class GraphWalk:
    """One way through a model.

    Attributes:
        ledger: the exponents.
        fixed: parameters that must not scale: frozen, tied, parametrised.
        shared: parameters that turned out to be used in two places.
        unknown: operations without a rule, with the module that they are in.
        still: units that are understood and cannot be rescaled, with the reason.
        place: the module that is being followed.
    """

    def __init__(self, fixed: Collection[str]):
        self.ledger = Ledger()
        self.fixed = set(fixed)
        self.shared: set[str] = set()
        self.unknown: dict[str, None] = {}
        self.still: dict[str, None] = {}
        self.place = ""
        self.mutates = False
        self.single = False  # does it cast to single precision or less somewhere?
        self._once: set[str] = set()
        self._spread: dict[str, Tensor] = {}
        self._owned: list[tuple[int, int]] = []

    def parameter(self, name: str, shape: tuple[int, ...]) -> "Weight | Tensor":
        """What stands for a parameter in the arguments of a rule."""
        return constant(ZERO, shape) if name in self.fixed else Weight(name, shape)

    def ids(self, value: "Weight | Tensor") -> Tensor:
        """The exponents of a tensor; every entry of a parameter has its own."""
        if isinstance(value, Tensor):
            return value
        if value.name not in self._spread:
            self._claim(value.name)
            ids = self.ledger.fresh(*value.shape)
            self._spread[value.name] = ids
            self._owned.append((self.ledger.count - ids.numel(), self.ledger.count))
            self.ledger.use(value.name, tuple(range(ids.ndim)), ids, 1.0)
        return self._spread[value.name]

    def _claim(self, name: str) -> None:
        """A weight that is used twice has two sets of conditions: too many for one symmetry."""
        if name in self._once:
            self.shared.add(name)
        self._once.add(name)

    def is_parameter(self, value: "Weight | Tensor") -> bool:
        """Is this a parameter, or a piece of one?"""
        if isinstance(value, Weight):
            return True
        if not value.numel():
            return False
        few = slices(value)[0]
        low = int(few.min())
        high = int(few.max())
        return any(start <= low and high < stop for start, stop in self._owned)

    def makes(
        self,
        weight: "Weight | Tensor",
        out: tuple[tuple[int, ...], Tensor],
        into: tuple[tuple[int, ...], Tensor],
    ) -> None:
        """Every entry of `weight` takes `into` to `out`: its exponent is their difference.

        Args:
            weight: a parameter, or exponents.
            out: along which of its axes the outputs are, and their exponents.
            into: the same for its inputs.
        """
        ledger = self.ledger
        if isinstance(weight, Weight):
            self._claim(weight.name)
            ledger.use(weight.name, out[0], out[1], 1.0)
            ledger.use(weight.name, into[0], into[1], -1.0)
            return
        to = _spread(out, weight)
        by = _spread(into, weight)
        if is_all(weight, ZERO):
            ledger.merge(to, by)
        else:
            ledger.define(weight, to, by)

    def adds(self, bias: "Weight | Tensor | None", out: Tensor) -> None:
        """`bias` scales like `out`, along its last axes."""
        if isinstance(bias, Weight):
            self._claim(bias.name)
            dims = tuple(range(len(bias.shape) - out.ndim, len(bias.shape)))
            self.ledger.use(bias.name, dims, out, 1.0)
        elif bias is not None:
            self.ledger.merge(bias, out)

    def gain(self, weight: "Weight | Tensor | None", shape: tuple[int, ...]) -> Tensor:
        """The exponents of what a normalisation gives: those of its gain."""
        if weight is None:
            return constant(ZERO, shape)
        if not isinstance(weight, Weight):
            return weight
        out = self.ledger.fresh(*shape)
        self.adds(weight, out)
        return out


def _spread(side: tuple[tuple[int, ...], Tensor], weight: Tensor) -> Tensor:
    """A side's exponents, shaped like the weight."""
    dims, ids = side
    return ids.reshape([n if d in dims else 1 for d, n in enumerate(weight.shape)]).expand_as(
        weight
    )
