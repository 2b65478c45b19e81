"""A user's loss or residual as a function of one flat vector (jax-level)."""

from collections.abc import Callable, Hashable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..numerics import checks, precision
from ..numerics.types import PyTree


class Target(eqx.Module):
    """L of a flat vector, from `loss` or from `residual` with L = ½‖residual‖².

    A PyTree whose equality is that of its parts, so that compiled code is found again for the
    same function and shapes.

    Attributes:
        function: what the user wrote, of the PyTree.
        rest: what x holds beside its arrays, such as the activation of an equinox module.
        structure: of the arrays.
        shapes: of the arrays, in order.
        squares: is `function` a residual?
    """

    function: Any
    rest: Any
    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    squares: bool = eqx.field(static=True)

    @property
    def factored(self) -> bool:
        """Is a J known with H = JᵀJ on the manifold? Of a residual, or of a loss with `rows`."""
        return self.squares or hasattr(self.function, "rows")

    @property
    def size(self) -> int:
        """D, the number of parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes)

    def arrays(self, flat) -> PyTree:
        """A flat vector in the structure of x, None where x holds something else."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes])
        starts = ends - [int(np.prod(shape)) for shape in self.shapes]
        leaves = [
            flat[a:b].reshape(shape) for a, b, shape in zip(starts, ends, self.shapes, strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)

    def point(self, flat) -> PyTree:
        """A flat vector as a point: what the user's function takes."""
        return eqx.combine(self.arrays(flat), self.rest)

    def residual(self, flat) -> jax.Array:
        """The residual as a vector (n,); of a loss there is none."""
        return ravel_pytree(self.function(self.point(flat)))[0]

    def loss(self, flat) -> jax.Array:
        """L."""
        if not self.squares:
            return jnp.reshape(self.function(self.point(flat)), ())
        residual = self.residual(flat)
        return 0.5 * jnp.vdot(residual, residual)

    def gradient(self, flat) -> jax.Array:
        """∇L, (D,)."""
        return jax.grad(self.loss)(flat)

    def hessian_product(self, flat, vector) -> jax.Array:
        """∇²L·vector."""
        return jax.jvp(self.gradient, (flat,), (vector,))[1]

    def jacobian(self, flat) -> jax.Array:
        """J of the residual, (n, D), or one with H = JᵀJ; by sample where the samples are known."""
        if hasattr(self.function, "rows"):
            return self.function.rows(self.point, flat)
        n = jax.eval_shape(self.residual, flat).shape[0]
        return (jax.jacrev if n <= flat.size else jax.jacfwd)(self.residual)(flat)


def target_at(
    x: PyTree, loss: Callable[[PyTree], PyTree] | None, residual: Callable[[PyTree], PyTree] | None
) -> tuple[Target, np.ndarray]:
    """The checked function and the flat float64 point; ValueErrors name what does not fit."""
    if (loss is None) == (residual is None):
        given = "both" if loss is not None else "neither"
        raise ValueError(
            f"give either loss= or residual= (with L = ½‖residual‖²), got {given} of them"
        )
    name, function = ("loss", loss) if residual is None else ("residual", residual)
    if not callable(function):
        raise ValueError(f"{name} must be a jax function of x, got {function!r:.80}")
    arrays, rest = split_tree(x)
    leaves, structure = jax.tree.flatten(arrays)
    shapes = tuple(leaf.shape for leaf in leaves)
    target = Target(_hashable(function), rest, structure, shapes, residual is not None)
    flat = np.concatenate([leaf.ravel() for leaf in leaves])
    _check_output(name, target, flat)
    return target, flat


def split_tree(x: PyTree) -> tuple[Any, Any]:
    """The float64 arrays of x and the rest of it, as two PyTrees with None in between."""
    if isinstance(x, (list, tuple)) and all(isinstance(v, (int, float, np.number)) for v in x):
        x = np.asarray(x)
    module = isinstance(x, eqx.Module)
    # In a module, numbers are settings and only its arrays are parameters.
    arrays, rest = eqx.partition(x, eqx.is_inexact_array if module else _is_number)
    arrays = jax.tree.map(lambda leaf: checks.array("x", leaf), arrays)
    if sum(leaf.size for leaf in jax.tree.leaves(arrays)) == 0:
        raise ValueError(f"x must hold at least one number, got {x!r:.80}")
    return arrays, rest


def flatten_like(name: str, tree: PyTree, target: Target) -> np.ndarray:
    """A PyTree of the structure of x, or a flat vector, as a flat float64 vector."""
    if getattr(tree, "ndim", None) == 1 or len(target.shapes) == 1:
        return checks.array(name, tree).reshape(checks.array(name, tree).size)
    leaves = jax.tree.leaves(split_tree(tree)[0])
    shapes = tuple(leaf.shape for leaf in leaves)
    if shapes != target.shapes:
        raise ValueError(f"{name} must have the shapes of x, {target.shapes}, got {shapes}")
    return np.concatenate([leaf.ravel() for leaf in leaves])


def _is_number(leaf: object) -> bool:
    if isinstance(leaf, (bool, str)) or callable(leaf):
        return False
    return isinstance(leaf, (int, float)) or hasattr(leaf, "dtype")


def _check_output(name: str, target: Target, flat: np.ndarray) -> None:
    """Trace the user's function once: is its result real, of the right shape, in float64?"""
    key = (name, _identity(target.function), _identity(target.rest), target.shapes)
    if key in _CHECKED:
        return
    out = precision.warn_of_float32(name, lambda v: target.function(target.point(v)), flat)
    leaves = jax.tree.leaves(out)
    if not leaves or any(leaf.dtype.kind != "f" for leaf in leaves):
        raise ValueError(f"{name}(x) must be real numbers, got {out!r:.120}")
    if name == "loss" and sum(leaf.size for leaf in leaves) != 1:
        raise ValueError(
            f"loss(x) must be one number, got shape {leaves[0].shape}: a function that returns "
            "many goes in as residual=, scaled so that L = ½‖residual‖²"
        )
    if name == "residual" and sum(leaf.size for leaf in leaves) == 0:
        raise ValueError("residual(x) must not be empty, got no numbers")
    _remember(key)


# Functions that were traced and found right: tracing again would cost more than many results.
_CHECKED: dict[Any, None] = {}
_MOST = 256


def _identity(tree: PyTree) -> tuple[Hashable, ...]:
    """What a traced function depends on: all of it but the values of arrays."""
    leaves, structure = jax.tree.flatten(tree)
    kinds = [
        (leaf.shape, leaf.dtype) if eqx.is_array_like(leaf) and hasattr(leaf, "dtype") else leaf
        for leaf in leaves
    ]
    return structure, tuple(kinds)


def _remember(key: Hashable) -> None:
    _CHECKED[key] = None
    while len(_CHECKED) > _MOST:
        _CHECKED.pop(next(iter(_CHECKED)))


class _ByIdentity:
    """A callable that cannot be hashed, as one that can."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def __call__(self, x: PyTree) -> PyTree:
        return self.function(x)

    def __hash__(self) -> int:
        return id(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.function is other.function


def _hashable(function: Callable[[PyTree], PyTree]) -> Hashable:
    if isinstance(function, eqx.Module):  # its arrays are arguments of compiled code
        return function
    try:
        hash(function)
    except TypeError:
        return _ByIdentity(function)
    return function
