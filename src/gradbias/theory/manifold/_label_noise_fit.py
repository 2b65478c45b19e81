"""Is the noise of minibatches that of label noise, Σ = cH? An answer by number."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._manifold.target import Target, split_tree
from ...numerics import checks, precision
from ...numerics.precision import host
from ...numerics.types import PyTree
from ._label_noise import population_factor

BATCH = 64  # samples, or Hessian columns, at once


@dataclasses.dataclass(frozen=True)
class LabelNoiseFit:
    """How well Σ = cH describes the noise of minibatches at a point.

    Attributes:
        c: the best constant, ⟨Σ, H⟩/‖H‖² in the Frobenius norm.
        error: ‖Σ − cH‖/‖Σ‖, between 0 (exactly label noise) and 1; NaN without any noise.
        noise: ‖Σ‖.
        curvature: ‖H‖.
        gradient: ‖∇L‖, which is zero on the manifold of minimisers.
    """

    c: float
    error: float
    noise: float
    curvature: float
    gradient: float


@host
def label_noise_fit(
    loss: Callable[..., Any],
    x: PyTree,
    data: PyTree,
    *,
    batch_size: int = 1,
    replace: bool = True,
) -> LabelNoiseFit:
    """The best c in Σ = cH and what it leaves, for the noise of minibatches at x.

    Where the error is small, `label_noise_drift(x, c, …)` is the drift; where it is not, use
    `drift` with the covariance itself. Least squares with conflicting labels gives
    c = δ²·`population_factor`. With labels that are wrong with probability p, at the minimum of
    the mean loss, the logistic loss gives c = 1 and the exponential loss 1/(2√(p(1 − p))).

    Exact, without a D×D matrix: one product with the Hessian for every parameter.

    Args:
        loss: `loss(x, sample)` of one sample, a jax function; L is its mean over the data.
        x: an array, or a PyTree such as an equinox module.
        data: the samples: arrays with a common first axis, or a tuple or PyTree of them; `sample`
            is one slice of all.
        batch_size: b.
        replace: may a sample be drawn twice?
    """
    if not callable(loss):
        raise ValueError(f"loss must be a jax function of (x, sample), got {loss!r:.80}")
    arrays, rest = split_tree(x)
    leaves, structure = jax.tree.flatten(arrays)
    flat = np.concatenate([leaf.ravel() for leaf in leaves])
    shapes = tuple(leaf.shape for leaf in leaves)
    samples, count = _samples(data)
    factor = population_factor(count, batch_size, replace)
    target = Target(_Mean(loss, samples), rest, structure, shapes, False)
    _check(loss, target, flat, samples)
    raw, overlap, curvature, gradient = map(float, _measure(target, flat))
    return _fitted(factor * raw, factor * overlap, curvature, gradient)


def _fitted(noise: float, overlap: float, curvature: float, gradient: float) -> LabelNoiseFit:
    if not np.isfinite([noise, overlap, curvature]).all():
        raise ValueError("x: the gradients or the Hessian of the loss are not finite there")
    c = overlap / curvature**2 if curvature > 0 else 0.0
    if noise == 0:
        return LabelNoiseFit(c, np.nan, noise, curvature, gradient)
    # ‖Σ − cH‖² = ‖Σ‖² − c⟨Σ, H⟩ for the best c; rounding of the difference is its only error.
    left = max(1 - c * overlap / noise**2, 0.0)
    return LabelNoiseFit(c, float(np.sqrt(left)), noise, curvature, gradient)


class _Mean(eqx.Module):
    """The mean of a per-sample loss, and the gradients of the samples."""

    per_sample: Callable[..., Any]
    samples: Any

    def __call__(self, x) -> jax.Array:
        return jnp.mean(jax.vmap(lambda sample: self.per_sample(x, sample))(self.samples))


def _samples(data: PyTree) -> tuple[PyTree, int]:
    def checked(leaf):
        array = np.asarray(leaf)
        return checks.array("data", leaf) if array.dtype.kind == "f" else array

    samples = jax.tree.map(checked, data)
    lengths = {np.shape(leaf)[0] if np.ndim(leaf) else None for leaf in jax.tree.leaves(samples)}
    if len(lengths) != 1 or None in lengths or 0 in lengths:
        raise ValueError(
            "data must be arrays with a common first axis, the samples, got shapes "
            f"{[np.shape(leaf) for leaf in jax.tree.leaves(samples)]}"
        )
    return samples, lengths.pop()  # pyright: ignore[reportReturnType]


def _check(loss: Callable[..., Any], target: Target, flat: np.ndarray, samples: PyTree) -> None:
    first = jax.tree.map(lambda leaf: leaf[0], samples)
    out = precision.warn_of_float32("loss", lambda v, s: loss(target.point(v), s), flat, first)
    if getattr(out, "shape", None) != () or out.dtype.kind != "f":
        raise ValueError(f"loss(x, sample) must be one real number, got {out!r:.80}")


@eqx.filter_jit
def _measure(target: Target, flat) -> tuple[Any, Any, Any, Any]:
    """‖Σ‖ of one sample, ⟨Σ, H⟩, ‖H‖ and ‖∇L‖."""
    flat = jnp.asarray(flat)
    mean = target.function

    def of_sample(sample):
        return jax.grad(lambda v: mean.per_sample(target.point(v), sample))(flat)

    G = jax.lax.map(of_sample, mean.samples, batch_size=BATCH)
    gradient = jnp.mean(G, axis=0)
    C = (G - gradient[None, :]) / jnp.sqrt(1.0 * G.shape[0])
    small = C @ C.T if C.shape[0] <= C.shape[1] else C.T @ C  # the same Frobenius norm
    _, product = jax.linearize(target.gradient, flat)
    overlap = jnp.sum(jax.lax.map(lambda g: jnp.vdot(g, product(g)), C, batch_size=BATCH))

    def column(i):
        return jnp.sum(product((jnp.arange(flat.size) == i).astype(flat.dtype)) ** 2)

    squares = jnp.sum(jax.lax.map(column, jnp.arange(flat.size), batch_size=BATCH))
    return jnp.linalg.norm(small), overlap, jnp.sqrt(squares), jnp.linalg.norm(gradient)
