"""Classification data that can be separated, and handwritten digits with their classes."""

from collections.abc import Sequence

import numpy as np

from ..numerics import checks
from ..numerics.host_rng import generator
from ._classification import Classification
from ._teachers import at_most


def separable(
    n: int, d: int, margin: float = 1.0, key: int = 0, loss: str = "logistic"
) -> Classification:
    """Gaussian inputs, pushed apart along a random direction so that they can be separated.

    Sample i is y_i·(x·sign⟨x, v⟩ + margin·v) with x Gaussian, a unit vector v and labels that
    alternate: every margin of v is above `margin`.

    Args:
        n: the number of samples, at least 2.
        d: the number of inputs.
        margin: what the margin is above; small for data that are hardly separable.
        key: an integer; the same key gives the same data.
        loss: of `Classification`: "logistic", "exponential" or "cross_entropy".
    """
    n = checks.integer("n", n, at_least=2)
    d = checks.integer("d", d, at_least=1)
    margin = checks.number("margin", margin, above=0)
    rng = generator(key, "problems.separable")
    v = rng.standard_normal(d)
    v /= np.linalg.norm(v)
    X = rng.standard_normal((n, d))
    side = np.where(X @ v < 0, -1.0, 1.0)
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    return Classification(y[:, None] * (side[:, None] * X + margin * v), y, loss)


def digit_classes(
    n: int | None = None, classes: Sequence[int] | None = None, key: int = 0, loss: str = ""
) -> Classification:
    """Handwritten digits (8×8 images, d = 64, scaled to [0, 1]) with their classes.

    The images come with scikit-learn, without a download; a linear predictor can tell them all.

    Args:
        n: how many images, chosen at random; None for all of them.
        classes: which digits, such as (3, 8); None for all ten.
        key: an integer; the order of the images.
        loss: of `Classification`; "cross_entropy" of more than two digits, else "logistic".
    """
    from sklearn.datasets import load_digits  # slow to import, and needed only here

    pixels, digits = map(np.asarray, load_digits(return_X_y=True))
    wanted = range(10) if classes is None else [checks.integer("classes", c) for c in classes]
    if len(set(wanted)) < 2 or not set(wanted) <= set(range(10)):
        raise ValueError(f"classes must name at least two digits of 0 … 9, got {classes!r:.80}")
    kept = np.flatnonzero(np.isin(digits, list(wanted)))
    order = kept[generator(key, "problems.digit_classes").permutation(len(kept))]
    n = len(order) if n is None else at_most("n", n, len(order), "all the images of these digits")
    chosen = order[:n]
    usual = "cross_entropy" if len(set(wanted)) > 2 else "logistic"
    return Classification(pixels[chosen] / 16, digits[chosen], loss or usual)
