"""The noise equilibrium of two neighbouring factors, y = UWx: on their orbit, and for any V."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import thin_svd
from ...numerics.psd import power, rank, riccati
from .._units import PARAMETER, PREDICTOR, RATE, TIME, homogeneous
from ._factorisation import factors, gammas
from ._moments import moments

if TYPE_CHECKING:
    from ...problems import Problem


class PairEquilibrium(NamedTuple):
    """Where on the orbit U → UB, W → B⁻¹W the noise of the two factors balances.

    Attributes:
        P: BBᵀ, (h, h): all that is decided of B. It is nan where the equilibrium is at infinity.
        UUt: UPUᵀ, (k, k).
        WtW: WᵀP⁻¹W, (d, d).
    """

    P: np.ndarray
    UUt: np.ndarray
    WtW: np.ndarray

    @property
    def finite(self) -> bool:
        """Is it a point of the orbit, and not only a limit of such points?"""
        return bool(np.isfinite(self.P).all())


def pair_equilibrium(
    U: ArrayLike,
    W: ArrayLike,
    noise_U: ArrayLike,
    noise_W: ArrayLike,
    kappa: float = 1.0,
    weight_decay: float = 0.0,
) -> PairEquilibrium:
    r"""Column form y = UWx: the equilibrium of all symmetries U → UB, W → B⁻¹W at once.

    P = BBᵀ solves $P(\kappa\,\mathrm{noise}_W + 4\gamma U^TU)P = \kappa\,\mathrm{noise}_U +
    4\gamma WW^T$, a geometric mean of matrices; it is the least total noise of the orbit.
    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖².

    With more hidden units than the factors can use (a singular noise) the equilibrium is only
    reached in the limit: P is then nan, and UUt and WtW are the limits.

    Args:
        U: (k, h).
        W: (h, d).
        noise_U: (h, h) of `factorisation_noise`.
        noise_W: (h, h).
        kappa: lr/S.
        weight_decay: γ ≥ 0.
    """
    U, W = factors(U, W)
    h = len(W)
    kappa = checks.number("kappa", kappa, at_least=0)
    four = 4 * checks.number("weight_decay", weight_decay, at_least=0)
    left = kappa * _square("noise_W", noise_W, h) + four * U.T @ U
    right = kappa * _square("noise_U", noise_U, h) + four * W @ W.T
    UUt = U @ riccati(left, right) @ U.T
    WtW = W.T @ riccati(right, left) @ W
    both = rank(left) == h and rank(right) == h
    return PairEquilibrium(riccati(left, right) if both else np.full((h, h), np.nan), UUt, WtW)


def _square(name: str, value: ArrayLike, h: int) -> np.ndarray:
    matrix = checks.array(name, value, shape=(h, h))
    return (matrix + matrix.T) / 2


class Factorisation(NamedTuple):
    """Two factors of V, in column form: V = UW."""

    U: np.ndarray
    W: np.ndarray


@homogeneous({"U": PARAMETER, "W": PARAMETER}, by="V", V=PREDICTOR, kappa=TIME, weight_decay=RATE)
def factorisation_equilibrium(
    problem: "Problem",
    width: int,
    V: ArrayLike | None = None,
    kappa: float = 1.0,
    weight_decay: float = 0.0,
    frame: ArrayLike | None = None,
) -> Factorisation:
    r"""Column form y = UWx: the factors of V at noise equilibrium (Eq 92), for any V.

    With $\Gamma_U^{1/2} V \Gamma_W^{1/2} = L S R^T$ they are
    $U = \Gamma_U^{-1/2} L \sqrt{S} F$ and $W = F^T \sqrt{S} R^T \Gamma_W^{-1/2}$, unique up to the
    frame F, where $\Gamma = \kappa\Gamma^{\mathrm{centred}}(V) + \gamma I$. Convention: κ = lr/S,
    objective L + γ‖θ‖², loss without ½.

    Args:
        problem: a Regression or a Population.
        width: hidden units, at least the rank of V.
        V: (k, d), what the factors make; the problem's minimiser of least norm if None.
        kappa: lr/S.
        weight_decay: γ ≥ 0.
        frame: F (r, width) with orthonormal rows, r the rank of V; the first units if None.
    """
    width = checks.integer("width", width, at_least=1)
    V = _target(problem, V)
    Gamma_W, Gamma_U = gammas(moments(problem, V), kappa, weight_decay)
    for name, matrix in (("inputs", Gamma_W), ("outputs", Gamma_U)):
        if rank(matrix) < len(matrix):
            raise ValueError(
                f"problem: the noise of the {name} must have full rank, got {rank(matrix)} of "
                f"{len(matrix)}: directions without noise and decay have no equilibrium"
            )
    L, s, Rt = thin_svd(power(Gamma_U, 0.5) @ V @ power(Gamma_W, 0.5))
    F = _frame(frame, len(s), width)
    U = power(Gamma_U, -0.5) @ (L * np.sqrt(s)) @ F
    return Factorisation(U, F.T @ (np.sqrt(s)[:, None] * Rt) @ power(Gamma_W, -0.5))


def _target(problem: "Problem", V: ArrayLike | None) -> np.ndarray:
    if V is not None:
        return checks.array("V", V, ndim=(2,))
    from .._problem import least_squares  # brings jax along

    return least_squares(problem).min_norm.reshape(problem.d, problem.k).T


def _frame(frame: ArrayLike | None, r: int, width: int) -> np.ndarray:
    if width < r:
        raise ValueError(f"width must be at least the rank {r} of V, got {width}")
    if frame is None:
        return np.eye(r, width)
    F = checks.array("frame", frame, shape=(r, width))
    if not np.allclose(F @ F.T, np.eye(r), atol=1e-10):
        raise ValueError("frame must have orthonormal rows")
    return F
