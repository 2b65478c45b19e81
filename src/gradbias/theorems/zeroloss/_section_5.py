"""The manifold's dimension, and the drift that particular noise makes: Section 5."""

import numpy as np

from ..._engine.simulate import simulate
from ...noise import LabelNoise
from ...numerics.precision import host
from ...numerics.types import PyTree
from ...theory import manifold
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Evidence,
    Hypothesis,
    Measurements,
    Predict,
    Setup,
    common,
)
from . import _instances as cases
from ._lemmas_4_3_4_5 import DIFFERENCES, error, pointwise, projector, third_of
from ._oracle import Place

STD = 0.8
BATCH = 2
NOISE = LabelNoise(STD, BATCH)
FLAT = 1e-7  # of the largest: eigenvalues of a Hessian below this are zero


def predict_dimension(setup: Setup) -> Claims:
    """D − rank J at Φ(x0); the same around it."""
    J = cases.jacobian(setup, cases.end(setup).x)
    return {"dimension": np.full(4, len(J.T) - float(len(J)))}


def measure_dimension(place: Place) -> Measurements:
    """Flat directions of the Hessian at the end of the run, and at three points around it."""
    columns = 0.2 * cases.directions(place.setup)
    points = [place.x, *place.phi(place.x + columns.T)]
    spectra = [np.linalg.eigvalsh(place.hessian(x)) for x in points]
    return {"dimension": np.array([float(np.sum(s < FLAT * s[-1])) for s in spectra])}


def independent() -> Hypothesis:
    """The gradients of all outputs are independent: the tangent kernel has full rank."""

    def least(setup: Setup) -> float:
        s = cases.spectrum(setup)
        problem = common.regression(setup)
        short = len(s) < problem.n * problem.k
        return np.inf if short or s[-1] == 0 else 1e-6 * s[0] / s[-1]

    return Hypothesis("the gradients of the outputs are independent", least, 1.0)


DIMENSION = pointwise(
    "zeroloss.dimension",
    r"Where the gradients $\nabla f_i$ are independent, the manifold of minimisers has the "
    r"dimension $D - n$, and so has the kernel of $H$ at all of its points nearby.",
    "dimension of the manifold",
    predict_dimension,
    measure_dimension,
    tolerance=0.0,
    extra=[independent()],
    controls=[Control("the gradients are independent", lambda key: cases.tanh_flow(key, True))],
)


def isotropic_drift(setup: Setup) -> manifold.IsotropicDrift:
    """The drift for Σ = I at Φ(x0)."""
    return manifold.isotropic_drift(cases.end(setup).x, residual=cases.residual(setup))


def predict_isotropic(setup: Setup) -> Claims:
    """The drift for Σ = I, and the part of it along the manifold."""
    drift = isotropic_drift(setup)
    return {"drift": np.asarray(drift), "tangent": cases.flat(drift.regulariser)}


def isotropic_with(curvature: float, tangent: float) -> Predict:
    """The drift for Σ = I with a factor for each of its terms."""

    def predict(setup: Setup) -> Claims:
        drift = isotropic_drift(setup)
        pull = tangent * cases.flat(drift.regulariser)
        return {"drift": curvature * cases.flat(drift.curvature) + pull}

    return predict


def differences_isotropic(place: Place) -> np.ndarray:
    """½∂²Φ[I] by differences."""
    return place.derivatives(np.eye(len(place.x)))[1].sum(axis=0) / 2


def measure_isotropic(place: Place) -> Measurements:
    """By differences; the tangent part as the slope of ln|H|₊ along the manifold."""
    return {"drift": differences_isotropic(place), "tangent": -_log_slope(place) / 4}


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
    """Eq (11) with + ½H⁺T[P]."""
    setup = cases.tanh_flow(key)
    drift = isotropic_drift(setup)
    truth = differences_isotropic(Place.end_of(simulate(setup, progress=False)))
    printed = -cases.flat(drift.curvature) + cases.flat(drift.regulariser)
    return Evidence(error(printed, truth), error(np.asarray(drift), truth), DIFFERENCES)


COR5_1 = pointwise(
    "zeroloss.cor5.1",
    r"For isotropic noise, $\Sigma = I$, the limit is $dY = P\,dW - \frac{1}{2}H^+T[P]\,dt - "
    r"\frac{1}{4}P\nabla\ln|H|_+\,dt$: Brownian motion on the manifold and a pull towards a small "
    r"pseudo-determinant $|H|_+$.",
    "isotropic noise",
    predict_isotropic,
    measure_isotropic,
    terms={
        "the curvature of the manifold": isotropic_with(0.0, 1.0),
        "the pull along the manifold": isotropic_with(1.0, 0.0),
    },
    errata=(
        Erratum(
            "Corollary 5.1, Eq (11)",
            r"$+\frac{1}{2}H^+T[P]$",
            r"$-\frac{1}{2}H^+T[P]$",
            "misprint",
            evidence=printed_11,
            quote="dY(t) = ∂Φ(Y)dW + 1 V2L(Y)t∂2(VL)(Y)[∂Φ(Y)] dt — 1 ∂Φ(Y)V(ln ∣V2L(Y)∣ + )dt "
            "(11)",
            predict=isotropic_with(-1.0, 1.0),
            note="The sign of Eq (9) and (10); Lemma C.4 has it right.",
        ),
        Erratum(
            "Corollary 5.1, Eq (11), coefficients",
            "1 before both terms of the drift",
            r"$\frac{1}{2}$ and $\frac{1}{4}$",
            "reading",
            quote="— 1 ∂Φ(Y)V(ln ∣V2L(Y)∣ + )dt (11)",
            note="Both fractions lost their parts on the way to the text: check against the PDF.",
        ),
        Erratum(
            "Corollary 5.1, restated",
            "$|H|_+$ is the sum of the logarithms of the non-zero eigenvalues",
            "their product; the logarithm of it is that sum",
            "false",
            quote="also equal to the sum of log of non-zero eigenvalue values of V2L(Y)",
            note="The limit before it has it right.",
        ),
    ),
)


def predict_covariance(setup: Setup) -> Claims:
    """c·H at Φ(x0), c = δ²/b."""
    J = cases.jacobian(setup, cases.end(setup).x)
    c = manifold.label_noise_constant(STD, BATCH, problem=common.regression(setup))
    return {"covariance": c * J.T @ J}


def measure_covariance(place: Place) -> Measurements:
    """The covariance of the steps that label noise makes, from the law of the noise."""
    setup = place.setup
    return {"covariance": NOISE.covariance(setup.problem, setup.net, place.like)}


def fits() -> Hypothesis:
    """Gradient flow fits the labels: c·H is the noise of labels alone."""

    def left(setup: Setup) -> float:
        at_end, at_start = (_square(setup, x) for x in (cases.end(setup).x, setup.params))
        return at_end / at_start if at_start > 0 else 0.0

    return Hypothesis("the flow fits the labels", left, common.FITS)


@host
def _square(setup: Setup, x: PyTree) -> float:
    return float(np.sum(np.square(cases.residual(setup)(x))))


EQ12 = pointwise(
    "zeroloss.eq12",
    r"Where the labels are fitted, label noise of standard deviation $\delta$ in batches of $b$ "
    r"has $\Sigma = cH$ with $c = \delta^2/b$, for $L = \frac{1}{2n}\sum(f_i-y_i)^2$.",
    "covariance of label noise",
    predict_covariance,
    measure_covariance,
    tolerance=1e-8,
    extra=[fits()],
)


def predict_label_noise(setup: Setup) -> Claims:
    """−(c/4)P∇‖J‖²."""
    x = cases.end(setup).x
    drift = manifold.label_noise_drift(x, NOISE, residual=cases.residual(setup))
    return {"drift": cases.flat(drift)}


def measure_label_noise(place: Place) -> Measurements:
    """½∂²Φ[cH] by differences, c = δ²/b for this weight."""
    J = place.residuals(place.x[None])[1][0]
    problem = common.regression(place.setup)
    c = 2 * float(problem.weight) * problem.n * STD**2 / BATCH
    return {"drift": c * place.derivatives(J.T)[1].sum(axis=0) / 2}


def without_projection(key: int) -> Evidence:
    """The proof's 2T[L⁻¹(H)] = ∇tr H, without and with P."""
    setup = cases.tanh_flow(key)
    P = projector(setup)
    Q = np.eye(len(P)) - P
    T = third_of(setup, (Q + Q.T) / 2)
    trace = Place(setup, cases.end(setup).x).trace_gradient()
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
    measure_label_noise,
    errata=(
        Erratum(
            "Corollary 5.2, proof, (32)",
            r"$2T[L_H^{-1}(H)] = \nabla\mathrm{tr} H$, by (32) for any $v \in R^D$",
            r"$2P\,T[L_H^{-1}(H)] = P\,\nabla\mathrm{tr} H$: (32) holds for tangent $v$",
            "false",
            evidence=without_projection,
            quote="Note that for any V ∈ RD, v>V tr[V2L] = 〈ID, ∂2(VL)[v] = 〈ID - ∂Φ, "
            "∂2(VL)[v], (32)",
            note="The corollary itself, with its factor ¼, is right.",
        ),
    ),
)

THEOREMS = (DIMENSION, COR5_1, EQ12, COR5_2)
