"""The same noise in every direction of parameter space."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..nets import Net
from ..numerics import checks
from ..numerics.counter_rng import fold, normal
from ..numerics.types import Array, Integer, PyTree
from ..problems import Problem
from ..problems.base import LossOfOutputs
from ._covariance import checked, refuse_size
from ._parameter import ParameterNoise
from ._spread import Spread


class IsotropicSpread(Spread):
    """std·z, without a matrix."""

    std: Any

    def size(self, problem: Problem | LossOfOutputs, net: Net, params: PyTree) -> tuple[int, ...]:
        return (sum(jnp.size(leaf) for leaf in jax.tree.leaves(params)),)

    def kick(self, problem: Problem | LossOfOutputs, net: Net, params: PyTree, z: Array) -> PyTree:
        return ravel_pytree(params)[1](self.std * z)


class Isotropic(ParameterNoise):
    """Independent N(0, std²) on every entry of the gradient: Σ = std²·I.

    Args:
        std: the standard deviation.
    """

    std: Any

    def __init__(self, std: float):
        self.std = np.asarray(checks.number("std", std, at_least=0))

    def draw(self, key: Integer, params: PyTree) -> PyTree:
        leaves, structure = jax.tree.flatten(params)
        drawn = [self.std * normal(fold(key, i), np.shape(leaf)) for i, leaf in enumerate(leaves)]
        return jax.tree.unflatten(structure, drawn)

    def spread(self, problem: Problem | LossOfOutputs) -> Spread:
        return IsotropicSpread(self.std)

    def factor(self, problem: Problem, net: Net, params: PyTree) -> np.ndarray:
        params = checked(problem, net, params)
        refuse_size("factor", params)
        return self.std * np.eye(sum(leaf.size for leaf in jax.tree.leaves(params)))
