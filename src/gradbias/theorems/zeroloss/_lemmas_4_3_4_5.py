"""Φ and its derivatives at a point: Lemmas 4.3 and 4.5, Definition 4.4, Appendix C."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..._engine.simulate import simulate
from ...theory import manifold
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Evidence,
    Hypothesis,
    Measurements,
    Predict,
    Run,
    Setup,
    Theorem,
    equals,
    setup_of,
)
from . import _instances as cases
from ._oracle import Place
from ._paper import OF_ENDS

STOPPED = 0.3  # a time at which no flow has arrived


def stopped(key: int) -> Setup:
    """The same flow, stopped before it arrives."""
    return cases.tanh_flow(key, time=STOPPED)


def pointwise(
    name: str,
    statement: str,
    title: str,
    predict: Callable[[Setup], Claims],
    measure: Callable[[Place], Measurements],
    tolerance: float = 1e-6,
    extra: Sequence[Hypothesis] = (),
    controls: Sequence[Control] = (Control("the run ends on the manifold", stopped),),
    errata: Sequence[Erratum] = (),
    terms: Mapping[str, Predict] | None = None,
) -> Theorem:
    """A statement about the point where a flow ends; broken by a flow that has not ended."""
    return Theorem(
        name,
        statement,
        hypotheses=[*cases.on_manifold(), *extra],
        predict=predict,
        measure=lambda run: measure(Place.end_of(run)),
        tolerance=tolerance,
        instances=cases.tanh_flow,
        controls=controls,
        errata=errata,
        terms=terms or {},
        paper=OF_ENDS,
        title=title,
    )


def projector(setup: Setup) -> np.ndarray:
    """P at Φ(x0)."""
    x = cases.end(setup).x
    return manifold.tangent_projector(x, residual=cases.residual(setup)).dense()


def curvature(setup: Setup) -> np.ndarray:
    """H = JᵀJ at Φ(x0)."""
    J = cases.jacobian(setup, cases.end(setup).x)
    return J.T @ J


def third(setup: Setup, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """T[a, b] at Φ(x0)."""
    return third_of(setup, (np.outer(a, b) + np.outer(b, a)) / 2)


def third_of(setup: Setup, matrix: np.ndarray) -> np.ndarray:
    """T[M] at Φ(x0)."""
    x = cases.end(setup).x
    return cases.flat(manifold.third_derivative(x, matrix, residual=cases.residual(setup)))


def parts(setup: Setup, columns: np.ndarray) -> manifold.SecondDerivative:
    """∂²Φ[σσᵀ] at Φ(x0), by the part of the noise that causes it."""
    x = cases.end(setup).x
    noise = manifold.Factor(columns)
    return manifold.second_derivative(x, noise, residual=cases.residual(setup))


def measure_projections(place: Place) -> Measurements:
    """∂Φ along three directions, H and what is left of it after ∂Φ on either side."""
    columns = cases.directions(place.setup)
    first = place.derivatives(columns)[0].T
    H = place.hessian()
    return {"derivative": first, "HP": H @ first, "PH": place.derivatives(H @ columns)[0].T}


def predict_projections(setup: Setup) -> Claims:
    """P, and zero twice."""
    columns = cases.directions(setup)
    zero = np.zeros(columns.shape)
    top = float(np.linalg.norm(curvature(setup), 2))
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
    measure_projections,
)


def predict_off_the_manifold(setup: Setup) -> Claims:
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


def measure_off_the_manifold(run: Run) -> Measurements:
    """Φ' and Φ'' along ∇L at the start, by differences."""
    setup = setup_of(run)
    place = Place(setup, setup.params)
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
    hypotheses=cases.on_manifold(),
    predict=predict_off_the_manifold,
    measure=measure_off_the_manifold,
    tolerance=1e-6,
    instances=cases.tanh_flow,
    controls=[Control("the run ends on the manifold", stopped)],
    paper=OF_ENDS,
    slow=True,
    title="the limit map along the gradient",
)


def lyapunov(setup: Setup) -> np.ndarray:
    """L_H⁻¹(QΣQ) in an eigenbasis of H."""
    Q = np.eye(cases.size(setup)) - projector(setup)
    inside = Q @ cases.directions(setup)
    return manifold.lyapunov_inverse(curvature(setup), inside @ inside.T)


def predict_inverse(setup: Setup) -> Claims:
    """In an eigenbasis of H."""
    return {"inverse": lyapunov(setup)}


def measure_inverse(place: Place) -> Measurements:
    """The least solution of HK + KH = S as one linear system."""
    inside = place.normal() @ cases.directions(place.setup)
    H = place.hessian()
    one = np.eye(len(place.x))
    system = np.kron(H, one) + np.kron(one, H)
    inverse = np.linalg.lstsq(system, (inside @ inside.T).ravel(), rcond=1e-9)[0]
    return {"inverse": inverse.reshape(H.shape)}


DEF4_4 = pointwise(
    "zeroloss.def4.4",
    r"$K = L_H^{-1}(S)$ solves $HK + KH = S$; in an eigenbasis of $H$ it is "
    r"$S_{ij}/(\lambda_i+\lambda_j)$.",
    "the inverse of the Lyapunov operator",
    predict_inverse,
    measure_inverse,
)


DIFFERENCES = 1e-7  # what second differences of Φ may be off by, relative


def printed_9(key: int) -> Evidence:
    """Eq (9) with the printed signs, against second differences of Φ."""
    setup = cases.tanh_flow(key)
    columns = cases.directions(setup)
    second = parts(setup, columns)
    truth = Place.end_of(simulate(setup, progress=False)).derivatives(columns)[1].sum(axis=0)
    t, n, m = (cases.flat(part) for part in (second.tangent, second.normal, second.mixed))
    return Evidence(error(-t + n - m, truth), error(t + n + m, truth), DIFFERENCES)


def error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def predict_second(
    setup: Setup, tangent: float = 1.0, normal: float = 1.0, mixed: float = 1.0
) -> Claims:
    """∂²Φ[Σ] and its three parts, each times a factor."""
    second = parts(setup, cases.directions(setup))
    found = {
        "tangent": tangent * cases.flat(second.tangent),
        "normal": normal * cases.flat(second.normal),
        "mixed": mixed * cases.flat(second.mixed),
    }
    return {"total": sum(found.values(), np.zeros(cases.size(setup))), **found}


def total_without(name: str) -> Predict:
    """∂²Φ[Σ] without one of its parts."""
    return lambda setup: {"total": predict_second(setup, **{name: 0.0})["total"]}


def measure_second(place: Place) -> Measurements:
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
    measure_second,
    terms={f"the {name} part": total_without(name) for name in ("tangent", "normal", "mixed")},
    errata=(
        Erratum(
            "Lemma 4.5, Eq (9)",
            r"$+H^+T[\Sigma_\parallel] - P\,T[L_H^{-1}(\Sigma_\perp)] + "
            r"2P\,T[H^+\Sigma_{\perp\parallel}]$",
            "all three signs are minus",
            "misprint",
            evidence=printed_9,
            quote="∂2Φ[∑] =(V2L)S2(VL) [∑∣∣] -∂Φ∂2(VL) [Lv2l(Σ⊥)] +2∂Φ∂2(VL) [(V2L)t∑⊥j∣] . (9)",
            note="Lemma C.4 has both with a minus.",
            predict=lambda setup: predict_second(setup, tangent=-1.0, mixed=-1.0),
        ),
    ),
)


THEOREMS = (LEMMA4_3, DEF4_4, EQ9, LEMMAC_2)
