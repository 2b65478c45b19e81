"""Where the randomness of a step comes from."""

import abc

import equinox as eqx
import numpy as np

from ..problems import Batch, Problem


class Noise(eqx.Module):
    """A law of what each step sees of the data."""

    @abc.abstractmethod
    def check(self, problem: Problem, steps: int | None) -> None:
        """Raise a ValueError if this noise does not fit the problem or a run of `steps` steps."""

    @abc.abstractmethod
    def batch(self, step) -> Batch:
        """The draw of one step (jax-level)."""

    @abc.abstractmethod
    def in_basis(self, basis: np.ndarray) -> "Noise | None":
        """The same noise with inputs written in an orthonormal basis; None if they leave it."""
