"""Curvature of the loss in the parameters: the sharpness and the trace of the Hessian."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..nets import Deep, Net, Rank1, TwoLayer
from ..numerics import lanczos
from ..numerics.types import PyTree
from ..problems import Population, Problem, Regression
from ._predictor import loss_value, need_loss
from .base import Measurement, Observable

_BATCH = 32  # basis vectors pushed through the Hessian at once


class Curvature(Observable):
    """A number that the Hessian of the loss in the parameters gives."""

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_loss(self, problem, net)
        return self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()


class Sharpness(Curvature):
    """The largest eigenvalue of the Hessian of the loss in the parameters.

    Dense up to 400 parameters, iterative above; NaN where the iteration has not converged to
    a relative residual of 1e-9.
    """

    @property
    def name(self) -> str:
        return "sharpness"

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> jax.Array:
        product, size = hessian_product(problem, *narrow(net, params))
        return lanczos.largest_eigenvalue(product, size)


class HessianTrace(Curvature):
    """The trace of the Hessian of the loss in the parameters, exactly.

    In closed form for two-layer, deep and rank-1 nets with squared loss; otherwise one Hessian
    column for every parameter.
    """

    @property
    def name(self) -> str:
        return "hessian_trace"

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> jax.Array:
        closed = isinstance(net, (TwoLayer, Deep, Rank1))
        if closed and isinstance(problem, (Regression, Population)):
            return _chain_trace(problem, net.factors(params))
        product, size = hessian_product(problem, *narrow(net, params))

        def diagonal(i):
            return product(jnp.zeros(size).at[i].set(1.0))[i]

        return jnp.sum(jax.lax.map(diagonal, jnp.arange(size), batch_size=_BATCH))


def hessian_product(problem: Problem, net: Net, params: PyTree) -> tuple[lanczos.MatVec, int]:
    """The Hessian as an operator on flat parameters, and its size; linearised once."""
    flat, unravel = ravel_pytree(params)
    gradient = jax.grad(lambda p: loss_value(problem, net, unravel(p)))
    _, product = jax.linearize(gradient, flat)
    return product, flat.size


def narrow(net: Net, params: PyTree) -> tuple[Any, Any]:
    """A two-layer net of width d + k at most with the same sharpness and trace of the Hessian.

    Rotating the hidden units changes neither Θ nor the spectrum, and can make all but d + k of
    them zero. The curvatures of a zero unit are ± the singular values of ∂L/∂Θ = G: they cancel
    in the trace. The largest, with vectors a and b, is reached in the other units too: their
    [W1; W2ᵀ] is square, so some unit vector z has W1 z = λa and W2ᵀ z = −λb, and along
    (a zᵀ, z bᵀ) the predictor stands still to first order while the curvature is σ(G).
    """
    if not isinstance(net, TwoLayer) or net.width <= net.d + net.k:
        return net, params
    stacked = jnp.concatenate([params["W1"], params["W2"].T])
    small = jnp.linalg.qr(stacked.T, mode="r").T
    thin = TwoLayer(net.d, net.k, net.d + net.k)
    return thin, {"W1": small[: net.d], "W2": small[net.d :].T}


def _chain_trace(problem, factors: list[Any]) -> jax.Array:
    """2w Σ_k ‖X F1 … F_{k−1}‖² ‖F_{k+1} … FN‖²: the loss is quadratic in each factor."""
    after = [jnp.eye(factors[-1].shape[1])]
    for factor in factors[:0:-1]:
        after.insert(0, factor @ after[0])
    before = None
    total = jnp.asarray(0.0)
    for factor, rest in zip(factors, after, strict=True):
        total = total + _seen(problem, before) * jnp.sum(rest * rest)
        before = factor if before is None else before @ factor
    return 2 * problem.weight * total


def _seen(problem, left) -> jax.Array:
    """‖X left‖_F² on finite data, its expectation E‖xᵀ left‖² on a population."""
    if isinstance(problem, Population):
        sigma = problem.sigma_x
        return jnp.trace(sigma) if left is None else jnp.sum(left * (sigma @ left))
    seen = problem.X if left is None else problem.X @ left
    return jnp.sum(seen * seen)


sharpness: Sharpness = Sharpness()
hessian_trace: HessianTrace = HessianTrace()
