"""Eq 15, corrected: the trace of the Hessian of y = UWx at its start and at its equilibrium."""

from typing import NamedTuple

import numpy as np

from ...numerics import checks


def initial_hessian_trace(
    d: int, k: int, width: int, trace_x: float, variance_U: float, variance_W: float
) -> float:
    r"""Column form y = UWx, loss without ½: the expected trace of the Hessian at a random start.

    $2k\,h\,\mathrm{Tr}\Sigma_x(\mathrm{Var}_U + \mathrm{Var}_W)$. Kaiming is 1/h for U and 1/d for
    W; Glorot is 2/(k + h) and 2/(h + d).

    Args:
        d: inputs.
        k: outputs.
        width: h, hidden units.
        trace_x: Tr Σx.
        variance_U: of the entries of U (k, h).
        variance_W: of the entries of W (h, d).
    """
    _, k, h = _sizes(d, k, width)
    return float(2 * k * h * trace_x * (variance_U + variance_W))


class Autoencoder(NamedTuple):
    """The equilibrium of U, W on y = x + ε with Σx = I and Σε = s²I.

    Attributes:
        norm_U: ‖U‖².
        norm_W: ‖W‖².
        hessian_trace: 2d(‖U‖² + ‖W‖²).
    """

    norm_U: float
    norm_W: float
    hessian_trace: float


def autoencoder_equilibrium(d: int, width: int, variance_eps: float) -> Autoencoder:
    r"""Column form y = UWx, loss without ½: the equilibrium of a linear autoencoder.

    It fits min(h, d) directions, and ‖U‖² = min(h, d)·ρ, ‖W‖² = min(h, d)/ρ. With h ≥ d it is
    balanced, ρ = 1; a narrow one leaves a residual and has
    $\rho^2 = 1 + (d - h)/(d s^2)$.

    Args:
        d: inputs, and outputs.
        width: h, hidden units.
        variance_eps: s² > 0.
    """
    d, _, h = _sizes(d, d, width)
    s2 = checks.number("variance_eps", variance_eps, above=0)
    fitted = min(h, d)
    rho = np.sqrt(1 + (d - fitted) / (d * s2))
    return Autoencoder(
        float(fitted * rho), float(fitted / rho), float(2 * d * fitted * (rho + 1 / rho))
    )


def _sizes(d: int, k: int, width: int) -> tuple[int, int, int]:
    return (
        checks.integer("d", d, at_least=1),
        checks.integer("k", k, at_least=1),
        checks.integer("width", width, at_least=1),
    )
