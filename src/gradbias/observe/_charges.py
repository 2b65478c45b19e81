"""The charges of a net's symmetries, and the exact amounts by which steps move them."""

from ..nets import Net
from ..numerics.types import Number, PyTree
from ..problems import Problem
from ._running import running
from .base import Measurement, Observable, refuse


class Charges(Observable):
    """θᵀAθ for every symmetry that the net lists, a variable for each."""

    @property
    def name(self) -> str:
        return "charges"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        if not net.symmetries():
            refuse(self, "a net that lists symmetries", net)
        return self

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> dict[str, Number]:
        return {name: s.charge(params) for name, s in net.symmetries().items()}


def charge_increments(
    problem: Problem, net: Net, params: PyTree, gradient: PyTree, lr: Number
) -> dict[str, Number]:
    """lr²·gᵀAg: what a step of SGD adds to each charge, exactly, without momentum and decay."""
    return {name: lr**2 * s.form(gradient, gradient) for name, s in net.symmetries().items()}


charges: Charges = Charges()
charge_drift = running(charge_increments)
