"""What the deep linear nets of Figure 5 fit, where they start, and where theory says they end."""

import numpy as np

from ... import theory
from ...nets import Deep
from ...numerics.host_rng import generator
from ...problems import Population, Regression, digits
from .._figure import Settings


def population(s: Settings) -> Population:
    """A teacher of full rank with uneven inputs and label noise."""
    rng = generator(s.key, "figures.deep")
    left, _ = np.linalg.qr(rng.standard_normal((s.k, s.k)))
    right, _ = np.linalg.qr(rng.standard_normal((s.d, s.k)))
    V = left * np.linspace(0.7, 1.3, s.k) @ right.T
    inputs = np.linspace(0.5, 1.5, s.d)
    labels = np.linspace(0.4, 1.2, s.k)
    return Population(np.diag(inputs**2), V, np.diag(labels**2))


def images(s: Settings) -> Regression:
    """Digits in their leading principal coordinates at unit variance; classes without their mean.

    Centred classes add up to zero: nine coordinates hold them, and every width of nine is used.
    """
    whole = digits(s.images, centre=True, key=s.key)
    X = np.asarray(whole.X)
    Y = np.asarray(whole.Y)
    scores = np.linalg.svd(X, full_matrices=False)[0][:, : s.components] * np.sqrt(len(X))
    contrasts = np.linalg.svd(np.ones((1, 10)))[2][1:]
    return Regression.mean(scores, Y @ contrasts.T)


def as_population(data: Regression) -> Population:
    """The digits as if their residuals did not depend on the inputs."""
    X = np.asarray(data.X)
    theta = np.asarray(data.min_norm)
    residual = X @ theta - np.asarray(data.Y)
    return Population(X.T @ X / len(X), theta.T, residual.T @ residual / len(X))


def told(problem: Population, depth: int) -> np.ndarray:
    """‖W_i‖² at the noise equilibrium."""
    widths = [problem.k] * (depth - 1)
    layers = theory.symmetry.deep_equilibrium(problem.V, problem.sigma_x, problem.sigma_eps, widths)
    return np.array([np.sum(W * W) for W in layers])


def start(net: Deep, kind: str, size: float, key: int) -> dict[str, np.ndarray]:
    """Orthogonal layers with squared norms that are all `size`, or spread around it.

    A product of Gaussian layers has tiny singular values, where a run may rest for very long.
    """
    rng = generator(key, f"figures.deep.{kind}")
    spread = np.linspace(-0.7, 0.7, len(net.dims) - 1) * (kind == "random")
    sizes = size * np.exp(rng.permutation(spread))
    made = {}
    for (name, shape), wanted in zip(net.shapes().items(), sizes, strict=True):
        frame, _ = np.linalg.qr(rng.standard_normal(shape))
        made[name] = frame * np.sqrt(wanted / shape[1])
    return made
