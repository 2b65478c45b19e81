"""What label-noise SGD does to the products u∘v: exactly, step by step."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...problems import Regression
from .._problem import Params
from .._units import TIME, homogeneous
from ._fits import halves, samples


def product_law(uv: ArrayLike, gradients: ArrayLike, lr: ArrayLike) -> np.ndarray:
    r"""u∘v after steps of (S)GD: $uv \leftarrow uv\,(1 - 4\,lr^2 g^2)$, for any batch and any lr.

    g is the gradient that the step saw, in predictor space and with the problem's own weight:
    (2·weight·n/b)·Σ over the batch of (noisy residual)·x; `problem.gradient(u*u - v*v)` for full
    batches. The paper's q is 2g. On the manifold E[4g²] = c·s under label noise: the flow's rate.

    Args:
        uv: (d,) the product before the first step.
        gradients: (d,) of one step, or (k, d) of k steps in a row.
        lr: learning rate, one or (k,).

    Returns:
        The product after every step, of the shape of `gradients`.
    """
    uv = checks.array("uv", uv, ndim=(1,))
    g = checks.array("gradients", gradients, ndim=(1, 2))
    if g.shape[-1] != len(uv):
        raise ValueError(f"gradients must have {len(uv)} columns like uv, got shape {g.shape}")
    lr = checks.array("lr", lr, ndim=(0, 1))
    if lr.ndim == 1 and (g.ndim == 1 or len(lr) != len(g)):
        raise ValueError(f"lr must be a number or one for each step, got shape {lr.shape}")
    factors = (1 - 2 * lr[..., None] * g) * (1 + 2 * lr[..., None] * g)
    return uv * np.cumprod(factors, axis=0) if g.ndim == 2 else uv * factors


def noise_level(problem: Regression, std: float, batch_size: int | None = None) -> float:
    """The c of Σ = c·H on the manifold under `gb.LabelNoise(std, batch_size)`: 2·n·weight·std²/b.

    It is std²/b for L = (1/2n)‖·‖², as in the paper, with and without replacement.

    Args:
        problem: whose weight is in both Σ and H, but squared in Σ.
        std: the standard deviation of the label noise.
        batch_size: b, rows in a step; None for all.
    """
    X, _, weight = samples(problem)
    std = checks.number("std", std, at_least=0)
    b = len(X) if batch_size is None else checks.integer("batch_size", batch_size, at_least=1)
    return 2 * len(X) * weight * std * std / b


@homogeneous(TIME)
def stability_bound(problem: Regression, params: Params) -> float:
    """The lr above which steps on single rows are unstable at a minimiser: 1/(n·weight·max‖∇f_i‖²).

    It is the curvature of one sample that counts, 2/max‖∇f_i‖² for L = (1/2n)‖·‖²: stricter than
    2/λmax of the Hessian. Above it, ensembles lose members.
    """
    X, _, weight = samples(problem)
    u, v = halves(problem.d, params)
    steepest = 4 * float(np.max(np.square(X) @ (np.square(u) + np.square(v))))
    return 1 / (len(X) * weight * steepest) if steepest > 0 else np.inf
