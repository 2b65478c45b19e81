"""Teachers: the true predictors that generators plant and figures measure the distance to.

A generator without a `teacher` plants the one made here with its own sizes and key, so a second
call gives the truth behind the data. A generator with a `teacher` plants that one.
"""

import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.host_rng import generator


def gaussian_teacher(
    d: int, k: int | None = None, informative: int | None = None, std: float = 1.0, key: int = 0
) -> np.ndarray:
    """A Gaussian predictor, zero outside its informative coordinates.

    Args:
        d: the number of inputs.
        k: the number of outputs; None makes a vector.
        informative: how many coordinates, chosen at random, are not zero; None for all.
        std: the standard deviation of the others; d**-0.5 in the imbalance paper.
        key: an integer; the same key gives the same teacher.

    Returns:
        Θ, (d, k), or (d,) without k.
    """
    d = checks.integer("d", d, at_least=1)
    width = () if k is None else (checks.integer("k", k, at_least=1),)
    rows = d if informative is None else at_most("informative", informative, d, "d")
    std = checks.number("std", std, above=0)
    rng = generator(key, "problems.gaussian_teacher")
    theta = np.zeros((d, *width))
    theta[rng.permutation(d)[:rows]] = std * rng.standard_normal((rows, *width))
    return theta


def sparse_teacher(d: int, nonzero: int, key: int = 0) -> np.ndarray:
    """A vector of zeros, except for a random sign at `nonzero` random places.

    Args:
        d: the number of inputs.
        nonzero: the number of entries that are +1 or −1, the paper's κ.
        key: an integer; the same key gives the same teacher.

    Returns:
        θ, (d,).
    """
    d = checks.integer("d", d, at_least=1)
    nonzero = at_most("nonzero", nonzero, d, "d")
    rng = generator(key, "problems.sparse_teacher")
    theta = np.zeros(d)
    theta[rng.permutation(d)[:nonzero]] = rng.choice([-1.0, 1.0], size=nonzero)
    return theta


def relu_directions(
    d: int, teachers: int = 2, orthonormal: bool = False, key: int = 0
) -> np.ndarray:
    """The unit vectors of ReLU teachers, uniform on the sphere.

    Args:
        d: the number of inputs.
        teachers: the number of vectors.
        orthonormal: at right angles to each other, which needs `teachers` ≤ d.
        key: an integer; the same key gives the same vectors.

    Returns:
        W, (d, teachers), a vector a column.
    """
    d = checks.integer("d", d, at_least=1)
    teachers = checks.integer("teachers", teachers, at_least=1)
    if not isinstance(orthonormal, bool):
        raise ValueError(f"orthonormal must be True or False, got {orthonormal!r:.80}")
    if orthonormal:
        at_most("teachers", teachers, d, "d, to be orthonormal")
    W = generator(key, "problems.relu_directions").standard_normal((d, teachers))
    return polar(W) if orthonormal else W / np.linalg.norm(W, axis=0)


def polar(matrix: np.ndarray) -> np.ndarray:
    """The matrix with its singular values set to one; of a Gaussian one, uniformly distributed."""
    U, _, Vt = np.linalg.svd(matrix, full_matrices=False)
    return U @ Vt


def at_most(name: str, value: object, most: int, what: str) -> int:
    """`value` as a whole number from 1 to `most`, or a ValueError that says why not."""
    value = checks.integer(name, value, at_least=1)
    if value > most:
        raise ValueError(f"{name} must be at most {most} ({what}), got {value}")
    return value


def own_teacher(teacher: ArrayLike, d: int, k: int | None, **drawn: object) -> np.ndarray:
    """The user's predictor, checked; `drawn` are arguments that only describe a drawn one."""
    for name, value in drawn.items():
        if value is not None:
            raise ValueError(
                f"{name} describes a drawn teacher, got {value!r:.80} together with teacher: "
                "leave one of them out"
            )
    d = checks.integer("d", d, at_least=1)
    theta = checks.array("teacher", teacher, ndim=(1, 2))
    columns = theta.shape[1:] if k is None else (checks.integer("k", k, at_least=1),)
    if theta.shape != (d, *columns) or theta.size == 0:
        need = f"({d},) or ({d}, any)" if k is None else f"({d}, {k})"
        raise ValueError(f"teacher must have shape {need}, got {theta.shape}")
    return theta
