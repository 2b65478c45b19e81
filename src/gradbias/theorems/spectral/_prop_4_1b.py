"""Proposition 4.1 (b): how fast columns grow and become parallel, almost surely and in mean."""

import numpy as np
import xarray as xr

from ... import observe
from ...theory import moment_exponent, noise_only_lyapunov
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Hypothesis,
    Measurements,
    Setup,
    Theorem,
    equals,
    kind,
)
from . import _instances_noise as cases
from . import _odd_parts as odd
from ._errata_noise import jensen
from ._paper import OF_NOISE
from ._prop_4_1 import IDENTITY, KINDS, SIZES, D, isotropic, layers, members, time_of

BURN = 1 / 10
TIMES = 40.0
LASTING = 2500
LATER = 36  # parts of the run after the burn-in
EARLY = 12  # of them for a mean that few members carry later
POWER = 0.5


def lasting_members(setup: Setup) -> Ensemble:
    """Saved after a tenth of the time, when the directions have forgotten the start."""
    later = setup.replace(save_at=_after_burn(setup))
    return members(later, LASTING, rates=observe.running(odd.rates))


def _after_burn(setup: Setup) -> np.ndarray:
    last = float(np.max(cases.steps_of(setup)))
    return np.concatenate([[0.0], np.round(np.linspace(BURN * last, last, LATER + 1))])


def predict_grown(setup: Setup) -> Claims:
    """The rates λ1, λ2 − λ1 and that of E|(w, a)|^½, times what is left of the time."""
    d = setup.problem.d
    exponents = noise_only_lyapunov(d)
    at = cases.kick(setup) ** 2 * _after_burn(setup)[1:]
    span = at[-1] - at[0]
    early = at[EARLY] - at[0]
    return {
        "growth": equals(span * exponents[0], scale=span),
        "angle": equals(span * (exponents[1] - exponents[0]), scale=span),
        "power": equals(early * moment_exponent(d, 1, POWER), scale=early),
    }


def measure_grown(run: xr.Dataset) -> Measurements:
    """From the first column and its plane with the second."""
    sizes = []
    planes = []
    for when in (1, 1 + EARLY, -1):
        W, a = layers(run, when)
        S = np.concatenate([W, a[:, None]], axis=1)
        sizes.append(np.log(np.linalg.norm(S[:, :, 0], axis=1)))
        planes.append(_log_plane(S))
    growth = sizes[-1] - sizes[0]
    plane = planes[-1] - planes[0]
    before, after = (np.exp(POWER * x) for x in sizes[:2])
    # The log of the ratio of the means, to first order in each of the members.
    ratio = np.log(after.mean() / before.mean()) + after / after.mean() - before / before.mean()
    sums = run["rates"].values[:, 2:] - run["rates"].values[:, 1:2]
    whole = sums[:, -1, : 2 * odd.POWERS]
    parts = odd.weighted(sums[:, :EARLY, 2 * odd.POWERS :]).reshape(len(sums), -1)
    return {
        "growth": odd.mean(growth, whole),
        "angle": odd.mean(plane - 2 * growth, whole),
        "power": odd.mean(ratio, parts),
    }


def _log_plane(S: np.ndarray) -> np.ndarray:
    """The log of the area that the first two columns span, by QR: they are nearly parallel."""
    R = np.linalg.qr(S[:, :, :2], mode="r")
    return np.sum(np.log(np.abs(np.diagonal(R, axis1=1, axis2=2))), axis=1)


def lasting(key: int, X: np.ndarray | None = None) -> Setup:
    """Long enough for the exponents, with steps as short as they need."""
    d = SIZES[key % 2] if X is None else len(X)
    return isotropic(key, TIMES * D / d, int(TIMES * D / SHORT), X)


SHORT = 0.003  # of the step times d: Euler's exponents are then good to half a thousandth
EXPONENTS = [
    kind("there are two inputs or more", lambda s: s.problem.d > 1),
    kind("there are two hidden units or more", lambda s: np.shape(s.params["W1"])[1] > 1),
    Hypothesis("steps are short", lambda s: cases.kick(s) ** 2 * s.problem.d, 1.01 * SHORT),
    Hypothesis("the run is long", lambda s: 1 / max(1e-300, time_of(s)), 0.1),
]

PROP_B = Theorem(
    "spectral.noise.prop4.1b",
    r"For $A = I$ a column $(w_j,a_j)$ grows as $e^{\lambda_1t}$ almost surely, $E|(w_j,a_j)|^q$ "
    r"as $e^{\ell(q)t}$ with $\ell(q) > 0$ for all $q > 0$ and $d \ge 2$, and two columns become "
    r"parallel as $e^{(\lambda_2-\lambda_1)t}$: with $\lambda_1+\ldots+\lambda_p = "
    r"\frac{1}{2}((d-1)E[x^2]-p)$, $x$ of density "
    r"$\propto x^{p-1}\sqrt{1+x^2}^{d-1-p}e^{-(d-1)x^2/2}$.",
    hypotheses=[*KINDS, IDENTITY, *EXPONENTS],
    predict=predict_grown,
    measure=measure_grown,
    tolerance=5e-4,
    instances=lasting,
    controls=[Control("XᵀX is the identity", lambda key: lasting(key, np.diag([1.7, 0.3, 0.1])))],
    runs=lasting_members,
    errata=[
        Erratum(
            "Proposition 4.1 (b), after (D.3)",
            r"$d \ge 5$",
            r"$d \ge 2$ is enough; the proof itself needs $\sqrt d > 1+\sqrt2$, that is $d \ge 6$",
            "unproved",
            quote=r"For $d \geq 5$ and $0 < \alpha < 1$ , we have $c_0 > 0$",
            note="For d = 5 and α = 0.01 the proof's constant c₀ is −0.08, not positive.",
        ),
        Erratum(
            "Proposition 4.1 (b), proof, after (D.3)",
            r"$(\sum_i\|w_i\|^2)^\alpha \ge d^{1-\alpha}\sum_i\|w_i\|^{2\alpha}$ for $0 < "
            r"\alpha < 1$",
            r"$d^{\alpha-1}$",
            "false",
            evidence=jensen,
            bound=True,
            quote=r"\left( \sum_{i=1}^d \|\mathbf{w}_i\|^2 \right)^\alpha \geq d^{1-\alpha} "
            r"\sum_{i=1}^d \|\mathbf{w}_i(t)\|^{2\alpha}",
            note="The proof averages a², the proposition a.",
        ),
        Erratum(
            "Section 4.1",
            "the top singular value grows and all others decay to zero, for d of at least 2",
            r"$\lambda_1 = 0$ for $d = 2$, and $\lambda_2 > 0$ for $d \ge 6$: only ratios decay",
            "false",
            quote=r"the top singular value of $\mathbf{W}$ grows unboundedly, whereas the "
            "remaining singular values decay to 0",
        ),
    ],
    title="noise alone: Lyapunov exponents",
    slow=True,
    paper=OF_NOISE,
)
