"""Any loss of a net's outputs, whose Hessian at a fit is JᵀBJ and never a D×D matrix (jax-level).

L = (1/n) Σ_i ℓ(f_i, y_i) has the Hessian JᵀBJ + Σ_i ∂ℓ_i·∂²f_i, with J the Jacobian of the outputs
and B, a block for every sample, the Hessian of ℓ in them. The second part vanishes where every
sample is at its own minimum; where samples of equal inputs are so together; and for a linear
predictor at the minimum over all predictors. What is left has rank n·k at most: a root of B makes
it JᵀJ, as under squared loss.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

ROWS = 32  # of the Jacobian of outputs, which the third derivative makes at once
EPS = float(np.finfo(np.float64).eps)


class OutputLoss(eqx.Module):
    """The loss of a `Samples` problem as a function of the parameters."""

    problem: Any
    net: Any

    @property
    def outputs(self) -> int:
        """k, the number of outputs of a sample."""
        return int(np.prod(np.shape(self.problem.Y)[1:], dtype=int))

    def __call__(self, params) -> jax.Array:
        return self.problem.net_loss(self.net, params)

    def rows(self, point: Callable[[Any], Any], flat) -> jax.Array:
        """J (n·k, D) with JᵀJ = Σ_i J_iᵀB_iJ_i: on the manifold, the Hessian."""

        def of_sample(sample):
            outputs, jacobian = self._linear(point, flat, sample[0])
            return _root(self._curvature(outputs, sample[1])) @ jacobian

        X, Y = self._samples()
        return jax.vmap(of_sample)((X, Y)).reshape(-1, flat.size)

    def third(self, point: Callable[[Any], Any], flat, left, right) -> jax.Array:
        """T[M], the third derivative of L along Σ_j left_j right_jᵀ, up to its normal part.

        Along the manifold the Hessian is JᵀBJ, so that this is the gradient of ⟨JᵀBJ, M⟩: of one
        number, a few samples at a time.

        Args:
            point: makes parameters of a flat vector.
            flat: a point of the manifold.
            left: (r, D).
            right: (r, D).
        """

        def of_sample(v, x, y):
            outputs, jacobian = self._linear(point, v, x)
            curvature = self._curvature(outputs, y)
            return jnp.sum(curvature * ((jacobian @ left.T) @ (jacobian @ right.T).T))

        def slope(X, Y):
            return jax.grad(lambda v: jnp.sum(jax.vmap(of_sample, (None, 0, 0))(v, X, Y)))(flat)

        X, Y = self._samples()
        size = min(max(ROWS // self.outputs, 1), len(X))
        whole = len(X) // size * size
        chunks = tuple(a[:whole].reshape(-1, size, *a.shape[1:]) for a in (X, Y))
        add = lambda total, some: (total + slope(*some), None)  # noqa: E731
        total = jax.lax.scan(add, jnp.zeros_like(flat), chunks)[0]
        return total if whole == len(X) else total + slope(X[whole:], Y[whole:])

    def _samples(self) -> tuple[Any, Any]:
        return jnp.asarray(self.problem.X), jnp.asarray(self.problem.Y)

    def _linear(self, point: Callable[[Any], Any], flat, x) -> tuple[Any, Any]:
        """The outputs of a sample (k,) and their Jacobian (k, D)."""

        def f(v):
            return self.net(point(v), x[None, :]).reshape(self.outputs)

        return f(flat), jax.jacrev(f)(flat)

    def _curvature(self, outputs, y) -> jax.Array:
        """B of a sample, (k, k)."""

        def loss(f):
            return jnp.reshape(self.problem.per_sample(f.reshape(y.shape), y), ())

        return jax.hessian(loss)(outputs) / self.problem.n


def _root(B) -> jax.Array:
    """C with CᵀC = B; what B has of negative or vanishing curvature is left out."""
    values, vectors = jnp.linalg.eigh((B + B.T) / 2)
    # The root of rounding would be 1e-8.
    kept = values > 64 * B.shape[0] * EPS * jnp.max(jnp.abs(values))
    return jnp.sqrt(jnp.where(kept, values, 0.0))[:, None] * vectors.T
