"""Regressions whose labels come from a planted linear predictor."""

import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.host_rng import generator
from ._regression import Regression
from ._teachers import gaussian_teacher, own_teacher, polar, sparse_teacher

CONVENTIONS = {
    "mean": Regression.mean,
    "half_mean": Regression.half_mean,
    "half_sum": Regression.half_sum,
}


def gaussian(
    n: int,
    d: int,
    k: int | None = None,
    informative: int | None = None,
    noise: float = 0.0,
    std: float = 1.0,
    teacher: ArrayLike | None = None,
    key: int = 0,
    loss: str = "mean",
) -> Regression:
    """Gaussian inputs and a Gaussian teacher, Y = XΘ + noise.

    The rank-1 paper: `gaussian(40, 100, informative=20)`. The spectral paper, Fig 1a:
    `gaussian(5, 10, 3, loss="half_mean")`. The imbalance paper, Fig 1 and 4, with s = 400**-0.5:
    `gaussian(100, 400, noise=0.01, std=s, teacher=gaussian_teacher(400, std=s))`.

    Args:
        n: the number of samples.
        d: the number of inputs.
        k: the number of outputs; None makes the labels a vector.
        informative: how many coordinates the teacher uses; None for all.
        noise: the standard deviation of the label noise.
        std: the standard deviation of the entries of X.
        teacher: the predictor to plant, (d, k) or (d,); without it
            `gaussian_teacher(d, k, informative, key=key)`.
        key: an integer; the same key gives the same data.
        loss: "mean", (1/n)‖XΘ − Y‖², "half_mean" or "half_sum".
    """
    n = checks.integer("n", n, at_least=1)
    std = checks.number("std", std, above=0)
    if teacher is None:
        theta = gaussian_teacher(d, k, informative, key=key)
    else:
        theta = own_teacher(teacher, d, k, informative=informative)
    rng = generator(key, "problems.gaussian")
    return _planted(std * rng.standard_normal((n, d)), theta, noise, rng, loss)


def whitened(
    n: int,
    d: int,
    k: int | None = None,
    noise: float = 0.01,
    teacher: ArrayLike | None = None,
    key: int = 0,
    loss: str = "mean",
) -> Regression:
    """Inputs whose singular values are all one: a Gaussian matrix without its spectrum.

    The imbalance paper, Fig 2 and 3: `whitened(100, 400)`.

    Args:
        n: the number of samples.
        d: the number of inputs.
        k: the number of outputs; None makes the labels a vector.
        noise: the standard deviation of the label noise.
        teacher: the predictor to plant, (d, k) or (d,); without it
            `gaussian_teacher(d, k, std=d**-0.5, key=key)`.
        key: an integer; the same key gives the same data.
        loss: "mean", (1/n)‖XΘ − Y‖² as in the figures; "half_sum" as in the theorems; "half_mean".
    """
    n = checks.integer("n", n, at_least=1)
    d = checks.integer("d", d, at_least=1)
    if teacher is None:
        theta = gaussian_teacher(d, k, std=d**-0.5, key=key)
    else:
        theta = own_teacher(teacher, d, k)
    rng = generator(key, "problems.whitened")
    return _planted(polar(rng.standard_normal((n, d))), theta, noise, rng, loss)


def orthogonal(
    d: int,
    k: int | None = None,
    norm: float | None = None,
    teacher: ArrayLike | None = None,
    key: int = 0,
    loss: str = "half_sum",
) -> Regression:
    """A square orthogonal X without label noise: as many samples as inputs, β* = XᵀY.

    The spectral paper, Fig 1b: `orthogonal(5, norm=2)`.

    Args:
        d: the number of inputs and of samples.
        k: the number of outputs; None makes the labels a vector.
        norm: the Frobenius norm to which the teacher is rescaled; None leaves it as it is.
        teacher: the predictor to plant, (d, k) or (d,); without it
            `gaussian_teacher(d, k, key=key)`.
        key: an integer; the same key gives the same data.
        loss: "half_sum", ½‖XΘ − Y‖² without 1/n, "half_mean" or "mean".
    """
    d = checks.integer("d", d, at_least=1)
    theta = gaussian_teacher(d, k, key=key) if teacher is None else own_teacher(teacher, d, k)
    if norm is not None:
        theta = _rescaled(theta, checks.number("norm", norm, above=0))
    rng = generator(key, "problems.orthogonal")
    return _planted(polar(rng.standard_normal((d, d))), theta, 0.0, rng, loss)


def sparse(
    n: int,
    d: int,
    nonzero: int | None = None,
    entries: str = "boolean",
    teacher: ArrayLike | None = None,
    key: int = 0,
    loss: str = "half_mean",
) -> Regression:
    """Sparse recovery: few non-zero coordinates to be found from fewer samples than inputs.

    The after-zero-loss paper, Section 6: `sparse(14, 30, 3, entries="gaussian")`.

    Args:
        n: the number of samples.
        d: the number of inputs.
        nonzero: the number of coordinates that are not zero, the paper's κ.
        entries: of X: "boolean" for random signs, "gaussian" for N(0, 1).
        teacher: instead of `nonzero`, the predictor to plant, (d,) or (d, k); without it
            `sparse_teacher(d, nonzero, key)`.
        key: an integer; the same key gives the same data.
        loss: "half_mean", (1/2n)‖Xθ − y‖², "mean" or "half_sum".
    """
    n = checks.integer("n", n, at_least=1)
    entries = checks.one_of("entries", entries, ("boolean", "gaussian"))
    if teacher is None:
        theta = sparse_teacher(d, nonzero, key)  # pyright: ignore[reportArgumentType]
    else:
        theta = own_teacher(teacher, d, None, nonzero=nonzero)
    rng = generator(key, "problems.sparse")
    boolean = entries == "boolean"
    X = rng.choice([-1.0, 1.0], (n, d)) if boolean else rng.standard_normal((n, d))
    return _planted(X, theta, 0.0, rng, loss)


def with_loss(loss: str, X: np.ndarray, Y: np.ndarray) -> Regression:
    """The regression under one of the papers' three conventions."""
    return CONVENTIONS[checks.one_of("loss", loss, tuple(CONVENTIONS))](X, Y)


def _planted(
    X: np.ndarray, theta: np.ndarray, noise: float, rng: np.random.Generator, loss: str
) -> Regression:
    noise = checks.number("noise", noise, at_least=0)
    Y = X @ theta
    return with_loss(loss, X, Y + noise * rng.standard_normal(Y.shape))


def _rescaled(theta: np.ndarray, norm: float) -> np.ndarray:
    length = np.linalg.norm(theta)
    if length == 0:
        raise ValueError(f"teacher must not be zero to be rescaled to norm {norm}")
    return theta * (norm / length)
