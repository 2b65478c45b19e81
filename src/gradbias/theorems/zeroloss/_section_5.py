"""The manifold's dimension, and the drift that particular noise makes: Section 5."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ..._engine.simulate import simulate
from ...noise import LabelNoise
from ...numerics.precision import host
from ...theory import manifold
from .. import _shared_hypotheses as common
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis
from .._theorem import Control
from . import _instances as cases
from ._lemmas_4_3_4_5 import pointwise, projector
from ._oracle import Place

STD, BATCH = 0.8, 2
FLAT = 1e-7  # of the largest: eigenvalues of a Hessian below this are zero


def dimension(setup: Setup) -> dict[str, Any]:
    """D − rank J at Φ(x0); the same around it."""
    J = cases.jacobian(setup, cases.end(setup).x)
    return {"dimension": np.full(4, len(J.T) - float(len(J)))}


def flat_directions(place: Place) -> dict[str, Any]:
    """Flat directions of the Hessian at the end of the run, and at three points around it."""
    columns = 0.2 * cases.directions(place.setup)
    points = [place.x, *place.phi(place.x + columns.T)]
    spectra = [np.linalg.eigvalsh(place.hessian(x)) for x in points]
    return {"dimension": np.array([float(np.sum(s < FLAT * s[-1])) for s in spectra])}


def independent() -> Hypothesis:
    """The gradients of all outputs are independent: the tangent kernel has full rank."""

    def least(setup: Setup) -> float:
        s = cases.spectrum(setup)
        short = len(s) < setup.problem.n * setup.problem.k  # pyright: ignore[reportAttributeAccessIssue]
        return np.inf if short or s[-1] == 0 else 1e-6 * s[0] / s[-1]

    return Hypothesis("the gradients of the outputs are independent", least, 1.0)


DIMENSION = pointwise(
    "zeroloss.dimension",
    r"Where the gradients $\nabla f_i$ are independent, the manifold of minimisers has the "
    r"dimension $D - n$, and so has the kernel of $H$ at all of its points nearby.",
    "dimension of the manifold",
    dimension,
    flat_directions,
    0.0,
    extra=[independent()],
    controls=[Control("the gradients are independent", lambda key: cases.tanh_flow(key, True))],
)


def predict_isotropic(setup: Setup) -> dict[str, Any]:
    """The drift for Σ = I, and the part of it along the manifold."""
    x, kw = cases.at_end(setup)
    found = manifold.isotropic_drift(x, **kw)
    return {"drift": np.asarray(found), "tangent": cases.flat(found.regulariser)}


def isotropic(place: Place) -> dict[str, Any]:
    """½∂²Φ[I] by differences; its tangent part as the slope of ln|H|₊ along the manifold."""
    second = place.derivatives(np.eye(len(place.x)))[1].sum(axis=0) / 2
    return {"drift": second, "tangent": -_log_slope(place) / 4}


def _log_slope(place: Place) -> np.ndarray:
    """P∇ln|H|₊ by differences of the non-zero eigenvalues of JJᵀ along the manifold."""
    Q = place.normal()
    rank = round(np.trace(Q))
    tangent = np.linalg.svd(np.eye(len(Q)) - Q)[0][:, : len(Q) - rank]

    def logs(points: np.ndarray) -> np.ndarray:
        J = place.residuals(place.retract(points))[1]
        values = np.linalg.svd(J, compute_uv=False)[:, :rank]
        return 2 * np.sum(np.log(values), axis=1, keepdims=True)

    return tangent @ place.derivatives(tangent, logs)[0][:, 0]


def printed_11(key: int) -> Evidence:
    """Eq (11) with + ½H⁺T[P] and − ½P∇ln|H|₊."""
    setup = cases.tanh_flow(key)
    x, kw = cases.at_end(setup)
    found = manifold.isotropic_drift(x, **kw)
    seen = isotropic(Place.end_of(simulate(setup, progress=False)))["drift"]
    printed = -cases.flat(found.curvature) + 2 * cases.flat(found.regulariser)
    size = float(np.linalg.norm(seen))
    return Evidence(
        float(np.linalg.norm(printed - seen)) / size,
        float(np.linalg.norm(np.asarray(found) - seen)) / size,
    )


COR5_1 = pointwise(
    "zeroloss.cor5.1",
    r"For isotropic noise, $\Sigma = I$, the limit is $dY = P\,dW - \frac{1}{2}H^+T[P]\,dt - "
    r"\frac{1}{4}P\nabla\ln|H|_+\,dt$: Brownian motion on the manifold and a pull towards a small "
    r"pseudo-determinant $|H|_+$.",
    "isotropic noise",
    predict_isotropic,
    isotropic,
    errata=(
        Erratum(
            "Corollary 5.1, Eq (11)",
            r"$+\frac{1}{2}H^+T[P] - \frac{1}{2}P\nabla\ln|H|_+$",
            r"$-\frac{1}{2}H^+T[P] - \frac{1}{4}P\nabla\ln|H|_+$",
            "numeric",
            printed_11,
            "As we read it. |H|₊ is the product of the non-zero eigenvalues, not the sum of logs.",
        ),
    ),
)


def predict_covariance(setup: Setup) -> dict[str, Any]:
    """c·H at Φ(x0), c = δ²/b."""
    J = cases.jacobian(setup, cases.end(setup).x)
    problem: Any = setup.problem
    c = manifold.label_noise_constant(STD, BATCH, problem=problem)
    return {"covariance": c * J.T @ J}


def covariance(place: Place) -> dict[str, Any]:
    """The covariance of the steps that label noise makes, from the law of the noise."""
    found = LabelNoise(STD, BATCH).covariance(place.setup.problem, place.setup.net, place.like)
    return {"covariance": found}


def fits() -> Hypothesis:
    """Gradient flow fits the labels: c·H is the noise of labels alone."""

    def left(setup: Setup) -> float:
        at_end, at_start = (_square(setup, x) for x in (cases.end(setup).x, setup.params))
        return at_end / at_start if at_start > 0 else 0.0

    return Hypothesis("the flow fits the labels", left, common.FITS)


@host
def _square(setup: Setup, x: Any) -> float:
    return float(np.sum(np.square(cases.residual(setup)(x))))


EQ12 = pointwise(
    "zeroloss.eq12",
    r"Where the labels are fitted, label noise of standard deviation $\delta$ in batches of $b$ "
    r"has $\Sigma = cH$ with $c = \delta^2/b$, for $L = \frac{1}{2n}\sum(f_i-y_i)^2$.",
    "covariance of label noise",
    predict_covariance,
    covariance,
    1e-8,
    extra=[fits()],
)


def predict_label_noise(setup: Setup) -> dict[str, Any]:
    """−(c/4)P∇‖J‖²."""
    x, kw = cases.at_end(setup)
    return {"drift": cases.flat(manifold.label_noise_drift(x, LabelNoise(STD, BATCH), **kw))}


def label_noise(place: Place) -> dict[str, Any]:
    """½∂²Φ[cH] by differences, c = δ²/b for this weight."""
    J = place.residuals(place.x[None])[1][0]
    problem: Any = place.setup.problem
    c = 2 * float(problem.weight) * problem.n * STD**2 / BATCH
    return {"drift": c * place.derivatives(J.T)[1].sum(axis=0) / 2}


def without_projection(key: int) -> Evidence:
    """The proof's 2T[L⁻¹(H)] = ∇tr H, without and with P."""
    setup = cases.tanh_flow(key)
    x, kw = cases.at_end(setup)
    P = projector(setup)
    Q = np.eye(len(P)) - P
    T = cases.flat(manifold.third_derivative(x, (Q + Q.T) / 2, **kw))
    trace = Place(setup, x).trace_gradient()
    size = float(np.linalg.norm(trace))
    return Evidence(
        float(np.linalg.norm(T - trace)) / size, float(np.linalg.norm(P @ (T - trace))) / size
    )


COR5_2 = pointwise(
    "zeroloss.cor5.2",
    r"Under label noise, $\Sigma = cH$, the limit is the flow "
    r"$\dot Y = -\frac{c}{4}P\,\nabla\tr H$ on the manifold, without any noise.",
    "drift under label noise",
    predict_label_noise,
    label_noise,
    errata=(
        Erratum(
            "proof of Corollary 5.2, (32)",
            r"$2T[L_H^{-1}(H)] = \nabla\tr H$",
            r"$2P\,T[L_H^{-1}(H)] = P\,\nabla\tr H$",
            "numeric",
            without_projection,
            "The corollary itself, with its factor ¼, is right.",
        ),
    ),
)

THEOREMS = (DIMENSION, COR5_1, EQ12, COR5_2)
