"""The error and two Gram matrices move by themselves: a system that does not know the width.

With S = diag(σ²): E = B − S^½U1Vᵀ (r, m), M = S^½U1U1ᵀS^½ (r, r) and N = VVᵀ (m, m).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...numerics import checks
from ...numerics.units import exponent
from .._problem import LeastSquares, Params
from .._units import INPUT, LABEL, PARAMETER, RATE, TIME, homogeneous
from ._coordinates import Split, VisibleLayers, learning, split, state


class Closed(NamedTuple):
    """A state of the closed system.

    Attributes:
        E: (r, m) error in the left singular basis; the loss is L* + weight·‖E‖².
        M: (r, r) S^½ U1U1ᵀ S^½.
        N: (m, m) VVᵀ.
    """

    E: np.ndarray
    M: np.ndarray
    N: np.ndarray


_DEGREES = {"E": LABEL, "M": 2 * (INPUT + PARAMETER), "N": 2 * PARAMETER}


def _size(call: Mapping[str, Any]) -> int | None:
    """Of the parameters, whose squares are in N."""
    unit = exponent(call["now"][2])
    return None if unit is None else unit // 2


@homogeneous(_DEGREES)
def closed_state(problem: LeastSquares, params: Params) -> Closed:
    """E, M and N of these parameters."""
    seen = state(problem, params)
    scaled = seen.split.sigma[:, None] * seen.U1
    return Closed(seen.E, scaled @ scaled.T, seen.V @ seen.V.T)


@homogeneous({name: d + RATE for name, d in _DEGREES.items()}, by=_size, now=_DEGREES)
def closed_velocity(problem: LeastSquares, now: Closed) -> Closed:
    """The velocity of (E, M, N) under gradient flow, in the problem's own time."""
    parts = split(problem)
    return Closed(*(parts.speed * rate for rate in velocity(parts, _checked(parts, now))))


@homogeneous(_DEGREES, by=_size, now=_DEGREES, lr=TIME)
def closed_step(problem: LeastSquares, now: Closed, lr: float) -> Closed:
    """(E, M, N) after one step of gradient descent on the problem's own loss, exactly."""
    parts = split(problem)
    lr = parts.speed * checks.number("lr", lr, above=0)
    E, M, N = now = _checked(parts, now)
    v = velocity(parts, now)
    SE = parts.S[:, None] * E
    return Closed(
        E + lr * v.E - lr**2 * (SE @ (parts.B - E).T @ E),
        M + lr * v.M + lr**2 * (SE @ N @ SE.T),
        N + lr * v.N + lr**2 * (E.T @ M @ E),
    )


def velocity(parts: Split, now: Closed) -> Closed:
    """The velocity of (E, M, N) in the time of ½‖Y − XΘ‖²."""
    E, M, N = now
    S = parts.S[:, None]
    fitted = parts.B - E
    rise_M = (S * E) @ fitted.T
    rise_N = E.T @ fitted
    return Closed(-(M @ E) - S * (E @ N), rise_M + rise_M.T, rise_N + rise_N.T)


@homogeneous(RATE)
def rate_floor(problem: LeastSquares, params: Params) -> float:
    """The slowest rate k at which ‖E‖ can shrink from here, exactly; the loss shrinks at 2k.

    The least eigenvalue of the kernel E ↦ ME + SEN, in the problem's own time. At the end of a
    run it is the asymptotic rate.
    """
    seen = learning(problem, params)
    return seen.split.speed * kernel_ends(seen)[0]


@homogeneous(RATE)
def rate_ceiling(problem: LeastSquares, params: Params) -> float:
    """The fastest rate: the largest eigenvalue of the same kernel, which limits descent's step."""
    seen = learning(problem, params)
    return seen.split.speed * kernel_ends(seen)[1]


def kernel_ends(seen: VisibleLayers) -> tuple[float, float]:
    """The least and the largest eigenvalue of E ↦ ME + SEN, for ½‖Y − XΘ‖².

    It splits along the eigenvectors of N: M + νS for every eigenvalue ν, and grows with ν.
    """
    scaled = seen.split.sigma[:, None] * seen.U1
    M = scaled @ scaled.T
    S = np.diag(seen.split.S)
    nu = np.maximum(np.linalg.eigvalsh(seen.V @ seen.V.T), 0.0)
    low = np.linalg.eigvalsh(M + nu[0] * S)[0]
    high = np.linalg.eigvalsh(M + nu[-1] * S)[-1]
    return max(float(low), 0.0), float(high)


def _checked(parts: Split, now: Closed) -> Closed:
    r, m = parts.B.shape
    shapes = {"E": (r, m), "M": (r, r), "N": (m, m)}
    if len(now) != 3:
        raise ValueError(f"now must be the three matrices (E, M, N), got {len(now)} of them")
    return Closed(
        *(
            checks.array(name, value, shape=shape)
            for (name, shape), value in zip(shapes.items(), now, strict=True)
        )
    )
