"""Bounds on the two flows: Polyak–Łojasiewicz constants and lengths."""

import numpy as np

from ...numerics import checks
from ...problems import Regression
from .._problem import Params
from .._units import PARAMETER, RATE, homogeneous
from ._fits import decay_rates, fits, halves, samples
from ._l1 import weighted_l1
from ._manifold import projected_gradient, regulariser

CONSTANTS = ("corrected", "paper")


@homogeneous(RATE)
def pl_constant(problem: Regression, params: Params, constant: str = "corrected") -> float:
    """C of ‖∇L‖² ≥ C·(L − L*) along gradient flow from (u0, v0), Lemma D.2.

    C = 32·weight·λ·min|u_j v_j|, with λ the least non-zero eigenvalue of XXᵀ and the minimum over
    coordinates that the data see; (16/n)·λ·min|uv| for L = (1/2n)‖·‖². As printed, the lemma
    lacks the factor 1/n and is false; the corrected one is attained.

    Args:
        problem: with one output.
        params: u and v at any point of the flow, (d,) each; products u∘v do not change.
        constant: "corrected", or "paper" for the printed one.
    """
    checks.one_of("constant", constant, CONSTANTS)
    X, _, weight = samples(problem)
    u, v = halves(problem.d, params)
    s = fits(problem).s
    if not s.size:
        return np.inf  # nothing to fit: L = L*
    product = np.min(np.abs(u * v), where=np.any(X != 0, axis=0), initial=np.inf)
    corrected = 32 * weight * float(np.min(s)) ** 2 * float(product)
    return corrected * len(X) if constant == "paper" else corrected


@homogeneous(PARAMETER)
def length_bound(problem: Regression, params: Params, constant: str = "corrected") -> float:
    """2√((L − L*)/C): gradient flow from (u0, v0) is no longer than this, proof of Lemma 6.3.

    C is `pl_constant`. As printed, √L/(2√C) with the printed C, it is a quarter of the bound even
    for n = 1, and flows exceed it.

    Args:
        problem: with one output.
        params: u and v at the start, (d,) each.
        constant: "corrected", or "paper" for the printed bound.
    """
    C = pl_constant(problem, params, constant)
    u, v = halves(problem.d, params)
    excess = float(problem.weight) * fits(problem).excess((u - v) * (u + v))
    factor = 0.5 if constant == "paper" else 2.0
    if excess == 0:
        return 0.0
    return float(factor * np.sqrt(excess / C)) if C > 0 else np.inf


@homogeneous(RATE - 2 * PARAMETER)
def limiting_pl(problem: Regression, params: Params) -> float:
    """‖F‖²/(R − R*) at a point of the manifold: Lemma D.16 says that it stays away from 0.

    F is `projected_gradient`, R* the least R, that of `weighted_l1`. The lemma gives no constant;
    the least of these ratios along a flow is one for that flow (∞ at the minimum itself).
    """
    gap = _gap(problem, params)
    du, dv = projected_gradient(problem, params)
    return float((du @ du + dv @ dv) / gap) if gap > 0 else np.inf


@homogeneous(PARAMETER, constant=RATE - 2 * PARAMETER)
def limiting_length_bound(problem: Regression, params: Params, constant: float) -> float:
    """2√((R − R*)/constant): the limiting flow from (u, v) is no longer than this, Lemma D.17.

    Args:
        problem: with one output.
        params: u and v at a point of the manifold, (d,) each.
        constant: of ‖F‖² ≥ constant·(R − R*) along the flow; `limiting_pl`.
    """
    constant = checks.number("constant", constant, above=0)
    return float(2 * np.sqrt(max(_gap(problem, params), 0.0) / constant))


def _gap(problem: Regression, params: Params) -> float:
    least = decay_rates(problem) @ np.abs(weighted_l1(problem))
    return regulariser(problem, params) - float(least)
