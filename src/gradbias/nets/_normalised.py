"""The two normalised nets of the noise-equilibrium paper: one scale symmetry or two.

They keep the paper's column form, y = f(x): u is (k, width), w is (width, d).
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._generators.symmetry import Symmetry, scaling
from ..numerics import checks
from .base import Net, Shapes


class NormalisedA(Net):
    r"""$f(x) = \sum_j \frac{u_j}{\|w\|_F} \tanh\frac{w_j^T x}{\|u\|_F}$.

    Args:
        d: inputs.
        k: outputs.
        width: hidden units.
    """

    d: int = eqx.field(static=True)
    k: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, d: int, k: int, width: int):
        self.d, self.k, self.width = _sizes(d, k, width)

    def shapes(self) -> Shapes:
        return {"u": (self.k, self.width), "w": (self.width, self.d)}

    def symmetries(self) -> dict[str, Symmetry]:
        return {"u,w": scaling(["u", "w"])}

    def __call__(self, params, X) -> Any:
        u, w = params["u"], params["w"]
        return jnp.tanh(X @ w.T / _norm(u)) @ u.T / _norm(w)


class NormalisedB(Net):
    r"""$f(x) = \sum_j \frac{u_j}{\|u\|_F} \tanh\frac{w_j^T x}{\|w\|_F}$.

    Args:
        d: inputs.
        k: outputs.
        width: hidden units.
    """

    d: int = eqx.field(static=True)
    k: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, d: int, k: int, width: int):
        self.d, self.k, self.width = _sizes(d, k, width)

    def shapes(self) -> Shapes:
        return {"u": (self.k, self.width), "w": (self.width, self.d)}

    def symmetries(self) -> dict[str, Symmetry]:
        return {"u": scaling("u"), "w": scaling("w")}

    def __call__(self, params, X) -> Any:
        u, w = params["u"], params["w"]
        return jnp.tanh(X @ w.T / _norm(w)) @ u.T / _norm(u)


def _norm(matrix) -> Any:
    return jnp.sqrt(jnp.sum(matrix * matrix))


def _sizes(d: int, k: int, width: int) -> tuple[int, int, int]:
    return (
        checks.integer("d", d, at_least=1),
        checks.integer("k", k, at_least=1),
        checks.integer("width", width, at_least=1),
    )
