"""Bounds on the two flows: Polyak–Łojasiewicz constants and lengths."""

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...problems import Regression
from .._units import PARAMETER, RATE, homogeneous
from ._l1 import weighted_l1
from ._manifold import projected_gradient, regulariser
from ._problem import decay_rates, finite_data, halves, target

CONSTANTS = ("corrected", "paper")


@homogeneous(RATE, by="u0,v0")
def pl_constant(
    problem: Regression, u0: ArrayLike, v0: ArrayLike, constant: str = "corrected"
) -> float:
    """C of ‖∇L‖² ≥ C·(L − L*) along gradient flow from (u0, v0), Lemma D.2.

    C = 32·weight·λ·min|u_j v_j|, with λ the least non-zero eigenvalue of XXᵀ and the minimum over
    coordinates that the data see; (16/n)·λ·min|uv| for L = (1/2n)‖·‖². As printed, the lemma
    lacks the factor 1/n and is false; the corrected one is attained.

    Args:
        problem: with one output.
        u0: (d,) any point of the flow, whose products u∘v do not change.
        v0: (d,).
        constant: "corrected", or "paper" for the printed one.
    """
    checks.one_of("constant", constant, CONSTANTS)
    X, _, weight = finite_data(problem)
    u, v = halves(problem, u0, v0, ("u0", "v0"))
    s = target(problem).s
    if not s.size:
        return np.inf  # nothing to fit: L = L*
    product = np.min(np.abs(u * v), where=np.any(X != 0, axis=0), initial=np.inf)
    corrected = 32 * weight * float(np.min(s)) ** 2 * float(product)
    return corrected * len(X) if constant == "paper" else corrected


@homogeneous(PARAMETER, by="u0,v0")
def length_bound(
    problem: Regression, u0: ArrayLike, v0: ArrayLike, constant: str = "corrected"
) -> float:
    """2√((L − L*)/C): gradient flow from (u0, v0) is no longer than this, proof of Lemma 6.3.

    C is `pl_constant`. As printed, √L/(2√C) with the printed C, it is a quarter of the bound even
    for n = 1, and flows exceed it.

    Args:
        problem: with one output.
        u0: (d,) start.
        v0: (d,) start.
        constant: "corrected", or "paper" for the printed bound.
    """
    C = pl_constant(problem, u0, v0, constant)
    u, v = halves(problem, u0, v0, ("u0", "v0"))
    excess = float(problem.weight) * target(problem).excess((u - v) * (u + v))
    factor = 0.5 if constant == "paper" else 2.0
    if excess == 0:
        return 0.0
    return float(factor * np.sqrt(excess / C)) if C > 0 else np.inf


@homogeneous(RATE - 2 * PARAMETER, by="u,v")
def limiting_pl(problem: Regression, u: ArrayLike, v: ArrayLike) -> float:
    """‖F‖²/(R − R*) at a point of the manifold: Lemma D.16 says that it stays away from 0.

    F is `projected_gradient`, R* the least R, that of `weighted_l1`. The lemma gives no constant;
    the least of these ratios along a flow is one for that flow (∞ at the minimum itself).
    """
    gap = _gap(problem, u, v)
    du, dv = projected_gradient(problem, u, v)
    return float((du @ du + dv @ dv) / gap) if gap > 0 else np.inf


@homogeneous(PARAMETER, by="u,v", constant=RATE - 2 * PARAMETER)
def limiting_length_bound(
    problem: Regression, u: ArrayLike, v: ArrayLike, constant: float
) -> float:
    """2√((R − R*)/constant): the limiting flow from (u, v) is no longer than this, Lemma D.17.

    Args:
        problem: with one output.
        u: (d,) a point of the manifold.
        v: (d,).
        constant: of ‖F‖² ≥ constant·(R − R*) along the flow; `limiting_pl`.
    """
    constant = checks.number("constant", constant, above=0)
    return float(2 * np.sqrt(max(_gap(problem, u, v), 0.0) / constant))


def _gap(problem: Regression, u: ArrayLike, v: ArrayLike) -> float:
    least = decay_rates(problem) @ np.abs(weighted_l1(problem))
    return regulariser(problem, u, v) - float(least)
