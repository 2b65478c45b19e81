"""Measurements that know nothing of the theory: flows by SciPy, derivatives by differences."""

import itertools
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate
from jax.flatten_util import ravel_pytree

from ...nets import Net
from ...numerics.precision import host
from ...numerics.types import PyTree
from ...problems import Regression
from ..prelude import Run, Setup, common, setup_of

Result = TypeVar("Result")

# of ‖x‖: the widest difference; each level halves it
H = 0.02
LEVELS = 3
SMALL = 1e-8  # singular values of J below this, relative, are zero
CLOSE = 1e-6  # ‖∇L‖ from which Gauss–Newton steps finish; they err by the square of the distance


@eqx.filter_jit
def _gradients(problem, net, like, points) -> jax.Array:
    unravel = ravel_pytree(like)[1]
    return jax.vmap(jax.grad(lambda p: problem.net_loss(net, unravel(p))))(points)


@eqx.filter_jit
def _hessian(problem, net, like, point) -> jax.Array:
    unravel = ravel_pytree(like)[1]
    return jax.hessian(lambda p: problem.net_loss(net, unravel(p)))(point)


@eqx.filter_jit
def _trace_gradient(problem, net, like, point) -> jax.Array:
    unravel = ravel_pytree(like)[1]

    def trace(p):
        return jnp.trace(jax.hessian(lambda q: problem.net_loss(net, unravel(q)))(p))

    return jax.grad(trace)(point)


@eqx.filter_jit
def _residuals(problem, net, like, points) -> tuple[jax.Array, jax.Array]:
    unravel = ravel_pytree(like)[1]
    scale = jnp.sqrt(2.0 * jnp.asarray(problem.weight))

    def residual(p):
        return scale * (net(unravel(p), jnp.asarray(problem.X)).ravel() - problem.labels.ravel())

    return jax.vmap(residual)(points), jax.vmap(jax.jacrev(residual))(points)


class Place:
    """The loss of a setup around a point, in NumPy.

    Args:
        setup: whose problem and net.
        x: where, a PyTree like its parameters.
    """

    def __init__(self, setup: Setup, x: PyTree):
        self.setup = setup
        self.like = x
        self.x = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(x)])

    @classmethod
    def end_of(cls, run: Run) -> "Place":
        """Around the point where a run ended."""
        return cls(setup_of(run), run.final)

    def _call(
        self,
        function: Callable[[Regression, Net, PyTree, np.ndarray], Result],
        points: np.ndarray,
    ) -> Result:
        return function(common.regression(self.setup), self.setup.net, self.like, points)

    @host
    def gradients(self, points: np.ndarray) -> np.ndarray:
        """∇L at the rows of `points`."""
        return np.asarray(self._call(_gradients, points))

    @host
    def hessian(self, x: np.ndarray | None = None) -> np.ndarray:
        """∇²L, dense."""
        return np.asarray(self._call(_hessian, self.x if x is None else x))

    @host
    def trace_gradient(self) -> np.ndarray:
        """∇tr ∇²L, by three nested derivatives."""
        return np.asarray(self._call(_trace_gradient, self.x))

    @host
    def residuals(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residual and J at the rows of `points`."""
        r, J = self._call(_residuals, points)
        return np.asarray(r), np.asarray(J)

    def normal(self) -> np.ndarray:
        """Q, the projector on the row space of J at the point."""
        _, s, rows = np.linalg.svd(self.residuals(self.x[None])[1][0], full_matrices=False)
        kept = rows[s > SMALL * s[0]]
        return kept.T @ kept

    def retract(self, points: np.ndarray, times: int = 5) -> np.ndarray:
        """Gauss–Newton steps x − J⁺r: some point of the manifold nearby, not Φ."""
        for _ in range(times):
            r, J = self.residuals(points)
            points = points - np.einsum("mdn,mn->md", np.linalg.pinv(J, rcond=SMALL), r)
        return points

    def phi(self, points: np.ndarray) -> np.ndarray:
        """Φ of the rows of `points`: gradient flow by DOP853, all of them at once."""
        shape = points.shape
        span = 4.0

        def field(_, y: np.ndarray) -> np.ndarray:
            return -self.gradients(y.reshape(shape)).ravel()

        while np.linalg.norm(self.gradients(points), axis=1).max() > CLOSE:
            if span > 1e5:
                raise RuntimeError("the flow of the reference did not arrive")
            solution = scipy.integrate.solve_ivp(
                field, (0.0, span), points.ravel(), "DOP853", rtol=1e-12, atol=1e-14
            )
            points = solution.y[:, -1].reshape(shape)
            span = 2 * span
        return self.retract(points)

    def derivatives(
        self, columns: np.ndarray, move: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivatives of Φ (or `move`) along the columns, (m, D) both.

        Central differences on three widths, extrapolated.
        """
        move = self.phi if move is None else move
        longest = float(np.linalg.norm(columns, axis=0).max())
        steps = H * float(np.linalg.norm(self.x)) / longest / 2.0 ** np.arange(LEVELS)
        offsets = np.concatenate([[s * columns.T, -s * columns.T] for s in steps])
        points = np.concatenate([self.x[None], (self.x + offsets).reshape(-1, len(self.x))])
        moved = move(points)
        centre = moved[0]
        rest = moved[1:].reshape(LEVELS, 2, columns.shape[1], -1)
        wide = steps[:, None, None]
        first = (rest[:, 0] - rest[:, 1]) / (2 * wide)
        second = (rest[:, 0] + rest[:, 1] - 2 * centre) / wide**2
        return _extrapolated(first), _extrapolated(second)


def _extrapolated(values: np.ndarray) -> np.ndarray:
    """To width zero, errors being even powers of the width."""
    table = list(values)
    for order in range(1, len(table)):
        factor = 4.0**order
        table = [(factor * b - a) / (factor - 1) for a, b in itertools.pairwise(table)]
    return table[0]
