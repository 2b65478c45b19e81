"""Square roots of the covariance of one stochastic gradient, matrix-free: what an SDE needs.

σ is never formed. Normal numbers live in the space of the samples, become a gradient in the
outputs and are pulled back once, so a reduced run and a full one take the same numbers.
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..nets import LinearNet, Net
from ..nets.base import as_matrix
from ..numerics.types import Array, PyTree
from ..problems import Batch, Problem, Regression
from ..problems._regression import Rows
from ..problems.base import LossOfOutputs


class Spread(eqx.Module):
    """σ with Σ = σσᵀ, as an action on standard normal numbers (jax-level)."""

    @abc.abstractmethod
    def size(self, problem: Any, net: Any, params: PyTree) -> tuple[int, ...]:
        """The shape of the numbers z that `kick` takes."""

    @abc.abstractmethod
    def kick(self, problem: Problem | LossOfOutputs, net: Net, params: PyTree, z: Array) -> PyTree:
        """σz, shaped like the parameters."""


class SampleSpread(Spread):
    """On finite data: Σ_i a_i g_i − 2·weight·Σ_i s_i J_iᵀ z_i, a = Cov(w)^½ z, s² = E[w²]·Var(ε).

    Attributes:
        weights: the square root of Cov(w): (n, n); a number c for c·(I − 11ᵀ/n); None for zero.
        labels: s, (n,) or a number; None for no label noise.
    """

    weights: Any
    labels: Any

    def size(self, problem: Any, net: Any, params: PyTree) -> tuple[int, ...]:
        columns = 0 if self.weights is None else 1
        return problem.n, columns + (0 if self.labels is None else problem.k)

    def kick(self, problem: Any, net: Any, params: PyTree, z: Array) -> PyTree:
        if isinstance(problem, Rows):
            outputs, back = _outputs(problem, net, params)
            return back(self._cotangent(problem, outputs, z))
        refuse_labels(problem, self.labels)
        batch = Batch(weights=self._weigh(z[:, 0]))
        return jax.grad(lambda p: problem.net_loss(net, p, batch))(params)

    def _cotangent(self, problem: Rows, outputs, z) -> jax.Array:
        total = jnp.zeros_like(outputs)
        if self.weights is not None:
            total = self._weigh(z[:, 0])[:, None] * (outputs - problem.labels)
            z = z[:, 1:]
        if self.labels is not None:
            total = total - jnp.broadcast_to(self.labels, z.shape[:1])[:, None] * z
        return 2 * problem.weight * total

    def _weigh(self, z) -> jax.Array:
        if jnp.ndim(self.weights) == 2:
            return self.weights @ z
        return self.weights * (z - jnp.mean(z))


class FreshSpread(Spread):
    """On Population, linear nets: (2·weight/√b)·Rᵀ[(Z + Zᵀ)/√2·M + N·S] with normal Z and N.

    Here x = Rᵀz, M = R(Θ − Θ*), and S is the root of sigma_eps. A symmetric Gaussian matrix has the
    covariance of zzᵀ, so the r×r normals give both of Isserlis's terms; r×k would do, but only in
    a basis of the columns of M, which is not continuous where M loses rank.

    Attributes:
        batch_size: how many samples a step draws.
    """

    batch_size: int = eqx.field(static=True)

    def size(self, problem: Any, net: Any, params: PyTree) -> tuple[int, ...]:
        inputs, outputs = problem.latent
        return inputs, outputs + inputs

    def kick(self, problem: Any, net: Any, params: PyTree, z: Array) -> PyTree:
        refuse_nonlinear(net)
        theta, back = jax.vjp(lambda p: as_matrix(net.predictor(p)), params)
        k = problem.latent[1]
        labels = z[:, :k]
        square = z[:, k:]
        symmetric = (square + square.T) / 2**0.5
        moved = symmetric @ problem.standardised(theta) + labels @ problem.root_eps
        return back(problem.pull(2 * problem.weight / self.batch_size**0.5 * moved))[0]


class FactorSpread(Spread):
    """σ given as a dense (D, m) matrix, the `factor` of a law."""

    law: Any

    def size(self, problem: Any, net: Any, params: PyTree) -> tuple[int, ...]:
        return jax.eval_shape(self.law.factor, problem, net, params).shape[1:]

    def kick(self, problem: Any, net: Any, params: PyTree, z: Array) -> PyTree:
        _, shaped = ravel_pytree(params)
        return shaped(jnp.asarray(self.law.factor(problem, net, params)) @ z)


def refuse_nonlinear(net: Net) -> None:
    """Exact moments of fresh samples are known for linear nets only."""
    if not isinstance(net, LinearNet):
        raise ValueError(
            "net must be linear on Population, where the covariance is an exact expectation, got "
            f"{net!r:.80}: draw a data set with Population.sample and use gb.Regression on it"
        )


def refuse_labels(problem: Problem | LossOfOutputs, labels) -> None:
    """Label noise has a covariance of its own only where the gradient is linear in the labels."""
    if labels is not None and not isinstance(problem, Rows):
        raise ValueError(
            "label noise has a known covariance under squared loss only (gb.Regression), got "
            f"{type(problem).__name__}, whose loss may be any function of the labels"
        )


def _outputs(problem, net, params) -> tuple[Any, Callable[[Any], Any]]:
    """The (n, k) outputs, and the map from a gradient in them to one in the parameters."""
    if isinstance(net, LinearNet):
        theta, back = jax.vjp(lambda p: as_matrix(net.predictor(p)), params)
        return problem.outputs(theta), lambda cotangent: back(problem.pull(cotangent))[0]
    assert isinstance(problem, Regression)
    outputs, back = jax.vjp(lambda p: net(p, problem.X).reshape(problem.n, problem.k), params)
    return outputs, lambda cotangent: back(cotangent)[0]
