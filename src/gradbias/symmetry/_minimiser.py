"""A minimiser with the same constants as the start: where the constants are counted."""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
import scipy.integrate
import scipy.linalg
from jax.flatten_util import ravel_pytree

from ..nets import Deep
from ._run_coordinates import Coordinates

DAMPING = 1e-7  # of the squared size of J, where outputs stop to depend on the parameters
CALLS = 5000  # of the velocity; a path along a kink of a ReLU net would never end
POLISHES = 200
ACCEPTED = 1e-8  # relative distance from the manifold and from the constants of the start


class Linearised(NamedTuple):
    """Residual and constants at a point, with their differentials J and K."""

    residual: np.ndarray
    constants: np.ndarray
    J: np.ndarray
    K: np.ndarray


def minimiser(space: Coordinates) -> tuple[np.ndarray, float]:
    """A point of the manifold of minimisers, ravelled, and its relative distance from it.

    Any motion along gradients of samples, however weighted, conserves the charges and the frozen
    part. Of all such motions this is the one that leads straight to the minimisers: outputs decay
    to their targets like e^{−t}, whatever the condition of the data.
    """
    start = np.array(ravel_pytree(space.params)[0])
    first = linearised(space, start)
    size = float(np.linalg.norm(space.targets) + np.linalg.norm(first.residual)) or 1.0
    slope = np.linalg.norm(first.J.T @ first.residual)
    if slope <= 1e-14 * size * np.linalg.norm(first.J):
        left = float(np.linalg.norm(first.residual) / size)
        if left > ACCEPTED and not _too_narrow(space):
            raise ValueError("params: the start is a stationary point that is not a minimiser")
        return start, 0.0
    return _polished(space, _end_of_path(space, start), first.constants, size)


def _end_of_path(space: Coordinates, start: np.ndarray) -> np.ndarray:
    calls = 0
    last = start

    def velocity(_, flat):
        nonlocal calls, last
        here = linearised(space, flat)
        calls = calls + 1
        last = flat
        if calls > CALLS or not np.isfinite(here.J).all():
            raise StopIteration
        gram = here.J @ here.J.T
        gram[np.diag_indices_from(gram)] += DAMPING * np.trace(gram) + np.finfo(float).tiny
        return -here.J.T @ scipy.linalg.solve(gram, here.residual, assume_a="pos")

    atol = 1e-8 * np.sqrt(np.mean(start**2))
    try:
        path = scipy.integrate.solve_ivp(
            velocity, (0, 25), start, method="DOP853", rtol=1e-9, atol=atol, t_eval=[25]
        )
    except StopIteration:
        return last
    return path.y[:, -1] if np.size(path.y) else last


def _polished(
    space: Coordinates, flat: np.ndarray, wanted: np.ndarray, size: float
) -> tuple[np.ndarray, float]:
    """Levenberg-Marquardt on both sets of equations, which the path has nearly solved."""
    units = np.abs(wanted).max(initial=0.0) + np.mean(flat**2)
    narrow = _too_narrow(space)

    def distance(here: Linearised) -> float:
        off = np.abs(here.constants - wanted).max(initial=0.0) / units
        left = np.linalg.norm(here.residual)
        if narrow:  # the residual cannot vanish, but its gradient does
            left = np.linalg.norm(here.J.T @ here.residual) / np.linalg.norm(here.J)
        return float(max(left / size, off))

    here = linearised(space, flat)
    damping = 1e-8
    least = distance(here)
    for _ in range(POLISHES):
        if least <= ACCEPTED:  # further steps would blur parameters of 1e-10 and less
            break
        A = np.vstack([here.J / size, here.K / units])
        b = np.concatenate([here.residual / size, (here.constants - wanted) / units])
        ridge = np.sqrt(damping) * np.linalg.norm(A, 2) * np.eye(len(flat))
        zeros = np.zeros(len(flat))
        step = np.linalg.lstsq(np.vstack([A, ridge]), np.concatenate([b, zeros]))[0]
        there = linearised(space, flat - step)
        now = distance(there)
        if now < least:
            flat = flat - step
            here = there
            least = now
            damping = damping / 30
        elif damping > 1e6:
            break
        else:
            damping = max(30 * damping, 1e-16)
    return flat, least


def _too_narrow(space: Coordinates) -> bool:
    """Is a layer narrower than the rank of what should be fitted?"""
    if not isinstance(space.net, Deep):
        return False
    return min(space.net.dims) < int(np.linalg.matrix_rank(space.targets))


def linearised(space: Coordinates, flat: np.ndarray) -> Linearised:
    """Residual, constants and their differentials at a point."""
    residual, constants, J, K = (np.array(part) for part in _linearised(space, flat))
    return Linearised(residual, constants, J * space.moves, K * space.moves)


@eqx.filter_jit
def _linearised(space: Coordinates, flat):
    J = jax.jacrev(space.residual)(flat)
    K = jax.jacrev(space.constants)(flat)
    return space.residual(flat), space.constants(flat), J, K
