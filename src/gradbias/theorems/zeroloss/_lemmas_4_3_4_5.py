"""Φ and its derivatives at a point: Lemmas 4.3 and 4.5, Definition 4.4, Appendix C."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ..._engine.simulate import simulate
from ...dynamics import Flow
from ...problems import Regression
from ...theory import manifold
from .._claims import equals
from .._erratum import Erratum, Evidence
from .._source import ZEROLOSS as SOURCE
from .._theorem import Control, Theorem
from . import _instances as cases
from ._oracle import Place

STOPPED = 0.3  # a time at which no flow has arrived


def stopped(key: int) -> Setup:
    """The same flow, stopped before it arrives."""
    return cases.tanh_flow(key, time=STOPPED)


def pointwise(
    name: str,
    statement: str,
    title: str,
    predict: Callable[[Setup], dict[str, Any]],
    measure: Callable[[Place], dict[str, Any]],
    tolerance: Any = 1e-6,
    **more: Any,
) -> Theorem:
    """A statement about the point where a flow ends; broken by a flow that has not ended."""
    return Theorem(
        name,
        statement,
        [*cases.on_manifold(), *more.pop("extra", [])],
        predict,
        lambda runs: measure(Place.end_of(runs["run"])),
        tolerance,
        more.pop("instances", cases.tanh_flow),
        more.pop("controls", [Control("the run ends on the manifold", stopped)]),
        nets=cases.NETS,
        problems=(Regression,),
        dynamics=(Flow,),
        source=SOURCE,
        title=title,
        **more,
    )


def projector(setup: Setup) -> np.ndarray:
    """P at Φ(x0)."""
    x, kw = cases.at_end(setup)
    return np.asarray(manifold.tangent_projector(x, **kw))


def curvature(setup: Setup) -> np.ndarray:
    """H = JᵀJ at Φ(x0)."""
    J = cases.jacobian(setup, cases.end(setup).x)
    return J.T @ J


def third(setup: Setup, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """T[a, b] at Φ(x0)."""
    x, kw = cases.at_end(setup)
    return cases.flat(manifold.third_derivative(x, (np.outer(a, b) + np.outer(b, a)) / 2, **kw))


def parts(setup: Setup, columns: np.ndarray) -> Any:
    """∂²Φ[σσᵀ] at Φ(x0), by the part of the noise that causes it."""
    x, kw = cases.at_end(setup)
    return manifold.second_derivative(x, manifold.Factor(columns), **kw)


def projections(place: Place) -> dict[str, Any]:
    """∂Φ along three directions, H and what is left of it after ∂Φ on either side."""
    columns = cases.directions(place.setup)
    first = place.derivatives(columns)[0].T
    H = place.hessian()
    return {"derivative": first, "HP": H @ first, "PH": place.derivatives(H @ columns)[0].T}


def predict_projections(setup: Setup) -> dict[str, Any]:
    """P, and zero twice."""
    columns = cases.directions(setup)
    zero, top = np.zeros(columns.shape), float(np.linalg.norm(curvature(setup), 2))
    return {
        "derivative": projector(setup) @ columns,
        "HP": equals(zero, scale=top),
        "PH": equals(zero, scale=top),
    }


LEMMA4_3 = pointwise(
    "zeroloss.lemma4.3",
    r"On the manifold of minimisers $\partial\Phi$ is the orthogonal projector $P$ on its tangent "
    r"space, and $H\,\partial\Phi = \partial\Phi\,H = 0$.",
    "the limit map's derivative is a projector",
    predict_projections,
    projections,
)


def off_the_manifold(setup: Setup) -> dict[str, Any]:
    """0, and −∂Φ H∇L by the variational equation; the flow ends at Φ of its start."""
    place = Place(setup, setup.params)
    g = place.gradients(place.x[None])[0]
    bend = -manifold.limit_jacobian(
        setup.params, (place.hessian() @ g)[:, None], residual=cases.residual(setup)
    )
    size = float(np.linalg.norm(g))
    return {
        "slope": equals(np.zeros(len(g)), scale=size),
        "bend": bend[:, 0],
        "end": cases.flat(cases.end(setup).x),
    }


def along_the_gradient(runs: Any) -> dict[str, Any]:
    """Φ' and Φ'' along ∇L at the start, by differences."""
    run = runs["run"]
    place = Place(run.setup, run.setup.params)
    g = place.gradients(place.x[None])[0]
    first, second = place.derivatives(g[:, None] / np.linalg.norm(g))
    size = float(np.linalg.norm(g))
    return {
        "slope": size * first[0],
        "bend": size**2 * second[0],
        "end": cases.flat(run.final),
    }


LEMMAC_2 = Theorem(
    "zeroloss.lemmaC.2",
    r"Wherever the flow reaches the manifold, $\partial\Phi(x)\nabla L(x) = 0$ and "
    r"$\partial^2\Phi[\nabla L,\nabla L] = -\partial\Phi\,\nabla^2L\,\nabla L$: $\Phi$ does not "
    r"change along gradient flow.",
    cases.on_manifold(),
    off_the_manifold,
    along_the_gradient,
    1e-6,
    cases.tanh_flow,
    [Control("the run ends on the manifold", stopped)],
    nets=cases.NETS,
    problems=(Regression,),
    dynamics=(Flow,),
    source=SOURCE,
    slow=True,
    title="the limit map along the gradient",
)


def lyapunov(setup: Setup) -> dict[str, Any]:
    """In an eigenbasis of H."""
    Q = np.eye(cases.size(setup)) - projector(setup)
    inside = Q @ cases.directions(setup)
    return {"inverse": manifold.lyapunov_inverse(curvature(setup), inside @ inside.T)}


def kronecker(place: Place) -> dict[str, Any]:
    """The least solution of HK + KH = S as one linear system."""
    inside = place.normal() @ cases.directions(place.setup)
    H, one = place.hessian(), np.eye(len(place.x))
    system = np.kron(H, one) + np.kron(one, H)
    found = np.linalg.lstsq(system, (inside @ inside.T).ravel(), rcond=1e-9)[0]
    return {"inverse": found.reshape(H.shape)}


DEF4_4 = pointwise(
    "zeroloss.def4.4",
    r"$K = L_H^{-1}(S)$ solves $HK + KH = S$; in an eigenbasis of $H$ it is "
    r"$S_{ij}/(\lambda_i+\lambda_j)$.",
    "the inverse of the Lyapunov operator",
    lyapunov,
    kronecker,
)


def printed_9(key: int) -> Evidence:
    """Eq (9) with the printed signs, against second differences of Φ."""
    setup = cases.tanh_flow(key)
    columns = cases.directions(setup)
    found = parts(setup, columns)
    seen = Place.end_of(simulate(setup, progress=False)).derivatives(columns)[1].sum(axis=0)
    t, n, m = (cases.flat(part) for part in (found.tangent, found.normal, found.mixed))
    return Evidence(error(-t + n - m, seen), error(t + n + m, seen))


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def predict_second(setup: Setup) -> dict[str, Any]:
    """∂²Φ[Σ] and its three parts."""
    found = parts(setup, cases.directions(setup))
    names = ("tangent", "normal", "mixed")
    return {"total": cases.flat(found.total)} | {n: cases.flat(getattr(found, n)) for n in names}


def second(place: Place) -> dict[str, Any]:
    """The same by differences: of all columns, of their tangent and of their normal parts."""
    columns = cases.directions(place.setup)
    normal = place.normal() @ columns
    total, tangent, across = (
        place.derivatives(c)[1].sum(axis=0) for c in (columns, columns - normal, normal)
    )
    return {"total": total, "tangent": tangent, "normal": across, "mixed": total - tangent - across}


EQ9 = pointwise(
    "zeroloss.eq9",
    r"On the manifold $\partial^2\Phi[\Sigma] = -H^+T[P\Sigma P] - P\,T[L_H^{-1}(Q\Sigma Q)] - "
    r"2P\,T[H^+Q\Sigma P]$ with $T[M] = \sum_{ij}\partial_i\partial_j\nabla L\,M_{ij}$.",
    "the second derivative of the limit map",
    predict_second,
    second,
    errata=(
        Erratum(
            "Lemma 4.5, Eq (9)",
            r"$+H^+T[\Sigma_\parallel] - P\,T[L_H^{-1}(\Sigma_\perp)] + "
            r"2P\,T[H^+\Sigma_{\perp\parallel}]$",
            "all three signs are minus",
            "numeric",
            printed_9,
            "Signs as we read them in the text.",
        ),
    ),
)


THEOREMS = (LEMMA4_3, DEF4_4, EQ9, LEMMAC_2)
