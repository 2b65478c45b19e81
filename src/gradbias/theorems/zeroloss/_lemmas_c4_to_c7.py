"""The second derivative of Φ, part by part: Lemmas C.4 to C.7."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ..._engine.simulate import simulate
from ...theory import manifold
from .._erratum import Erratum, Evidence
from . import _instances as cases
from ._lemmas_4_3_4_5 import curvature, error, lyapunov, pointwise, projector, third
from ._oracle import Place


def _pair(setup: Setup, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A tangent vector and any vector."""
    columns = cases.directions(setup)
    return P @ columns[:, 0], columns[:, 1]


def predict_c4(setup: Setup) -> dict[str, Any]:
    """−P T[v, H⁺u] − H⁺T[v, Pu]."""
    P, inverse = projector(setup), np.linalg.pinv(curvature(setup), rcond=1e-10)
    v, u = _pair(setup, P)
    bent = P @ third(setup, v, inverse @ u) + inverse @ third(setup, v, P @ u)
    return {"bend": -bent}


def c4(place: Place) -> dict[str, Any]:
    """∂²Φ[v, u] by polarisation."""
    v, u = _pair(place.setup, np.eye(len(place.x)) - place.normal())
    plus, minus = place.derivatives(np.stack([v + u, v - u], axis=1))[1]
    return {"bend": (plus - minus) / 4}


LEMMAC_4 = pointwise(
    "zeroloss.lemmaC.4",
    r"For a tangent $v$ and any $u$, $\partial^2\Phi[v,u] = -P\,T[v,H^+u] - H^+T[v,Pu]$.",
    "second derivative along the manifold",
    predict_c4,
    c4,
)


def predict_c5(setup: Setup) -> dict[str, Any]:
    """−P T[H⁺uuᵀ]."""
    P, inverse = projector(setup), np.linalg.pinv(curvature(setup), rcond=1e-10)
    u = cases.directions(setup)[:, 0]
    u = u - P @ u
    return {"bend": -P @ third(setup, inverse @ u, u)}


def c5(place: Place) -> dict[str, Any]:
    """∂²Φ[uuᵀ + H⁺uuᵀH]."""
    u = place.normal() @ cases.directions(place.setup)[:, 0]
    H = place.hessian()
    a, b = np.linalg.pinv(H, rcond=1e-8) @ u, H @ u
    own, plus, minus = place.derivatives(np.stack([u, a + b, a - b], axis=1))[1]
    return {"bend": own + (plus - minus) / 4}


LEMMAC_5 = pointwise(
    "zeroloss.lemmaC.5",
    r"For a normal $u$, $\partial^2\Phi[uu^\top + H^+uu^\top H] = -P\,T[H^+uu^\top]$.",
    "a second derivative across the manifold",
    predict_c5,
    c5,
)


def predict_c6(setup: Setup) -> dict[str, Any]:
    """−P T[L_H⁻¹(QΣQ)], from the dense inverse."""
    x, kw = cases.at_end(setup)
    K = lyapunov(setup)["inverse"]
    return {"bend": -projector(setup) @ cases.flat(manifold.third_derivative(x, K, **kw))}


def c6(place: Place) -> dict[str, Any]:
    """∂²Φ[QΣQ] by differences."""
    normal = place.normal() @ cases.directions(place.setup)
    return {"bend": place.derivatives(normal)[1].sum(axis=0)}


LEMMAC_6 = pointwise(
    "zeroloss.lemmaC.6",
    r"Noise across the manifold moves the limit along it: $\partial^2\Phi[Q\Sigma Q] = "
    r"-P\,T[L_H^{-1}(Q\Sigma Q)]$.",
    "second derivative across the manifold",
    predict_c6,
    c6,
    errata=(
        Erratum(
            "proof of Lemma C.6",
            r"$\partial^2\Phi[\Sigma_\perp] = P\,T[L_H^{-1}(\Sigma_\perp)]$ in the last lines",
            r"with a minus, as the lemma says",
            "numeric",
            lambda key: _sign_c6(key),
        ),
    ),
)


def _sign_c6(key: int) -> Evidence:
    setup = cases.tanh_flow(key)
    told = predict_c6(setup)["bend"]
    seen = c6(Place.end_of(simulate(setup, progress=False)))["bend"]
    return Evidence(error(-told, seen), error(told, seen))


def predict_c7(setup: Setup) -> dict[str, Any]:
    """−H⁺T[v, v]."""
    v, _ = _pair(setup, projector(setup))
    return {"bend": -np.linalg.pinv(curvature(setup), rcond=1e-10) @ third(setup, v, v)}


def c7(place: Place) -> dict[str, Any]:
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
    told = predict_c7(setup)["bend"]
    return Evidence(error(bend - Q @ bend, told), error(Q @ bend, told))


LEMMAC_7 = pointwise(
    "zeroloss.lemmaC.7",
    r"For a curve $\gamma$ on the manifold with $\gamma'(0) = v$, $H^+T[v,v] = "
    r"-(I-P)\gamma''(0)$: it depends on the manifold alone, not on the loss.",
    "curvature of the manifold",
    predict_c7,
    c7,
    errata=(
        Erratum(
            "Lemma C.7",
            r"$H^+T[v,v] = -\partial\Phi\,\gamma''(0)$",
            r"$H^+T[v,v] = -(I-\partial\Phi)\gamma''(0)$",
            "numeric",
            printed_c7,
        ),
    ),
)

THEOREMS = (LEMMAC_4, LEMMAC_5, LEMMAC_6, LEMMAC_7)
