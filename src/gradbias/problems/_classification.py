"""Classification with the logistic, the exponential or the cross-entropy loss."""

import functools
from typing import Any

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from ..geometry import L2, GeometryLike, as_geometry
from ..numerics import checks
from ..numerics.constants import sealed
from ..numerics.types import Array, Number
from ._labels import read_labels
from ._max_margin import MaxMargin, find_max_margin
from ._mean_loss import DataLoss
from ._sample_losses import LOSSES, MarginLoss, log_sum_exp, module_of
from ._separability import Separability, find_separability


class Classification(DataLoss):
    """L = (1/n) Σ loss of sample i, on the outputs XΘ; there is no intercept.

    A constant column of X does the work of one, and is penalised like any other. Classes are those
    that y holds, in sorted order; a class that no sample has does not exist.

    Args:
        X: (n, d) data, a sample a row.
        y: (n,) labels: ±1, zeros and ones, whole numbers, or words. Of two classes the second is
            the positive one, and predictors are vectors.
        loss: "logistic", log(1 + e^{−m}), or "exponential", e^{−m}, of two classes;
            "cross_entropy", −log softmax(f)_y, of two or more, with an output for each class.

    Attributes:
        Y: (n,) signs, or (n, K) unit vectors for "cross_entropy".
        classes: the labels, in the order of the outputs.
    """

    X: Any
    Y: Any
    loss_name: str = eqx.field(static=True)
    classes: tuple[Any, ...] = eqx.field(static=True)

    def __init__(self, X: ArrayLike, y: ArrayLike, loss: str = "logistic"):
        self.loss_name = checks.one_of("loss", loss, tuple(LOSSES))
        self.X = checks.constant_array("X", X, ndim=(2,))
        labels = read_labels(y)
        if 0 in self.X.shape:
            raise ValueError(f"X and y must not be empty, got shape {self.X.shape} of X")
        if len(self.X) != len(labels.which):
            raise ValueError(
                "X and y must have the same number of rows, got "
                f"{len(self.X)} and {len(labels.which)}"
            )
        if self.loss_name != "cross_entropy" and len(labels.classes) > 2:
            raise ValueError(
                f'loss="{self.loss_name}" is one of two classes, and y holds '
                f'{len(labels.classes)}: loss="cross_entropy" takes any number'
            )
        self.classes = labels.classes
        self.Y = labels.one_hot if self.loss_name == "cross_entropy" else labels.signs

    def __repr__(self) -> str:
        return (
            f"Classification of {self.n} samples with {self.d} inputs into {len(self.classes)} "
            f"classes, {self.loss_name} loss"
        )

    @property
    def y(self) -> np.ndarray:
        """The labels, as they were given."""
        index = self.Y > 0 if self.vector else self.Y.argmax(axis=1)
        return np.asarray(self.classes)[np.asarray(index, int)]

    @property
    def given(self) -> dict[str, Any]:
        """What makes the same problem again."""
        words = isinstance(self.classes[0], str)
        return {"y": self.y.tolist() if words else self.y, "loss": self.loss_name}

    @property
    def sample_loss(self) -> MarginLoss:
        return LOSSES[self.loss_name]

    @property
    def least(self) -> Number:
        return 0.0

    @property
    def falls_for_ever(self) -> bool:
        return True

    def loss(self, theta: ArrayLike) -> Number:
        outputs = self._outputs(theta)
        return module_of(outputs).mean(self.sample_loss.values(outputs, self.Y))

    def log_loss(self, theta: ArrayLike) -> Number:
        """The logarithm of L, to all digits also where L is below the smallest double."""
        return self.log_mean(self._outputs(theta))

    def gradient(self, theta: ArrayLike) -> Array:
        return self.theta_gradient(self.as_predictor(theta)).reshape(np.shape(theta))

    def margins(self, theta: ArrayLike) -> Array:
        """By how much each sample is on its side, (n,): y·f, or f_y − the largest other output."""
        pairs = self.pair_margins(self._outputs(theta))
        return module_of(pairs).min(pairs, axis=1)

    def pair_margins(self, outputs: Array) -> Array:
        """The margins against each other class, (n, k): ∞ for a sample's own; y·f of two."""
        if self.vector:
            return self.Y[:, None] * outputs
        xp = module_of(outputs)
        own = xp.sum(outputs * self.Y, axis=1, keepdims=True)
        return xp.where(self.Y > 0, np.inf, own - outputs)

    def shares(self, outputs: Array) -> Array:
        """Each constraint's share p of the gradient, (n, k), of sum one, to all digits."""
        log_weights = self.sample_loss.log_weights(outputs, self.Y)
        return module_of(outputs).exp(log_weights - log_sum_exp(log_weights))

    def combine(self, shares: Array) -> Array:
        """Zᵀp, (d, k): what the constraints add up to."""
        if self.vector:
            return self.X.T @ (self.Y[:, None] * shares)
        own = module_of(shares).sum(shares, axis=1, keepdims=True)
        return self.X.T @ (own * self.Y - shares)

    @functools.cached_property
    def constraints(self) -> np.ndarray:
        """Z: the rows whose products with a predictor must be positive.

        Of two classes y_i·x_i, (n, d). Of K classes x_i⊗(e_{y_i} − e_k) for every k ≠ y_i,
        (n(K − 1), dK): sample by sample, of predictors as `theta.ravel()`.
        """
        if self.vector:
            return sealed(self.Y[:, None] * self.X)
        own = self.Y[:, None, :] - np.eye(self.k)[None]  # e_y − e_k
        wrong = self.Y == 0
        rows = self.X[:, None, :, None] * own[:, :, None, :]
        return sealed(rows[wrong].reshape(-1, self.d * self.k))

    @functools.cached_property
    def separability(self) -> Separability:
        """Can a linear predictor give every sample a positive margin? With the proof."""
        return find_separability(self.constraints, self.n)

    def max_margin(self, geometry: GeometryLike = L2) -> MaxMargin:
        """The predictor ŵ of least norm whose margins are all at least 1.

        Args:
            geometry: whose norm; `L2`, `L1` and `Linf` are solved exactly.
        """
        return find_max_margin(self, as_geometry("geometry", geometry))

    def _outputs(self, theta: ArrayLike) -> Array:
        return self.X @ self.as_predictor(theta)
