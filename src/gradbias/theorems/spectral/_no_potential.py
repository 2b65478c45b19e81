"""After Lemma C.4: an uneven imbalance leaves no potential of the first layer."""

import numpy as np

from ...dynamics import Flow
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    equals,
    setup_of,
)
from . import _errata as evidence
from . import _instances as cases
from ._facts import PLAIN, start
from ._measurements import path, transposed
from ._paper import PAPER

SIDE = 0.02  # of the parallelogram around which the field is integrated, of ‖Z1‖
NODES = 8  # of Gauss and Legendre on each of its sides


def frame_of(setup: Setup) -> np.ndarray:
    """P with orthonormal rows and W1(0) = √D P up to a rotation of the inputs."""
    return np.linalg.svd(start(setup).W1, full_matrices=False)[2]


def imbalance_of(setup: Setup) -> np.ndarray:
    """D = Z1ᵀZ1 − Z2Z2ᵀ at the start."""
    P = frame_of(setup)
    Z1 = start(setup).W1 @ P.T
    Z2 = P @ start(setup).W2
    return Z1.T @ Z1 - Z2 @ Z2.T


def directions(setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Two directions in which Z1 is moved around."""
    rng = cases.draws(setup.key + 41)
    d = setup.problem.d
    A, B = (x / np.linalg.norm(x) for x in rng.standard_normal((2, d, d)))
    return A, B


def predict_field(setup: Setup, run: Run, even: bool = False, left: bool = False) -> Claims:
    """Z1 − Z1⁻ᵀD along the path, and its curl, by the imbalance of the start.

    Args:
        setup: the net.
        run: its run; Z1 is taken from it.
        even: the mean of D in its place, as if it were 2γI.
        left: D Z1⁻ᵀ, as printed.
    """
    D = imbalance_of(setup)
    if even:
        D = np.trace(D) / len(D) * np.eye(len(D))
    Z1 = path(run).W1 @ frame_of(setup).T
    inverse = transposed(np.linalg.inv(Z1))
    field = Z1 - (D @ inverse if left else inverse @ D)
    size = np.linalg.norm(inverse @ D, axis=(1, 2))
    last = inverse[-1]
    A, B = directions(setup)
    # ⟨B, dF[A]⟩ − ⟨A, dF[B]⟩ with dF[A] = A + Z1⁻ᵀAᵀZ1⁻ᵀD
    forth = last @ A.T @ last @ D
    back = last @ B.T @ last @ D
    curl = float(np.sum(B * forth) - np.sum(A * back))
    scale = float(np.linalg.norm(forth) + np.linalg.norm(back))
    return {
        "field": equals(field, scale=size[:, None, None]),
        "curl": equals(curl, scale=max(abs(curl), 1e-9 * scale)),
    }


def measure_field(run: Run) -> Measurements:
    """(W1⁺)ᵀW2W2ᵀ of the layers, and what its form at the end adds up to around a small loop."""
    setup = setup_of(run)
    P = frame_of(setup)
    layers = path(run)
    Z1 = layers.W1 @ P.T
    Z2 = P @ layers.W2
    field = np.linalg.solve(transposed(Z1), Z2 @ transposed(Z2))
    end = Z1[-1]
    D = end.T @ end - Z2[-1] @ Z2[-1].T
    A, B = directions(setup)
    whole, half = (_around(end, D, A, B, s * float(np.linalg.norm(end))) for s in (SIDE, SIDE / 2))
    return {"field": field, "curl": (4 * half - whole) / 3}


def _around(Z: np.ndarray, D: np.ndarray, A: np.ndarray, B: np.ndarray, side: float) -> float:
    """The integral of Z − Z⁻ᵀD around a parallelogram with this centre, over side²."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    total = 0.0
    for along, across, sign in ((A, B, -1.0), (B, A, 1.0), (A, B, 1.0), (B, A, -1.0)):
        # A below, B to the right, A above backwards, B to the left backwards
        forward = -sign if along is A else sign
        for node, weight in zip(nodes, weights, strict=True):
            at = Z + side / 2 * (node * along + sign * across)
            value = at - np.linalg.solve(at.T, D)
            total += forward * side / 2 * weight * float(np.sum(value * along))
    return total / side**2


def _even(setup: Setup) -> float:
    """How far D is from a multiple of I; small is bad."""
    values = np.linalg.eigvalsh(imbalance_of(setup))
    return float(values[-1] / np.ptp(values)) if np.ptp(values) > 0 else np.inf


def _singular(setup: Setup) -> float:
    s = np.linalg.svd(start(setup).W1, compute_uv=False)
    whole = len(s) == len(start(setup).W1) and s[-1] > 1e-6 * s[0]
    return float(np.linalg.norm(start(setup).W2)) if whole else np.inf


def starts_even(key: int) -> Setup:
    """I_γ: the field is a gradient, and has no curl."""
    return cases.flow(key)


NO_POTENTIAL = Theorem(
    "spectral.no_potential",
    r"Where $Z_1^TZ_1-Z_2Z_2^T = D$ the gradient of a potential of $Z_1$ would have to be "
    r"$Z_1-Z_1^{-T}D$. For $D = 2\gamma I$ it is that of $\frac{1}{2}\|Z_1\|^2-2\gamma\log|\det "
    r"Z_1|$; for a $D$ that is no multiple of $I$ there is none, for this field has the curl "
    r"$\langle B, Z_1^{-T}A^TZ_1^{-T}D\rangle-\langle A, Z_1^{-T}B^TZ_1^{-T}D\rangle \ne 0$.",
    hypotheses=[
        PLAIN,
        Hypothesis("W1 has full rank and W2 is zero at the start", _singular, 0.0),
        Hypothesis("the imbalance is uneven", _even, 50.0),
    ],
    predict=predict_field,
    measure=measure_field,
    tolerance=1e-6,
    instances=cases.anisotropic,
    controls=[
        Control("the imbalance is uneven", starts_even, lambda s, run: _as_uneven(s, run)),
        Control(
            "D is 2γI for a γ of its size",
            cases.anisotropic,
            lambda s, run: predict_field(s, run, even=True),
            formula=True,
        ),
    ],
    given=("path",),
    errata=[
        Erratum(
            "after Lemma C.4",
            r"$\nabla\Psi_1 = Z_1 - D\,Z_1^{-\top}$ for an uneven imbalance $D$",
            r"$\nabla\Psi_1 = Z_1 - Z_1^{-\top}D$",
            "misprint",
            evidence=evidence.uneven_imbalance,
            quote=r"\nabla \Psi_1(\mathbf{Z}_1^\infty) = \mathbf{Z}_1^\infty - D "
            r"(\mathbf{Z}_1^\infty)^{-\top}",
            note="The lines before it, with 2γI for D, have it on the right.",
            predict=lambda s, run: predict_field(s, run, left=True),
        )
    ],
    title="an uneven imbalance has no potential",
    dynamics=(Flow,),
    paper=PAPER,
)


def _as_uneven(setup: Setup, run: Run) -> Claims:
    """A curl as if eigenvalues of D were spread by half of their mean."""
    told = dict(predict_field(setup, run))
    D = imbalance_of(setup)
    D = D @ np.diag(np.linspace(0.5, 1.5, len(D)))
    last = np.linalg.inv(path(run).W1[-1] @ frame_of(setup).T).T
    A, B = directions(setup)
    told["curl"] = float(np.sum(B * (last @ A.T @ last @ D)) - np.sum(A * (last @ B.T @ last @ D)))
    return told
