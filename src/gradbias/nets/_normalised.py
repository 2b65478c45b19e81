"""The two normalised nets of the noise-equilibrium paper: one scale symmetry or two.

They keep the paper's column form, y = f(x): u is (k, width), w is (width, d).
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._generators.symmetry import Symmetry, scaling
from ..numerics import checks
from ..numerics.types import Array, PyTree
from .base import Net, Shapes


class Normalised(Net):
    """What the two nets share: their parameters.

    Args:
        d: the number of inputs.
        k: the number of outputs.
        width: the number of hidden units.
    """

    d: int = eqx.field(static=True)
    k: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, d: int, k: int, width: int):
        for name, size in (("d", d), ("k", k), ("width", width)):
            setattr(self, name, checks.integer(name, size, at_least=1))

    def shapes(self) -> Shapes:
        return {"u": (self.k, self.width), "w": (self.width, self.d)}


class NormalisedA(Normalised):
    r"""$f(x) = \sum_j \frac{u_j}{\|w\|_F} \tanh\frac{w_j^T x}{\|u\|_F}$.

    Of d inputs, k outputs and `width` hidden units.
    """

    def symmetries(self) -> dict[str, Symmetry]:
        return {"u,w": scaling(["u", "w"])}

    def __call__(self, params: PyTree, X: Array) -> jax.Array:
        u = params["u"]
        w = params["w"]
        return jnp.tanh(X @ w.T / _norm(u)) @ u.T / _norm(w)


class NormalisedB(Normalised):
    r"""$f(x) = \sum_j \frac{u_j}{\|u\|_F} \tanh\frac{w_j^T x}{\|w\|_F}$.

    Of d inputs, k outputs and `width` hidden units.
    """

    def symmetries(self) -> dict[str, Symmetry]:
        return {"u": scaling("u"), "w": scaling("w")}

    def __call__(self, params: PyTree, X: Array) -> jax.Array:
        u = params["u"]
        w = params["w"]
        return jnp.tanh(X @ w.T / _norm(w)) @ u.T / _norm(u)


def _norm(matrix) -> jax.Array:
    return jnp.sqrt(jnp.sum(matrix * matrix))
