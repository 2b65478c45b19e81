"""Symmetries that mix parameters: of linear seams, of u² − v², and any other."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.types import Array, Number, PyTree
from .named_entries import (
    Entries,
    Entry,
    Part,
    amounts,
    apart,
    changed,
    copy,
    exponential,
    leaf,
    module,
    number,
    part,
    parts,
    symmetric,
    zeros,
)
from .symmetry import Symmetry


class Pair(Symmetry):
    """W B next to −B W for symmetric B: two layers with a linear seam; see `pair`."""

    left: tuple[Part, ...] = eqx.field(static=True)
    right: tuple[Part, ...] = eqx.field(static=True)
    B: Any

    def form(self, x: PyTree, y: PyTree) -> Number:
        Lx, Rx = self._layers(x)
        Ly, Ry = (Lx, Rx) if x is y else self._layers(y)
        lefts = list(zip(Lx, Ly, strict=True))
        rights = list(zip(Rx, Ry, strict=True))
        if self.B is not None:
            up = sum(((a @ self.B) * b).sum() for a, b in lefts)
            return up - sum(((self.B @ a) * b).sum() for a, b in rights)
        matrix: Any = sum(a.T @ b for a, b in lefts) - sum(a @ b.T for a, b in rights)
        return matrix if x is y else (matrix + matrix.T) / 2

    def entries(self, params: PyTree) -> tuple[int, int] | None:
        """Of the generator of one unit: B = e_a e_aᵀ."""
        if self.B is not None:
            return None
        L, R = self._layers(params)
        return sum(a.shape[0] for a in L), sum(b.shape[1] for b in R)

    def spectral_charge(self, params: PyTree, power: float) -> Array:
        """(WᵀW)^(q/2) − (W'W'ᵀ)^(q/2) of one layer on each side; q = 2 is the charge itself."""
        L, R = self._layers(params)
        if self.B is not None or len(L) != 1 or len(R) != 1:
            raise ValueError("powers of singular values need a pair of one layer and one layer")
        return _gram_power(L[0], power) - _gram_power(R[0].T, power)

    def apply(self, params: PyTree, weights: Number = 1.0) -> dict[str, Any]:
        M = self._matrix("weights", weights, params)
        return changed(zeros(params), self.turned(params, M, -M))

    def move(self, params: PyTree, lam: Number) -> dict[str, Any]:
        M = self._matrix("lam", lam, params)
        return changed(copy(params), self.turned(params, exponential(M), exponential(-M)))

    def lengths(self, params: PyTree) -> Array:
        L, R = self._layers(params)
        if self.B is not None:
            square = sum(((a @ self.B) ** 2).sum() for a in L)
            square = square + sum(((self.B @ b) ** 2).sum() for b in R)
            return module(square).sqrt(square)
        # The generator of the entry (a, b) has B = (e_a e_bᵀ + e_b e_aᵀ)/2.
        norms: Any = sum((a * a).sum(axis=0) for a in L) + sum((b * b).sum(axis=1) for b in R)
        square = (norms[:, None] + norms[None, :]) / 4 * (1 + np.eye(len(norms), dtype=norms.dtype))
        return module(square).sqrt(square)

    def _layers(self, params) -> tuple[list[Any], list[Any]]:
        """The layers as matrices; a vector is a row on the left and a column on the right."""
        apart(self.left + self.right, params)
        L = [p.of(params) for p in self.left]
        R = [p.of(params) for p in self.right]
        L = [a[None, :] if a.ndim == 1 else a for a in L]
        R = [b[:, None] if b.ndim == 1 else b for b in R]
        shapes = [a.shape for a in L], [b.shape for b in R]
        sizes = {s[-1] for s in shapes[0] if len(s) == 2} | {s[0] for s in shapes[1] if len(s) == 2}
        if len(sizes) != 1 or any(len(s) != 2 for s in shapes[0] + shapes[1]):
            raise ValueError(
                f"a pair needs layers (·, h) on the left and (h, ·) on the right, got {shapes[0]} "
                f"and {shapes[1]}"
            )
        if self.B is not None and self.B.shape[0] not in sizes:
            raise ValueError(f"B must be of the layers' size {sizes.pop()}, got {self.B.shape}")
        return L, R

    def turned(self, params: PyTree, on_left: Array, on_right: Array) -> list[tuple[Part, Any]]:
        """The layers times matrices in the seam: W·on_left and on_right·W'."""
        L, R = self._layers(params)
        made = [a @ on_left for a in L] + [on_right @ b for b in R]
        parts = self.left + self.right
        return [(p, m.reshape(p.of(params).shape)) for p, m in zip(parts, made, strict=True)]

    def _matrix(self, name: str, value, params) -> Array:
        if self.B is not None:
            return number(name, value) * self.B
        size = self._layers(params)[0][0].shape[1]
        if np.ndim(value) == 0:
            return number(name, value) * np.eye(size)
        if checks.is_jax(value):
            return (value + value.T) / 2
        return symmetric(name, value, size)


def _gram_power(W, power: float) -> Array:
    """(WᵀW)^(q/2), by singular values: a root of WᵀW would lose half of the digits."""
    _, s, Vt = module(W).linalg.svd(W, full_matrices=False)
    return (Vt.T * s[None, :] ** power) @ Vt


class Hyperbolic(Symmetry):
    """A swaps u_j and v_j, for every j; see `hyperbolic`."""

    u: Part = eqx.field(static=True)
    v: Part = eqx.field(static=True)

    def form(self, x: PyTree, y: PyTree) -> Array:
        xu, xv = self._both(x)
        yu, yv = self._both(y)
        return xu * yv + xv * yu

    def apply(self, params: PyTree, weights: Number = 1.0) -> dict[str, Any]:
        u, v = self._both(params)
        w = amounts("weights", weights, u.shape)
        return changed(zeros(params), [(self.u, w * v), (self.v, w * u)])

    def move(self, params: PyTree, lam: Number) -> dict[str, Any]:
        u, v = self._both(params)
        lam = amounts("lam", lam, u.shape)
        # On u ± v the move is a product: no digits are lost where the two nearly cancel.
        up = module(lam).exp(lam) * (u + v)
        down = module(lam).exp(-lam) * (u - v)
        return changed(copy(params), [(self.u, (up + down) / 2), (self.v, (up - down) / 2)])

    def lengths(self, params: PyTree) -> Array:
        u, v = self._both(params)
        return module(u).sqrt(u * u + v * v)

    def _both(self, params) -> tuple[Any, Any]:
        apart((self.u, self.v), params)
        u = self.u.of(params)
        v = self.v.of(params)
        if u.shape != v.shape:
            raise ValueError(f"hyperbolic needs u and v of one shape, got {u.shape} and {v.shape}")
        return u, v


class General(Symmetry):
    """Any symmetric matrix on the ravelled parameters; see `general`."""

    A: Any
    names: tuple[str, ...] | None = eqx.field(static=True)

    def form(self, x: PyTree, y: PyTree) -> Number:
        return self._flat(x) @ (self.A @ self._flat(y))

    def apply(self, params: PyTree, weights: Number = 1.0) -> dict[str, Any]:
        value = number("weights", weights) * (self.A @ self._flat(params))
        return self._shaped(zeros(params), value)

    def move(self, params: PyTree, lam: Number) -> dict[str, Any]:
        value = exponential(number("lam", lam) * self.A) @ self._flat(params)
        return self._shaped(copy(params), value)

    def lengths(self, params: PyTree) -> Number:
        image = self.A @ self._flat(params)
        return module(image).sqrt((image * image).sum())

    def _leaves(self, params) -> list[Any]:
        if self.names is None:
            return jax.tree.leaves(copy(params))
        return [leaf(params, name) for name in self.names]

    def _flat(self, params) -> Array:
        leaves = self._leaves(params)
        flat = module(*leaves).concatenate([leaf.reshape(-1) for leaf in leaves])
        if len(flat) != len(self.A):
            what = "all parameters" if self.names is None else f"{list(self.names)}"
            raise ValueError(
                f"A is of size {len(self.A)}, but {what} together have {len(flat)} entries"
            )
        return flat

    def _shaped(self, into, flat) -> dict[str, Any]:
        leaves = self._leaves(into)
        stops = np.cumsum([leaf.size for leaf in leaves]).tolist()
        shaped = [
            flat[stop - leaf.size : stop].reshape(leaf.shape)
            for stop, leaf in zip(stops, leaves, strict=True)
        ]
        if self.names is None:
            return jax.tree.unflatten(jax.tree.structure(into), shaped)
        return {**into, **dict(zip(self.names, shaped, strict=True))}


def pair(left: Entries, right: Entries, B: ArrayLike | None = None) -> Pair:
    r"""Two layers with nothing but a product between them: W → W e^B, W' → e^{−B} W'.

    Without B this is the whole family of symmetric B, and the charge is the (h, h) matrix
    $W^T W - W' W'^T$; with B it is one generator, of charge $\mathrm{tr}(B\,\cdot)$ of it.

    Args:
        left: the layer (·, h), a parameter's name or (name, index); a vector (h,) is one row. A
            list stands for several that share the seam, such as a weight and its bias.
        right: the layer (h, ·); a vector (h,) is one column.
        B: (h, h) symmetric.
    """
    matrix = None if B is None else symmetric("B", B)
    return Pair(parts("left", left), parts("right", right), matrix)


def hyperbolic(u: Entry, v: Entry) -> Hyperbolic:
    r"""Hyperbolic rotations of (u_j, v_j), which leave u² − v² unchanged: $C_j = 2 u_j v_j$.

    Args:
        u: a parameter's name, or (name, index).
        v: another of the same shape.
    """
    return Hyperbolic(part("u", u), part("v", v))


def general(A: ArrayLike, names: Sequence[str] | None = None) -> General:
    """Any symmetric A on ravelled parameters.

    Args:
        A: (D, D) symmetric.
        names: the parameters it acts on, ravelled and joined in this order; all of them, in the
            order of jax's `ravel_pytree` (sorted names), if None.
    """
    if names is not None:
        listed = isinstance(names, Sequence) and not isinstance(names, str)
        if not listed or not names or any(not isinstance(name, str) for name in names):
            raise ValueError(f"names must be a list of parameters' names, got {names!r:.80}")
        if len(set(names)) < len(names):
            raise ValueError(f"names must all be different, got {list(names)}")
    return General(symmetric("A", A), None if names is None else tuple(names))
