"""The charges of a net's symmetries, and the exact amounts by which steps move them."""

from typing import TYPE_CHECKING, overload

import equinox as eqx
import jax
import numpy as np

from ..nets import Net
from ..numerics import checks
from ..numerics.types import Number, PyTree
from ..problems import Problem
from ._running import running
from .base import Measurement, Observable, refuse

if TYPE_CHECKING:  # it would bring SciPy with it
    from ..symmetry import Symmetry

KINDS = ("entries", "singular_values")


class PowerCharges(Observable):
    """See `charges`."""

    power: float = eqx.field(static=True)
    of: str = eqx.field(static=True)

    def __init__(self, power: float, of: str):
        self.power = checks.number("power", power, above=0)
        self.of = checks.one_of("of", of, KINDS)

    @property
    def name(self) -> str:
        return f"charges_{self.power:g}"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        if not net.symmetries():
            refuse(self, "a net that lists symmetries", net)
        shapes = net.shapes()
        if shapes is not None:  # a symmetry without such a charge says so
            self(problem, net, {name: np.zeros(shape) for name, shape in shapes.items()})
        return self

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> dict[str, Number]:
        symmetries = net.symmetries().items()
        if self.of == "entries":
            roots = jax.tree.map(lambda p: abs(p) ** (self.power / 2), params)
            return {name: _of_units(self, name, s, params, roots) for name, s in symmetries}
        return {name: s.spectral_charge(params, self.power) for name, s in symmetries}


class Charges(Observable):
    """θᵀAθ for every symmetry that the net lists, a variable for each.

    `charges(power=q)` is Σ|θ_+|^q − Σ|θ_−|^q instead, which steepest flow in ℓp keeps where a
    symmetry has one parameter on each side (1/p + 1/q = 1; q = 1 for sign descent).
    `charges(power=1, of="singular_values")` is √(W1ᵀW1) − √(W2W2ᵀ), which Muon keeps in layers
    that are aligned.
    """

    @property
    def name(self) -> str:
        return "charges"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        if not net.symmetries():
            refuse(self, "a net that lists symmetries", net)
        return self

    @overload
    def __call__(self, *, power: float, of: str = ...) -> PowerCharges: ...
    @overload
    def __call__(self, problem: Problem, net: Net, params: PyTree) -> dict[str, Number]: ...
    def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        problem: Problem | None = None,
        net: Net | None = None,
        params: PyTree = None,
        *,
        power: float | None = None,
        of: str = "entries",
    ) -> PowerCharges | dict[str, Number]:
        if power is not None:
            return PowerCharges(power, of)
        assert net is not None
        return {name: s.charge(params) for name, s in net.symmetries().items()}


def _of_units(
    observable: Observable, name: str, symmetry: "Symmetry", params: PyTree, roots: PyTree
) -> Number:
    if symmetry.entries(params) is None:
        raise ValueError(
            f"observable {observable.name!r} needs symmetries that do not mix parameters, "
            f"got {name!r}"
        )
    value = symmetry.charge(roots)
    return value if np.ndim(value) < 2 else value.diagonal()  # pyright: ignore[reportAttributeAccessIssue]


def charge_increments(
    problem: Problem, net: Net, params: PyTree, gradient: PyTree, lr: Number
) -> dict[str, Number]:
    """lr²·gᵀAg: what a step of SGD adds to each charge, exactly, without momentum and decay."""
    return {name: lr**2 * s.form(gradient, gradient) for name, s in net.symmetries().items()}


charges: Charges = Charges()
charge_drift = running(charge_increments)
