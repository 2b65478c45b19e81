r"""Symmetries of nets: symmetric generators A that act on named parameters.

The loss of every sample is the same at θ and at exp(λA)θ, so its gradient is at right angles to
Aθ and gradient flow conserves the charge $C = \theta^T A\,\theta$. A family holds many generators
$A_j$ at once, and its charge is an array with one entry for each.

Methods compute with NumPy when given numbers and with jax when given jax arrays. Here are the base
class and the diagonal generators; `_mixings` has those that mix parameters.
"""

import abc
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..numerics import checks
from ..numerics.types import Array, Number, PyTree
from .named_entries import (
    Entries,
    Part,
    along,
    amounts,
    apart,
    changed,
    copy,
    leaf,
    module,
    number,
    parts,
    zeros,
)


class Symmetry(eqx.Module):
    """A symmetric generator A, or a family of them; equal settings make equal symmetries.

    In `apply` and `move` a family takes an array of the shape of its charge; a number stands for
    the same amount at every unit (for a matrix: that multiple of the identity).
    """

    @abc.abstractmethod
    def form(self, x: PyTree, y: PyTree) -> Number:
        """xᵀAy of two PyTrees of parameter shape; `form(g, g)` is what a step adds to C."""

    @abc.abstractmethod
    def apply(self, params: PyTree, weights: Number = 1.0) -> dict[str, Any]:
        r"""Aθ; of a family $(\sum_j w_j A_j)\,\theta$."""

    @abc.abstractmethod
    def move(self, params: PyTree, lam: Number) -> dict[str, Any]:
        """The move exp(λA)θ, which changes no output of the net."""

    @abc.abstractmethod
    def lengths(self, params: PyTree) -> Number:
        """‖Aθ‖; of a family one for each generator."""

    def charge(self, params: PyTree) -> Number:
        """C = θᵀAθ."""
        return self.form(params, params)

    def entries(self, params: PyTree) -> tuple[int, int] | None:
        """How many parameters each generator grows and shrinks; None if it mixes them."""
        return None

    def spectral_charge(self, params: PyTree, power: float) -> Array:
        """C with another power of singular values; of seams of two layers alone."""
        raise ValueError(
            "powers of singular values need seams of two layers, as in gb.TwoLayer and gb.Deep, "
            f"got {type(self).__name__}"
        )

    def dense(self, params: PyTree) -> np.ndarray:
        """A as a matrix, (…, D, D) for D parameters in the order of `ravel_pytree`; small nets.

        The first axes are those of the charge.
        """
        leaves, structure = jax.tree.flatten(params)
        leaves = [np.asarray(leaf, np.float64) for leaf in leaves]
        cuts = np.cumsum([leaf.size for leaf in leaves])

        def unit(j):
            parts = np.split(np.eye(cuts[-1])[j], cuts[:-1])
            shaped = [p.reshape(leaf.shape) for p, leaf in zip(parts, leaves, strict=True)]
            return jax.tree.unflatten(structure, shaped)

        units = [unit(j) for j in range(cuts[-1])]
        entries = [np.stack([np.asarray(self.form(x, y)) for y in units], -1) for x in units]
        return np.stack(entries, -2)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symmetry) and _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))


class Rescaling(Symmetry):
    """A is +1 on some entries and −1 on others; see `rescaling` and `scaling`."""

    plus: tuple[Part, ...] = eqx.field(static=True)
    minus: tuple[Part, ...] = eqx.field(static=True)

    def form(self, x: PyTree, y: PyTree) -> Number:
        apart(self.plus + self.minus, x)
        up = sum((p.of(x) * p.of(y)).sum() for p in self.plus)
        return up - sum((p.of(x) * p.of(y)).sum() for p in self.minus)

    def entries(self, params: PyTree) -> tuple[int, int] | None:
        plus, minus = (sum(p.of(params).size for p in s) for s in (self.plus, self.minus))
        return plus, minus

    def apply(self, params: PyTree, weights: Number = 1.0) -> dict[str, Any]:
        apart(self.plus + self.minus, params)
        w = number("weights", weights)
        changes = [(p, w * p.of(params)) for p in self.plus]
        return changed(zeros(params), changes + [(p, -w * p.of(params)) for p in self.minus])

    def move(self, params: PyTree, lam: Number) -> dict[str, Any]:
        apart(self.plus + self.minus, params)
        lam = number("lam", lam)
        up = module(lam).exp(lam)
        down = module(lam).exp(-lam)
        changes = [(p, up * p.of(params)) for p in self.plus]
        return changed(copy(params), changes + [(p, down * p.of(params)) for p in self.minus])

    def lengths(self, params: PyTree) -> Number:
        total = sum((p.of(params) ** 2).sum() for p in self.plus + self.minus)
        return module(total).sqrt(total)


class Neurons(Symmetry):
    """One rescaling for every unit of a layer; see `neurons`."""

    plus: tuple[tuple[str, int], ...] = eqx.field(static=True)
    minus: tuple[tuple[str, int], ...] = eqx.field(static=True)

    def form(self, x: PyTree, y: PyTree) -> Array:
        terms = []
        for name, axis, sign in self._entries(x):
            product = leaf(x, name) * leaf(y, name)
            others = tuple(i for i in range(product.ndim) if i != axis)
            terms.append(sign * product.sum(axis=others))
        return sum(terms[1:], start=terms[0])

    def entries(self, params: PyTree) -> tuple[int, int] | None:
        units = max(self._units(params), 1)
        each = [[leaf(params, n).size for n, _ in side] for side in (self.plus, self.minus)]
        return sum(each[0]) // units, sum(each[1]) // units

    def apply(self, params: PyTree, weights: Number = 1.0) -> dict[str, Any]:
        w = amounts("weights", weights, (self._units(params),))
        changes = []
        for name, axis, sign in self._entries(params):
            value = leaf(params, name)
            changes.append((Part(name), sign * along(w, axis, value) * value))
        return changed(zeros(params), changes)

    def move(self, params: PyTree, lam: Number) -> dict[str, Any]:
        lam = amounts("lam", lam, (self._units(params),))
        changes = []
        for name, axis, sign in self._entries(params):
            value = leaf(params, name)
            factor = module(lam).exp(sign * lam)
            changes.append((Part(name), along(factor, axis, value) * value))
        return changed(copy(params), changes)

    def lengths(self, params: PyTree) -> Array:
        total = Neurons(self.plus + self.minus, ()).charge(params)
        return module(total).sqrt(total)

    def _entries(self, params) -> list[tuple[str, int, float]]:
        self._units(params)
        signed = [(entry, 1.0) for entry in self.plus] + [(entry, -1.0) for entry in self.minus]
        return [(name, axis, sign) for (name, axis), sign in signed]

    def _units(self, params) -> int:
        sizes = {}
        for name, axis in self.plus + self.minus:
            shape = leaf(params, name).shape
            if axis >= len(shape):
                raise ValueError(f"a symmetry acts on axis {axis} of {name!r}, of shape {shape}")
            sizes[name] = shape[axis]
        if len(set(sizes.values())) > 1:
            raise ValueError(f"a symmetry of units needs the same number everywhere, got {sizes}")
        return next(iter(sizes.values()))


def rescaling(plus: Entries, minus: Entries) -> Rescaling:
    r"""Grow some entries and shrink others: $C = \|\theta_+\|^2 - \|\theta_-\|^2$.

    Args:
        plus: where A is +1: a parameter's name, (name, index) with whole numbers or slices, or a
            list of these.
        minus: where A is −1.
    """
    return Rescaling(_some("plus", plus), _some("minus", minus))


def scaling(names: Entries) -> Rescaling:
    r"""Scale some parameters together, A = I on them: $C = \|\theta\|^2$ there.

    Args:
        names: a parameter's name, (name, index), or a list of these.
    """
    return Rescaling(_some("names", names), ())


def neurons(plus: Mapping[str, int], minus: Mapping[str, int]) -> Neurons:
    r"""A rescaling for every unit: $C_j = \|\mathrm{in}_j\|^2 - \|\mathrm{out}_j\|^2$.

    For example `neurons({"W1": 1, "b1": 0}, {"W2": 0})` for the hidden units of a ReLU net.

    Args:
        plus: the parameters that enter a unit, each with the axis that counts units.
        minus: the parameters that leave it.
    """
    entering = _axes("plus", plus)
    leaving = _axes("minus", minus)
    both = sorted(set(plus) & set(minus))
    if both:
        raise ValueError(f"plus and minus must name different parameters, got {both} in both")
    return Neurons(entering, leaving)


def _some(what: str, values: Entries) -> tuple[Part, ...]:
    found = parts(what, values)
    if not found:
        raise ValueError(f"{what} must name at least one parameter, got {values!r:.80}")
    return found


def _axes(what: str, value: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{what} must be {{name: axis}} and not empty, got {value!r:.80}")
    for name in value:
        if not isinstance(name, str):
            raise ValueError(f"{what} must have names as keys, got {name!r:.80}")
    return tuple((n, checks.integer(f"{what}[{n!r}]", axis)) for n, axis in value.items())


def _content(tree: PyTree) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(tree)
    arrays = [np.asarray(leaf) for leaf in leaves]
    return structure, *((a.shape, a.dtype.str, a.tobytes()) for a in arrays)
