"""The symmetries of a model: found in its graph, checked on data, what is left out named."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import overload

import torch
from torch import nn

from .._measure.batches import on_device
from .._measure.duplicate import duplicate
from .._measure.undisturbed import autocast_off
from .._measure.unwrap import is_meta, made_where, unwrap_model
from .check import Scalar, measured, random_scalar
from .families import families
from .family import EXACT, SINGLE, Family
from .module_graph import follow_modules
from .parameters import Call, DoubleByDefault, as_in_training, call_arguments, double, inventory
from .results import outputs
from .walk import GraphWalk

NEARLY = 1e-2  # what holds less well than this is not called a symmetry

KINDS = {
    "rescaling": "in against out of each unit",
    "pair": "two linear maps that meet",
    "scaling": "scale that a normalisation removes",
    "declared": "declared by you",
}


@dataclasses.dataclass(frozen=True)
class Symmetries(Sequence[Family]):
    """The families of symmetries of a model, and what was left out.

    Convention: charge C = θᵀAθ; `holds` of a family is the largest |g·Aθ|/‖g‖‖Aθ‖ of its units.

    Attributes:
        families: those that hold, exactly or nearly.
        rejected: what the structure suggests but numbers do not confirm.
        tied: parameters with several names; not moved.
        frozen: parameters that need no gradient; not moved.
        parametrised: parameters that others are computed from; not moved.
        shared: parameters that are used in several places; not moved.
        unknown: operations that were not understood. What touches them is taken not to scale, so
            that symmetries may be missed there.
        still: units that are understood and cannot be rescaled, with the reason.
    """

    families: tuple[Family, ...]
    rejected: tuple[Family, ...] = ()
    tied: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    parametrised: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    still: tuple[str, ...] = ()

    @property
    def exact(self) -> tuple[Family, ...]:
        """Those that hold up to rounding."""
        return tuple(family for family in self.families if family.exact)

    @property
    def approximate(self) -> tuple[Family, ...]:
        """Those that nearly hold, such as a normalisation with an epsilon."""
        return tuple(f for f in self.families if not f.exact and f.holds is not None)

    @property
    def _unchecked(self) -> bool:
        return any(family.holds is None for family in self.families)

    @overload
    def __getitem__(self, index: int) -> Family: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Family]: ...
    def __getitem__(self, index: int | slice) -> Family | Sequence[Family]:
        return self.families[index]

    def __len__(self) -> int:
        return len(self.families)

    def __iter__(self) -> Iterator[Family]:
        return iter(self.families)

    def __repr__(self) -> str:
        lines = [_line(family) for family in self.families] or ["no symmetries"]
        return "\n".join([*lines, *self.notes()])

    def notes(self) -> list[str]:
        """What was left out, a line each."""
        left_out = {
            "not checked": ["the parameters are on the meta device"] if self._unchecked else [],
            "not confirmed": [f"{f.name} ({f.holds:.0e})" for f in self.rejected],
            "tied, not moved": self.tied,
            "frozen, not moved": self.frozen,
            "parametrised, not moved": self.parametrised,
            "used in several places, not moved": self.shared,
            "no rescaling": self.still,
            "not understood": self.unknown,
        }
        return [f"{word}: {', '.join(names)}" for word, names in left_out.items() if names]


def _line(family: Family) -> str:
    how = "not checked" if family.holds is None else f"holds to {family.holds:.0e}"
    how = "exact" if family.exact else how
    units = f"{family.units} unit{'s' if family.units > 1 else ''}"
    return f"{family.name}: {units}, {KINDS.get(family.kind, family.kind)}, {how}"


def symmetries(model: nn.Module, example_input: object, *, key: int = 0) -> Symmetries:
    """Which rescalings of a model's parameters change none of its outputs.

    The graph of the model (`torch.export`; its modules one by one where it has none) is read as a
    system of units of measurement: every operation says how the scales of its inputs and outputs
    hang together, and what is left free is a symmetry. This finds neurons between homogeneous
    activations, linear maps that meet, query–key and value–output pairs, gated units, what feeds a
    normalisation and its gains. Each is then checked in float64 on a copy: the gradient of a random
    combination of the outputs must not see it, here and at three random points. Autocast plays no
    part, caches in the result are left out. On the meta device there are no numbers to check with:
    `holds` is None.

    Normalisation layers are taken as in training, by the batch's own statistics. The model is not
    changed.

    Args:
        model: any module.
        example_input: what it is called with: a tensor, a tuple of arguments or a dict of named
            ones. Two short samples will do.
        key: an integer; decides the random points.

    Returns:
        The families, those nearest to the input first.
    """
    call = call_arguments(example_input)
    return find_symmetries(unwrap_model(model).model, call, as_trained=True, key=key)


def find_symmetries(
    model: nn.Module,
    call: Call,
    *,
    as_trained: bool,
    losses: Sequence[Scalar] = (),
    key: int = 0,
) -> Symmetries:
    """`symmetries`, with losses that are looked at too.

    Args:
        model: unwrapped.
        call: its arguments, and named ones.
        as_trained: batch statistics in normalisation layers; running ones if not.
        losses: further functions of the model, in float64, that must not change.
        key: decides the random points.
    """

    def look(twin: nn.Module, given: Call, tolerance: float) -> Symmetries:
        twin = as_in_training(twin) if as_trained else twin.eval()
        _check_call(twin, given)
        return _looked(twin, given, losses, key, tolerance)

    with autocast_off():
        call = on_device(call, model) if is_meta(model) else call
        try:
            with DoubleByDefault():
                return look(*double(model, call), EXACT)
        except NotCallable:  # perhaps it insists on single precision
            return look(duplicate(model), call, SINGLE)


def _looked(
    twin: nn.Module, call: Call, losses: Sequence[Scalar], key: int, tolerance: float
) -> Symmetries:
    known = inventory(twin)
    walk = _walked(twin, call, known.fixed)
    claimed = families(walk.ledger)
    scalars = [random_scalar(call, key), *(losses if tolerance == EXACT else ())]
    tolerance = SINGLE if walk.single else tolerance
    if is_meta(twin):
        checked = [dataclasses.replace(f, block=None, tolerance=tolerance) for f in claimed]
    else:
        checked = measured(twin, scalars, claimed, key, tolerance) if claimed else []
    return Symmetries(
        tuple(f for f in checked if _holds(f)),
        tuple(f for f in checked if not _holds(f)),
        *(known.tied, known.frozen, known.parametrised),
        tuple(sorted(walk.fixed - known.fixed)),
        tuple(walk.unknown),
        tuple(walk.still),
    )


class NotCallable(ValueError):
    """A model does not take its example."""


def _check_call(model: nn.Module, call: Call) -> None:
    """Say what is wrong with an example before it is lost among the ways to read a graph."""
    try:
        with torch.no_grad(), made_where(model):
            result = model(*call[0], **call[1])
    except Exception as error:
        raise NotCallable(
            f"example_input must be what the model is called with, got {type(error).__name__}: "
            f"{error}. BatchNorm is looked at as in training and needs at least 2 samples"
        ) from error
    if not outputs(result):
        raise ValueError(
            "model must return floating tensors, alone or in tuples, lists, dicts or dataclasses, "
            f"got {type(result).__name__}"
        )


def _holds(family: Family) -> bool:
    return family.holds is None or family.holds <= NEARLY


def _walked(model: nn.Module, call: Call, fixed: set[str]) -> GraphWalk:
    """Follow the model; once more where a parameter turns out to be used twice."""
    while True:
        walk = GraphWalk(fixed)
        for ids in follow_modules(walk, model, call):
            walk.ledger.zero(ids)
        if walk.shared <= fixed:
            return walk
        fixed = fixed | walk.shared
