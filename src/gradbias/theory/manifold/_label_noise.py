"""Label noise: where Σ = cH, the drift is a gradient descent on the trace of the Hessian."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..._manifold.normal_space import NormalSpace
from ..._manifold.residuals import Residuals, curvature_unit
from ..._manifold.target import Target, target_at
from ..._manifold.third_derivative import pulled, rows_as_pairs, twice_sum
from ...noise import LabelNoise
from ...noise._sampling import is_flag, weight_variance
from ...numerics import checks
from ...numerics.precision import host
from ...numerics.types import Array, PyTree
from ...problems import Regression
from .._problem import finite_data
from ._on_manifold import DENSE, require_on_manifold
from ._second_derivative import TOL
from ._tangent_projector import by_cholesky


@host
def label_noise_drift(
    x: PyTree,
    c: float | LabelNoise,
    *,
    loss: Callable[[Any], Any] | None = None,
    residual: Callable[[Any], Any] | None = None,
    rank: int | None = None,
    tol: float = TOL,
) -> PyTree:
    r"""−(c/4) P∇tr H: the drift for Σ = cH, in time t = k·lr².

    There is no diffusion: noise of this form has no part along the manifold. With a residual it
    is −(c/4) P∇‖J‖², which for L = (1/2n) Σ (f_i − y_i)² is −(c/4) P∇[(1/n) Σ ‖∇f_i‖²]: no
    Hessian is needed, and no third derivative.

    Args:
        x: a point of the manifold.
        c: the constant of Σ = cH: a number, from `label_noise_constant` or
            `conflicting_labels_constant`; or a `gb.LabelNoise`, with
            `residual=residuals(problem, net)`.
        loss: L, a jax function of x; or
        residual: a jax function with L = ½‖residual‖².
        rank: the number of normal directions, where the spectrum does not show it.
        tol: how far x may be from the manifold, relative to ‖x‖.

    Returns:
        A vector of the structure of x.
    """
    target, flat = target_at(x, loss, residual)
    strength = _constant(c, target)
    if target.size >= DENSE and target.squares and rank is None:
        fast = by_cholesky(target, flat, checks.number("tol", tol, above=0))
        if fast is not None:
            P, J = fast
            return target.arrays(-strength / 2 * (P @ np.asarray(_slope(target, flat, J))))
    here = require_on_manifold(target, flat, rank, tol)
    return target.arrays(strength * np.asarray(_unit_drift(target, flat, here.space)))


def unit_drift(target: Target, flat, space: NormalSpace) -> Array:
    """−¼ P∇tr H, the drift for c = 1 (jax-level)."""
    return -0.25 * space.tangent(trace_gradient(target, flat, space))


def trace_gradient(target: Target, flat, space: NormalSpace) -> Array:
    """∇tr H up to a normal vector (jax-level).

    With a residual the gradient of ‖J‖²: what is left out is normal. With a loss T[Q]: P T[P]
    vanishes, so that the trace over normal directions does.
    """
    if not target.squares:
        pairs = rows_as_pairs(space.basis, space.basis)
        return twice_sum(target.gradient, flat, pairs, space.basis.shape[0])
    return 2 * pulled(target, flat, space.images @ space.basis)


def label_noise_constant(
    std: float, batch_size: int, *, problem: Regression | None = None
) -> float:
    """The constant c of Σ = cH for fresh label noise, δ²/b.

    With or without replacement, and for a full batch with b = n.

    Args:
        std: δ, the standard deviation of the label noise.
        batch_size: b.
        problem: whose weight counts; without it L = (1/2n) Σ (f − y)².
    """
    std = checks.number("std", std, at_least=0)
    return _unit(problem) * std**2 / checks.integer("batch_size", batch_size, at_least=1)


def conflicting_labels_constant(
    std: float,
    samples: int,
    batch_size: int,
    replace: bool = False,
    *,
    problem: Regression | None = None,
) -> float:
    """The constant c of Σ = cH for minibatches of data whose labels conflict, y ± δ.

    δ²(N − b)/(b(N − 1)) without replacement and δ²/b with it; see `gb.problems.conflicting`.

    Args:
        std: δ.
        samples: N, all rows, both copies counted.
        batch_size: b.
        replace: may a row be drawn twice?
        problem: the conflicting data, whose weight counts; without it L = (1/2N) Σ (f − y)².
    """
    std = checks.number("std", std, at_least=0)
    return _unit(problem) * std**2 * population_factor(samples, batch_size, replace)


def population_factor(samples: int, batch_size: int, replace: bool = False) -> float:
    """Of the covariance of one sample's gradient, what is left in the mean over a minibatch.

    (N − b)/(b(N − 1)) without replacement, 1/b with it.

    Args:
        samples: N.
        batch_size: b.
        replace: may a row be drawn twice?
    """
    n = checks.integer("samples", samples, at_least=1)
    b = checks.integer("batch_size", batch_size, at_least=1)
    if b > n and not is_flag("replace", replace):
        raise ValueError(f"batch_size must be at most the {n} samples without replacement, got {b}")
    return weight_variance(n, b, replace) / n


def _unit(problem: Regression | None) -> float:
    if problem is None:
        return 1.0
    return curvature_unit(finite_data(problem, "its time unit"))


def _constant(c: float | LabelNoise, target: Target) -> float:
    if not isinstance(c, LabelNoise):
        return checks.number("c", c, at_least=0)
    if not isinstance(target.function, Residuals):
        raise ValueError(
            "c is a LabelNoise, which needs its data: give residual=residuals(problem, net), or "
            "a number as c"
        )
    problem = target.function.problem
    c.check(problem, None)
    batch = problem.n if c.batch_size is None else c.batch_size
    return label_noise_constant(float(np.asarray(c.std)), batch, problem=problem)


@eqx.filter_jit
def _slope(target: Target, flat, J) -> Array:
    """½∇‖J‖²."""
    return pulled(target, jnp.asarray(flat), jnp.asarray(J))


@eqx.filter_jit
def _unit_drift(target: Target, flat, space: NormalSpace) -> Array:
    return unit_drift(target, jnp.asarray(flat), space)
