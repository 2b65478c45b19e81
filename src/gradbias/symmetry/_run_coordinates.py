"""The coordinates that a run can move in, and the equations of its minimisers in them.

What lies outside never moves: it belongs to the constants, and is left out of the count on both
sides. Chain nets close in small invariant subspaces, one for each layer; a fully connected net
moves its first layer in the row space of the data; a diagonal net freezes log|u/v| outside it.
"""

import dataclasses
import itertools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax.flatten_util import ravel_pytree

from .._generators.mixing import Pair
from .._generators.symmetry import Symmetry
from ..nets import MLP, ChainNet, Deep, Diagonal, LinearNet, Net
from ..numerics import checks
from ..numerics.types import PyTree
from ..problems import Problem, QuadraticProblem, Regression
from ._check import require

# Directions in a layer, relative to its norm: those below are rounding, those above are there.
ZERO = 1e-12
NOT_ZERO = 1e-6


class LogRatio(eqx.Module):
    """The frozen part of the dual variable of a diagonal net: log|u/v| outside the row space.

    A coordinate with v = 0 keeps it for ever and has 2·log|u| instead, and −2·log|v| with u = 0.
    """

    outside: Any
    u_moves: Any
    v_moves: Any

    def __call__(self, params) -> jax.Array:
        u = jnp.log(jnp.abs(jnp.where(self.u_moves, params["u"], 1.0)))
        v = jnp.log(jnp.abs(jnp.where(self.v_moves, params["v"], 1.0)))
        double = jnp.where(self.u_moves & self.v_moves, 1.0, 2.0)
        return self.outside.T @ (double * (u - v))


class Coordinates(eqx.Module):
    """A net in the coordinates that move.

    Attributes:
        net: the net; small where its motion closes.
        params: where it starts.
        inputs: outputs on these rows are what the data decide.
        targets: what they are on the manifold of minimisers.
        symmetries: of that net, by name.
        frozen: what else is constant, a function of the parameters; None if nothing is.
        tied: by symmetry, rows that are fixed in its hidden space: the first layer outside the
            row space. A hidden rotation that moves them changes a constant.
        moves: which entries of the ravelled parameters can move.
    """

    net: Net
    params: dict[str, Any]
    inputs: Any
    targets: Any
    symmetries: dict[str, Symmetry]
    frozen: Any
    tied: dict[str, Any]
    moves: Any

    def residual(self, flat) -> jax.Array:
        """How far the ravelled parameters are from the manifold of minimisers."""
        outputs = self.net(self.unravel(flat), self.inputs)
        return (outputs.reshape(self.targets.shape) - self.targets).reshape(-1)

    def constants(self, flat) -> jax.Array:
        """Charges, matrices as their upper triangles, and the frozen part."""
        params = self.unravel(flat)
        found = []
        for symmetry in self.symmetries.values():
            charge = jnp.asarray(symmetry.charge(params))
            whole = not isinstance(symmetry, Pair) or charge.ndim == 0
            rows = charge.reshape(-1) if whole else charge[np.triu_indices(len(charge))]
            found.append(rows)
        if self.frozen is not None:
            found.append(self.frozen(params))
        return jnp.concatenate([*found, jnp.zeros(0)])

    def unravel(self, flat) -> PyTree:
        """Ravelled parameters by name."""
        return ravel_pytree(self.params)[1](flat)


def by_size(space: Coordinates, flat: np.ndarray) -> tuple[Coordinates, np.ndarray]:
    """A chain in hidden bases that sort directions by size at a point, and the point in them.

    Constants of small directions can then be told from rounding: each is a row of its own.
    """
    if not isinstance(space.net, Deep):
        return space, flat
    names = [f"W{k}" for k in range(1, len(space.net.dims))]
    point = {name: np.asarray(leaf) for name, leaf in space.unravel(flat).items()}
    turns = [np.eye(len(point["W1"]))]
    for left, right in itertools.pairwise(names):
        both = np.vstack([point[left], point[right].T])
        turns.append(scipy.linalg.svd(both, full_matrices=True)[2].T)
    turns.append(np.eye(point[names[-1]].shape[1]))

    def turned(params):
        return {n: turns[k].T @ params[n] @ turns[k + 1] for k, n in enumerate(names)}

    tied = {name: rows @ turns[1] for name, rows in space.tied.items()}
    moved = dataclasses.replace(space, params=turned(space.params), tied=tied)
    return moved, np.array(ravel_pytree(turned(point))[0])


def coordinates(problem: Problem, net: Net, params: PyTree) -> Coordinates:
    """The coordinates of a run, or a ValueError if its minimisers are not known."""
    if not isinstance(problem, QuadraticProblem):
        raise ValueError(
            f"completeness needs a squared loss, whose minimisers are known, got {problem!r:.80}"
        )
    if problem.rank == 0:
        raise ValueError("completeness needs data that are not zero: nothing moves here")
    params = jax.tree.map(lambda leaf: checks.array("params", leaf), params)
    if isinstance(net, MLP) and net.activation == "linear" and not net.bias:
        net = Deep(net.dims)
    if isinstance(net, ChainNet):
        return _chain(problem, net, params)
    if isinstance(net, Diagonal):
        return _diagonal(problem, net, params)
    if isinstance(net, MLP) and isinstance(problem, Regression):
        return _mlp(problem, net, params)
    return _plain(problem, net, params)


def _chain(problem: QuadraticProblem, net: ChainNet, params) -> Coordinates:
    first = problem.row_space
    factors = net.factors(params)
    bases = _closure(factors, first)
    dims = [basis.shape[1] for basis in bases]
    if 0 in dims:
        raise ValueError("params: a layer is cut off, so that no gradient reaches its neighbours")
    small = {f"W{k + 1}": bases[k].T @ F @ bases[k + 1] for k, F in enumerate(factors)}
    outside = (factors[0] - first @ (first.T @ factors[0])) @ bases[1]
    target = first.T @ problem.min_norm.reshape(problem.d, problem.k)
    small["outside"] = outside
    small, target = _of_one_size(small, target)
    tied = {"W1-W2": small.pop("outside")}
    return _made(Deep(dims), small, np.eye(len(target)), target, tied=tied)


def _of_one_size(params: dict[str, Any], target: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """Parameters and labels of size one, for nets that are homogeneous in all parameters.

    A common factor of the parameters changes no rank. Nor does one of the labels, except at
    isolated values: ranks on an algebraic family are generic. Without it, a start of 1e-6 ends so
    near to a net of lower rank that rounding decides the count.
    """
    moving = [leaf for name, leaf in params.items() if name != "outside"]
    size = np.sqrt(np.mean(np.concatenate([leaf.ravel() for leaf in moving]) ** 2)) or 1.0
    labels = np.sqrt(np.mean(target**2)) or 1.0
    return {name: leaf / size for name, leaf in params.items()}, target / labels


def _closure(factors: list[np.ndarray], first: np.ndarray) -> list[np.ndarray]:
    """Bases E0 … EN with Fkᵀ E(k−1) ⊂ Ek and Fk Ek ⊂ E(k−1): the factors move inside them."""
    units = [F / (np.linalg.norm(F, 2) or 1.0) for F in factors]
    bases = [first, *(np.zeros((F.shape[1], 0)) for F in factors)]
    bases[-1] = np.eye(factors[-1].shape[1])
    while True:
        before = [basis.shape[1] for basis in bases]
        for k in range(1, len(factors)):
            bases[k] = _span(units[k - 1].T @ bases[k - 1], units[k] @ bases[k + 1])
        if before == [basis.shape[1] for basis in bases]:
            return bases


def _span(*columns: np.ndarray) -> np.ndarray:
    U, s, _ = scipy.linalg.svd(np.hstack(columns), full_matrices=False)
    unclear = s[(s > ZERO) & (s < NOT_ZERO)]
    if len(unclear):
        raise ValueError(
            f"params: it is not clear which directions move, a layer has one of {unclear[0]:.0e} "
            "of its norm: the start is too close to a degenerate one, such as a balanced one"
        )
    return U[:, s > ZERO]


def _diagonal(problem: QuadraticProblem, net: Diagonal, params) -> Coordinates:
    u_moves = params["u"] != 0
    v_moves = params["v"] != 0
    alive = u_moves | v_moves
    inner = scipy.linalg.null_space(problem.row_space[alive].T)
    outside = np.zeros((problem.d, inner.shape[1]))
    outside[alive] = inner
    frozen = LogRatio(outside, u_moves, v_moves)
    target = problem.row_space.T @ problem.min_norm.reshape(problem.d, 1)
    moves = np.concatenate([u_moves, v_moves])
    params, target = _of_one_size(params, target)
    return _made(net, params, problem.row_space.T, target, frozen=frozen, moves=moves)


def _mlp(problem: Regression, net: MLP, params) -> Coordinates:
    basis = problem.row_space
    small = {**params, "W1": basis.T @ params["W1"]}
    outside = params["W1"] - basis @ small["W1"]
    smaller = MLP([problem.rank, *net.dims[1:]], net.activation, net.bias)
    tied = {"W1-W2": outside}
    return _made(smaller, small, problem.X @ basis, problem.labels, tied=tied)


def _plain(problem: QuadraticProblem, net: Net, params) -> Coordinates:
    symmetries = net.symmetries()
    require(problem, net, params, symmetries)
    if isinstance(net, LinearNet):
        basis = problem.row_space
        target = basis.T @ problem.min_norm.reshape(problem.d, problem.k)
        return _made(net, params, basis.T, target)
    if not isinstance(problem, Regression):
        raise ValueError(
            f"completeness of {type(net).__name__} needs finite data (Regression), got "
            f"{problem!r:.80}"
        )
    return _made(net, params, problem.X, problem.labels)


def _made(net, params, inputs, targets, frozen=None, tied=None, moves=None) -> Coordinates:
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    return Coordinates(
        net=net,
        params=params,
        inputs=inputs,
        targets=targets,
        symmetries=net.symmetries(),
        frozen=frozen,
        tied={} if tied is None else tied,
        moves=np.ones(size, bool) if moves is None else moves,
    )
