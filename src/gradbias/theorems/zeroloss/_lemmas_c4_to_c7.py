"""The second derivative of Φ, part by part: Lemmas C.4 to C.7."""

import numpy as np

from ..._engine.simulate import simulate
from ..prelude import Claims, Erratum, Evidence, Measurements, Setup
from . import _instances as cases
from ._lemmas_4_3_4_5 import (
    DIFFERENCES,
    curvature,
    error,
    lyapunov,
    pointwise,
    projector,
    third,
    third_of,
)
from ._oracle import Place


def _pair(setup: Setup, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A tangent vector and any vector."""
    columns = cases.directions(setup)
    return P @ columns[:, 0], columns[:, 1]


def predict_c4(setup: Setup, along: float = 1.0, across: float = 1.0) -> Claims:
    """−P T[v, H⁺u] − H⁺T[v, Pu], each times a factor."""
    P = projector(setup)
    inverse = np.linalg.pinv(curvature(setup), rcond=1e-10)
    v, u = _pair(setup, P)
    bent = along * P @ third(setup, v, inverse @ u)
    bent = bent + across * inverse @ third(setup, v, P @ u)
    return {"bend": -bent}


def measure_c4(place: Place) -> Measurements:
    """∂²Φ[v, u] by polarisation."""
    v, u = _pair(place.setup, np.eye(len(place.x)) - place.normal())
    plus, minus = place.derivatives(np.stack([v + u, v - u], axis=1))[1]
    return {"bend": (plus - minus) / 4}


LEMMAC_4 = pointwise(
    "zeroloss.lemmaC.4",
    r"For a tangent $v$ and any $u$, $\partial^2\Phi[v,u] = -P\,T[v,H^+u] - H^+T[v,Pu]$.",
    "second derivative along the manifold",
    predict_c4,
    measure_c4,
    terms={
        "the part along the manifold": lambda setup: predict_c4(setup, along=0.0),
        "the part across the manifold": lambda setup: predict_c4(setup, across=0.0),
    },
)


def predict_c5(setup: Setup) -> Claims:
    """−P T[H⁺uuᵀ]."""
    P = projector(setup)
    inverse = np.linalg.pinv(curvature(setup), rcond=1e-10)
    u = cases.directions(setup)[:, 0]
    u = u - P @ u
    return {"bend": -P @ third(setup, inverse @ u, u)}


def measure_c5(place: Place) -> Measurements:
    """∂²Φ[uuᵀ + H⁺uuᵀH]."""
    u = place.normal() @ cases.directions(place.setup)[:, 0]
    H = place.hessian()
    a = np.linalg.pinv(H, rcond=1e-8) @ u
    b = H @ u
    pure, plus, minus = place.derivatives(np.stack([u, a + b, a - b], axis=1))[1]
    return {"bend": pure + (plus - minus) / 4}


LEMMAC_5 = pointwise(
    "zeroloss.lemmaC.5",
    r"For a normal $u$, $\partial^2\Phi[uu^\top + H^+uu^\top H] = -P\,T[H^+uu^\top]$.",
    "a second derivative across the manifold",
    predict_c5,
    measure_c5,
)


def bend_c6(setup: Setup) -> np.ndarray:
    """−P T[L_H⁻¹(QΣQ)]."""
    return -projector(setup) @ third_of(setup, lyapunov(setup))


def predict_c6(setup: Setup) -> Claims:
    """−P T[L_H⁻¹(QΣQ)], from the dense inverse."""
    return {"bend": bend_c6(setup)}


def differences_c6(place: Place) -> np.ndarray:
    """∂²Φ[QΣQ] by differences."""
    normal = place.normal() @ cases.directions(place.setup)
    return place.derivatives(normal)[1].sum(axis=0)


def measure_c6(place: Place) -> Measurements:
    """The same by differences."""
    return {"bend": differences_c6(place)}


def printed_c6(key: int) -> Evidence:
    """The last lines of the proof, with the sign that they have and with the lemma's."""
    setup = cases.tanh_flow(key)
    bend = bend_c6(setup)
    truth = differences_c6(Place.end_of(simulate(setup, progress=False)))
    return Evidence(error(-bend, truth), error(bend, truth), DIFFERENCES)


LEMMAC_6 = pointwise(
    "zeroloss.lemmaC.6",
    r"Noise across the manifold moves the limit along it: $\partial^2\Phi[Q\Sigma Q] = "
    r"-P\,T[L_H^{-1}(Q\Sigma Q)]$.",
    "second derivative across the manifold",
    predict_c6,
    measure_c6,
    errata=(
        Erratum(
            "Lemma C.6, proof",
            r"$\partial^2\Phi[L_H(B+B^\top)] = P\,T[B+B^\top]$",
            "with a minus, as in Lemma C.5 and in (31)",
            "misprint",
            evidence=printed_c6,
            quote="∂2Φ(x)[LsL(X)(B+B>)] = ∂ 2Φ(x)[A+A>] = 2∂Φ(x)∂ 2(VL)(x)[B ] = ∂ "
            "Φ(x)∂2(VL)(x)[B+B>].",
            predict=lambda setup: {"bend": -bend_c6(setup)},
        ),
    ),
)


def bend_c7(setup: Setup) -> np.ndarray:
    """−H⁺T[v, v]."""
    v, _ = _pair(setup, projector(setup))
    return -np.linalg.pinv(curvature(setup), rcond=1e-10) @ third(setup, v, v)


def predict_c7(setup: Setup) -> Claims:
    """−H⁺T[v, v]."""
    return {"bend": bend_c7(setup)}


def measure_c7(place: Place) -> Measurements:
    """Qγ'' of a curve that Gauss–Newton steps draw: another one than gradient flow would."""
    Q = place.normal()
    v, _ = _pair(place.setup, np.eye(len(Q)) - Q)
    return {"bend": Q @ place.derivatives(v[:, None], place.retract)[1][0]}


def printed_c7(key: int) -> Evidence:
    """−Pγ'' instead of −(I − P)γ'', for a curve that does not run straight along the manifold."""
    setup = cases.tanh_flow(key)
    place = Place.end_of(simulate(setup, progress=False))
    Q = place.normal()
    v, w = _pair(setup, np.eye(len(Q)) - Q)
    w = w - Q @ w

    def curve(points: np.ndarray) -> np.ndarray:
        s = (points - place.x) @ v / (v @ v)
        return place.retract(points + np.square(s)[:, None] * w)

    bend = place.derivatives(v[:, None], curve)[1][0]
    truth = bend_c7(setup)
    return Evidence(error(bend - Q @ bend, truth), error(Q @ bend, truth), DIFFERENCES)


LEMMAC_7 = pointwise(
    "zeroloss.lemmaC.7",
    r"For a curve $\gamma$ on the manifold with $\gamma'(0) = v$, $H^+T[v,v] = "
    r"-(I-P)\gamma''(0)$: it depends on the manifold alone, not on the loss.",
    "curvature of the manifold",
    predict_c7,
    measure_c7,
    errata=(
        Erratum(
            "Lemma C.7, proof",
            r"$H^+T[v,v] = -\partial\Phi\,\gamma''(0)$, the second fundamental form",
            r"$H^+T[v,v] = -(I-\partial\Phi)\gamma''(0)$",
            "false",
            evidence=printed_c7,
            quote="∂Φ(x)d-v2t)l C is indeed the second fundamental form for V at x",
            note="The lemma itself, that two losses with one manifold agree, is true.",
        ),
    ),
)

THEOREMS = (LEMMAC_4, LEMMAC_5, LEMMAC_6, LEMMAC_7)
