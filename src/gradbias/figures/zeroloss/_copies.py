"""Many points of one small loss as one run: each moves as if it were alone."""

from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Net
from ...noise import Noise
from ...numerics.types import Array, PyTree
from ...problems import Curve, Hyperbola, Motor, Problem, Regression

Manifold: TypeAlias = Curve | Hyperbola | Motor


class Copies(Net):
    """Outputs are the residuals of a loss at many points, the labels of all of them are zero."""

    loss: Manifold

    def __call__(self, params: PyTree, X: Array) -> jax.Array:
        flat = jax.vmap(self.loss.residual)(jnp.asarray(params["x"])).ravel()
        return jnp.broadcast_to(flat[None, :], (X.shape[0], flat.size))


def points(problem: Problem, net: Net, params: PyTree) -> jax.Array:
    """Where the copies are."""
    return params["x"]


def descent(
    loss: Manifold, x: np.ndarray, noise: Noise, lr: float, saves: np.ndarray, key: int
) -> Setup:
    """SGD on all points of x, (copies, D), until the last save.

    Label noise of standard deviation δ gives every residual its own, so that Σ = δ²H.
    """
    residuals = len(x) * len(loss.residual(x[0]))
    problem = Regression.half_sum(np.ones((1, 1)), np.zeros((1, residuals)))
    saves = np.asarray(saves).astype(int)
    until = Until(steps=int(saves[-1]))
    record = {"x": points}
    return Setup(problem, Copies(loss), {"x": x}, Descent(lr, noise), until, record, saves, key)
