"""The covariance of one stochastic gradient, dense: for small nets, on the host."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..nets import Net
from ..nets.base import as_matrix
from ..numerics import checks
from ..numerics.types import PyTree
from ..problems import Batch, Problem
from ._spread import Spread, refuse_labels, refuse_nonlinear

LARGEST = 5000  # parameters: a dense covariance then takes 200 MB


def checked(problem: Problem, net: Net, params: PyTree) -> PyTree:
    """The parameters as float64 arrays; a problem and a net that are what they should be."""
    if not isinstance(problem, Problem):
        raise ValueError(f"problem must be a gradbias problem, got {type(problem).__name__}")
    if not isinstance(net, Net):
        raise ValueError(f"net must be a gradbias net, got {type(net).__name__}")
    shapes = net.shapes()
    if shapes is None:
        return jax.tree.map(lambda leaf: checks.array("params", leaf), params)
    if not isinstance(params, dict) or set(params) != set(shapes):
        got = sorted(params) if isinstance(params, dict) else type(params).__name__
        raise ValueError(f"params must be a dict of {sorted(shapes)}, got {got}")
    return {
        name: checks.array(f"params[{name!r}]", params[name], shape=shape)
        for name, shape in shapes.items()
    }


def refuse_size(what: str, params: PyTree, columns: int | None = None) -> None:
    """Refuse a dense matrix that would not fit."""
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    if size * (size if columns is None else columns) > LARGEST**2:
        raise ValueError(
            f"{what} is a dense matrix of {size} × {size if columns is None else columns}, "
            f"larger than {LARGEST} × {LARGEST}: use noise.kick, which never forms it"
        )


def sample_covariance(
    problem, net: Net, params: PyTree, weights: np.ndarray | None, labels: np.ndarray | None
) -> np.ndarray:
    """Gᵀ Cov(w) G + Σ_i E[w_i²] Var(ε_i) S_iᵀS_i.

    Args:
        problem: finite data.
        net: how parameters make outputs.
        params: where.
        weights: Cov(w), (n, n); a number a for a·(I − 11ᵀ/n); None for zero.
        labels: E[w²]·Var(ε), a number or (n,); None for no label noise.
    """
    refuse_labels(problem, labels)
    size = sum(leaf.size for leaf in jax.tree.leaves(params))
    total = np.zeros((size, size))
    if weights is not None:
        G = np.asarray(_per_sample(problem, net, params))
        # Centred first: GᵀG − n·ggᵀ would lose the digits of a small covariance.
        total += G.T @ weights @ G if weights.ndim == 2 else weights * _gram(G - G.mean(axis=0))
    if labels is not None:
        S = np.asarray(_per_label(problem, net, params))
        stds = np.sqrt(np.broadcast_to(labels, S.shape[0]))
        total += _gram((stds[:, None, None] * S).reshape(-1, size))
    return (total + total.T) / 2


def _gram(rows: np.ndarray) -> np.ndarray:
    return rows.T @ rows


def fresh_covariance(problem, net: Net, params: PyTree, batch_size: int) -> np.ndarray:
    r"""Of the mean over fresh Gaussian samples, by Isserlis's theorem.

    With e = Θ − Θ* and residual r = eᵀx − ε:
    $\mathrm{Cov}(x r_j, x r_l) = \Sigma\,(e^T\Sigma e + \Sigma_\varepsilon)_{jl}
    + \Sigma e_l e_j^T \Sigma$, pulled back by the Jacobian of the predictor.
    """
    refuse_nonlinear(net)
    theta, T = (np.asarray(value) for value in _predictor(net, params))
    d, k, size = T.shape
    slope = problem.sigma_x @ (theta - problem.theta_star)
    spread = (theta - problem.theta_star).T @ slope + problem.sigma_eps
    inner = np.einsum("jl,ajp->alp", spread, np.tensordot(problem.sigma_x, T, axes=1))
    total = T.reshape(d * k, size).T @ inner.reshape(d * k, size)
    Q = np.einsum("al,ajp->ljp", slope, T)
    total += Q.reshape(k * k, size).T @ Q.transpose(1, 0, 2).reshape(k * k, size)
    return 2 * problem.weight**2 / batch_size * (total + total.T)


@eqx.filter_jit
def dense_factor(spread: Spread, problem, net: Net, params, size: tuple[int, ...]) -> jax.Array:
    """σ, column by column: a kick for every unit vector."""
    count = int(np.prod(size))
    units = jnp.eye(count).reshape(count, *size)
    return jax.vmap(lambda z: ravel_pytree(spread.kick(problem, net, params, z))[0])(units).T


@eqx.filter_jit
def _per_sample(problem, net, params) -> jax.Array:
    """G (n, D): the gradients of the samples' parts of the loss."""
    return jax.vmap(lambda i: _part(problem, net, params, i, None))(jnp.arange(problem.n))


@eqx.filter_jit
def _per_label(problem, net, params) -> jax.Array:
    """S (n, k, D): how these gradients move with their labels; exact, the loss is quadratic."""
    still = jnp.zeros(problem.k)

    def slope(i):
        return jax.jacfwd(lambda noise: _part(problem, net, params, i, noise))(still).T

    return jax.vmap(slope)(jnp.arange(problem.n))


def _part(problem, net, params, i, noise) -> jax.Array:
    batch = Batch(indices=i[None], label_noise=None if noise is None else noise[None, :])
    # A batch of one counts n times, so that its mean over i is the loss.
    grads = jax.grad(lambda p: problem.net_loss(net, p, batch) / problem.n)(params)
    return ravel_pytree(grads)[0]


@eqx.filter_jit
def _predictor(net, params) -> tuple[Any, Any]:
    """Θ (d, k) and its Jacobian (d, k, D)."""
    flat, shaped = ravel_pytree(params)

    def predictor(flat):
        return as_matrix(net.predictor(shaped(flat)))

    return predictor(flat), jax.jacrev(predictor)(flat)
