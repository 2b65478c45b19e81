"""A minimiser with the same constants as the start: where the constants are counted."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
import scipy.integrate
import scipy.linalg
from jax.flatten_util import ravel_pytree

from ..nets import Deep
from ._coordinates import Coordinates

DAMPING = 1e-10  # of the squared size of J, where outputs stop to depend on the parameters
POLISHES = 60
ACCEPTED = 1e-8  # relative distance from the manifold and from the constants of the start


class Linearised(NamedTuple):
    """Residual and constants at a point, with their differentials J and K."""

    residual: np.ndarray
    constants: np.ndarray
    J: np.ndarray
    K: np.ndarray


def minimiser(space: Coordinates) -> tuple[np.ndarray, float]:
    """A point of the manifold of minimisers, ravelled, and its relative distance from certainty.

    Any motion along gradients of samples, however weighted, conserves the charges and the frozen
    part. Of all such motions this is the one that leads straight to the minimisers: outputs decay
    to their targets like e^{−t}, whatever the condition of the data.
    """
    start = np.asarray(ravel_pytree(space.params)[0])
    first = linearised(space, start)
    size = np.linalg.norm(space.targets) + np.linalg.norm(first.residual)
    if np.linalg.norm(first.J.T @ first.residual) <= 1e-14 * size * np.linalg.norm(first.J):
        if np.linalg.norm(first.residual) > ACCEPTED * size:
            raise ValueError("params: the start is a stationary point that is not a minimiser")
        return start, 0.0

    def velocity(_, flat):
        here = linearised(space, flat)
        gram = here.J @ here.J.T
        gram[np.diag_indices_from(gram)] += DAMPING * np.trace(gram) + np.finfo(float).tiny
        return -here.J.T @ scipy.linalg.solve(gram, here.residual, assume_a="pos")

    scale = 1e-10 * np.sqrt(np.mean(start**2))
    path = scipy.integrate.solve_ivp(
        velocity, (0, 30), start, method="DOP853", rtol=1e-8, atol=scale, t_eval=[30]
    )
    found = path.y[:, -1] if path.success and path.y.size else start
    return _polished(space, found, first.constants, size)


def _polished(
    space: Coordinates, flat: np.ndarray, wanted: np.ndarray, size: float
) -> tuple[np.ndarray, float]:
    """Gauss-Newton on both sets of equations, which the path has solved up to its tolerance."""
    units = np.abs(wanted).max(initial=0.0) + np.mean(flat**2)

    def distance(here: Linearised) -> float:
        off = np.abs(here.constants - wanted).max(initial=0.0) / units
        left = np.linalg.norm(here.residual)
        if _too_narrow(space):  # the residual cannot vanish, but its gradient does
            left = np.linalg.norm(here.J.T @ here.residual) / np.linalg.norm(here.J)
        return float(max(left / size, off))

    best, least = flat, distance(linearised(space, flat))
    for _ in range(POLISHES):
        here = linearised(space, flat)
        equations = np.vstack([here.J / size, here.K / units])
        values = np.concatenate([here.residual / size, (here.constants - wanted) / units])
        flat = flat - scipy.linalg.lstsq(equations, values, cond=1e-11)[0]
        now = distance(linearised(space, flat))
        if not now < least:
            break
        best, least = flat, now
    return best, least


def _too_narrow(space: Coordinates) -> bool:
    """Is a layer narrower than the rank of what should be fitted?"""
    if not isinstance(space.net, Deep):
        return False
    return min(space.net.dims) < np.linalg.matrix_rank(space.targets)


def linearised(space: Coordinates, flat: np.ndarray) -> Linearised:
    """Residual, constants and their differentials at a point."""
    return Linearised(*(np.array(part) for part in _linearised(space, flat)))


@eqx.filter_jit
def _linearised(space: Coordinates, flat):
    J, K = jax.jacrev(space.residual)(flat), jax.jacrev(space.constants)(flat)
    return space.residual(flat), space.constants(flat), J * space.moves, K * space.moves
