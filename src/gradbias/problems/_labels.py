"""Class labels as people keep them: signs, zeros and ones, whole numbers, words."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks


class Labels(NamedTuple):
    """Labels, read.

    Attributes:
        classes: the labels that there are, in order.
        which: (n,) which of them each sample has.
    """

    classes: tuple[Any, ...]
    which: np.ndarray

    @property
    def signs(self) -> np.ndarray:
        """−1 for the first of two classes, +1 for the second."""
        return 2.0 * self.which - 1.0

    @property
    def one_hot(self) -> np.ndarray:
        """(n, K), a unit vector for each sample."""
        return np.eye(len(self.classes))[self.which]


def read_labels(y: ArrayLike) -> Labels:
    """Labels of at least two classes; a ValueError says what is wrong with them."""
    checks.refuse_tracer("y", y)
    given = np.asarray(y)
    if given.ndim != 1:
        one_hot = given.ndim == 2 and given.shape[1] > 1
        hint = "; for one-hot rows, y.argmax(axis=1) are their classes" if one_hot else ""
        raise ValueError(f"y must have 1 axis, a label for each sample, got {given.shape}{hint}")
    if given.dtype.kind == "O":
        given = _words(given)
    if given.dtype.kind == "f":
        _refuse_fractions(given)
    elif given.dtype.kind not in "iubUST":
        raise ValueError(f"y must hold class labels, whole numbers or words, got {given.dtype}")
    if given.size == 0:
        raise ValueError("X and y must not be empty, got no labels")
    classes, index = np.unique(given, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f"y must hold at least two classes, got {len(given)} labels that are all "
            f"{classes[0].item()!r}"
        )
    return Labels(tuple(classes.tolist()), index.reshape(-1))


def _words(given: np.ndarray) -> np.ndarray:
    """Labels of mixed Python types: all words, or all numbers."""
    if all(isinstance(label, str) for label in given):
        return given.astype(str)
    if all(isinstance(label, (bool, int, float, np.number, np.bool_)) for label in given):
        return np.asarray(given.tolist())
    odd = next(label for label in given if not isinstance(label, str))
    raise ValueError(
        f"y must hold class labels, all whole numbers or all words, got {type(odd).__name__} "
        f"{odd!r:.80} among them"
    )


def _refuse_fractions(given: np.ndarray) -> None:
    wrong = ~np.isfinite(given) | (given != np.round(given))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"y must hold class labels, whole numbers or words, got {given[i]} at index {i}; "
            "gb.Regression fits numbers"
        )
