"""Data without a planted linear predictor: a population, a ReLU teacher, conflicts, images."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.host_rng import generator
from ._planted import with_loss
from ._population import Population
from ._regression import Regression
from ._teachers import at_most, own_teacher, relu_directions


def autoencoding(d: int, phi: float = 1.0, noise: ArrayLike = 1.0) -> Population:
    r"""Fresh samples of y = x + ε; `phi` tilts the inputs away from isotropy.

    The first half of the inputs has variance $\phi_x$ and the second half $2 - \phi_x$, so that
    their total is d for every $\phi_x$ (the middle one of an odd d has variance 1). The loss is
    $E\|\Theta^T x - y\|^2$, without a half.

    The noise-equilibrium paper, Fig 3 and 8: `autoencoding(100, phi)`; Fig 6:
    `autoencoding(40, noise=[5**0.5] + 39 * [1])`; Fig 2 is a fixed sample:
    `Regression.mean(*autoencoding(30).sample(2000))`.

    Args:
        d: the number of inputs and of outputs.
        phi: the paper's φ_x, between 0 and 2; 1 is isotropic.
        noise: the standard deviation of ε: one number, or one for every output.
    """
    d = checks.integer("d", d, at_least=1)
    phi = checks.number("phi", phi, above=0, below=2)
    std = checks.array("noise", noise, ndim=(0, 1))
    if std.shape not in ((), (d,)) or np.min(std) < 0:
        raise ValueError(
            f"noise must be one number or {d} of them, all at least 0, got {noise!r:.80}"
        )
    variances = np.repeat([phi, 1.0, 2 - phi], [d // 2, d % 2, d // 2])
    return Population(np.diag(variances), np.eye(d), np.diag(np.broadcast_to(std**2, d)))


def relu_teacher(
    n: int,
    d: int,
    teachers: int = 2,
    signs: Sequence[float] | np.ndarray = (1, -1),
    orthonormal: bool = False,
    teacher: ArrayLike | None = None,
    key: int = 0,
    loss: str = "half_mean",
) -> Regression:
    r"""Labels of a small ReLU net, $y_i = \sum_j a_j \max(0, w_j^T x_i)$, on Gaussian inputs.

    The spectral paper, Fig 2 and 5: `relu_teacher(10, 5)`.

    Args:
        n: the number of samples.
        d: the number of inputs.
        teachers: the number of neurons.
        signs: (teachers,) the output weights a_j; any numbers.
        orthonormal: are the directions w_j at right angles to each other?
        teacher: (d, teachers) the directions, a neuron a column; without it
            `relu_directions(d, teachers, orthonormal, key)`.
        key: an integer; the same key gives the same data.
        loss: "half_mean", (1/2n) Σ (f(x_i) − y_i)², "mean" or "half_sum".
    """
    n = checks.integer("n", n, at_least=1)
    teachers = checks.integer("teachers", teachers, at_least=1)
    a = checks.array("signs", signs, shape=(teachers,))
    if teacher is None:
        W = relu_directions(d, teachers, orthonormal, key)
    else:
        W = own_teacher(teacher, d, teachers, orthonormal=orthonormal or None)
    X = generator(key, "problems.relu_teacher").standard_normal((n, d))
    return with_loss(loss, X, np.maximum(X @ W, 0) @ a)


def conflicting(problem: Regression, delta: float) -> Regression:
    """Every sample twice, with the labels y + δ and y − δ, which no predictor can fit.

    The after-zero-loss paper: minibatch SGD on these data has the noise of label-noise SGD on
    `problem`. The weight is halved: a mean stays a mean, and the loss grows by a constant only.
    With several outputs all of them move together, and the noise is not that of independent
    label noise.

    Args:
        problem: the n clean samples; rows i and n + i of the result conflict.
        delta: δ, at least 0.
    """
    if not isinstance(problem, Regression):
        raise ValueError(f"problem must be a Regression, got {type(problem).__name__}")
    delta = checks.number("delta", delta, at_least=0)
    X = np.concatenate([problem.X, problem.X])
    Y = np.concatenate([problem.Y + delta, problem.Y - delta])
    return Regression(X, Y, float(problem.weight) / 2)


def digits(
    n: int | None = None, centre: bool = False, key: int = 0, loss: str = "mean"
) -> Regression:
    """Handwritten digits: 8×8 images (d = 64, scaled to [0, 1]) and one-hot classes (k = 10).

    The 1797 images come with scikit-learn, without a download. Three pixels are always blank, so
    the rank of X is 61 at most.

    Args:
        n: how many images, chosen at random; None for all of them.
        centre: subtract the mean over the chosen images from every pixel and from every class,
            since a linear predictor has no bias of its own.
        key: an integer; the order of the images.
        loss: "mean", (1/n)‖XΘ − Y‖², "half_mean" or "half_sum".
    """
    from sklearn.datasets import load_digits  # slow to import, and needed only here

    pixels, classes = map(np.asarray, load_digits(return_X_y=True))
    n = len(pixels) if n is None else at_most("n", n, len(pixels), "all the images")
    if not isinstance(centre, bool):
        raise ValueError(f"centre must be True or False, got {centre!r:.80}")
    chosen = generator(key, "problems.digits").permutation(len(pixels))[:n]
    X = pixels[chosen] / 16
    Y = np.eye(10)[classes[chosen]]
    return with_loss(loss, X - X.mean(0), Y - Y.mean(0)) if centre else with_loss(loss, X, Y)
