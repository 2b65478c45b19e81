"""Proposition 4.1: noise without a gradient grows, and aligns, but not as printed."""

from typing import Any

import numpy as np

from ... import observe
from ..._engine.setup import Setup
from ...theory import commutator_moments, moment_exponent, noise_only_lyapunov, noise_only_moments
from .._claims import equals, measured
from .._erratum import Erratum
from .._hypothesis import Hypothesis, kind
from .._theorem import Control, Ensemble, Theorem
from . import _instances_noise as cases
from ._errata_noise import mean_commutator
from ._instances import draws

D, WIDTH, MEMBERS = 3, 4, 4000
TIME, STEPS = 0.1, 40
RECORD = {"params": observe.params}


def members(setup: Setup) -> Ensemble:
    """Many draws."""

    def build(member: int) -> Setup:
        return setup.replace(key=setup.key * MEMBERS + member, record=RECORD)

    return Ensemble(build, {"member": range(MEMBERS)})


def time_of(setup: Setup) -> float:
    """Of the noise-only process: (lr·2w·δ)² a step."""
    return cases.kick(setup) ** 2 * float(np.max(cases.steps_of(setup)))


def _coarse(setup: Setup) -> float:
    """Euler's moments grow as (1 + κh)^k instead of e^{κt}: less by κ²ht/2, relatively."""
    X, t = np.asarray(cases.data_of(setup).X), time_of(setup)
    kappa = float(np.linalg.norm(X.T @ X))
    return kappa**2 * cases.kick(setup) ** 2 * t


FINE = Hypothesis("steps are short", _coarse, 0.1, True, "O((lr δ)²)")
KINDS = [*cases.HYPOTHESES, cases.ONLY_NOISE]


def _from_identity(setup: Setup) -> float:
    X = np.asarray(cases.data_of(setup).X)
    return float(np.linalg.norm(X.T @ X - np.eye(X.shape[1])))


IDENTITY = Hypothesis("XᵀX is the identity", _from_identity, 1e-9)


def start(setup: Setup) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, W and a."""
    W, a = (np.asarray(setup.params[name]) for name in ("W1", "W2"))
    return np.asarray(cases.data_of(setup).X), W, a[:, 0]


def layers(runs: Any, when: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """W (members, d, width) and a (members, width) at a save."""
    W, a = (runs["run"][f"params_{name}"].values[:, when] for name in ("W1", "W2"))
    return W, a[:, :, 0]


def mean(values: np.ndarray) -> Any:
    """Over the members."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return measured(values.mean(axis=0), standard_error=error)


def largest(values: np.ndarray) -> Any:
    """A claim on every entry, in units of the largest: each has a standard error of its own."""
    return equals(values, scale=np.abs(values).max())


def as_printed(predict: Any) -> Any:
    """A prediction with time counted in lr·δ a step instead of its square."""
    return lambda setup: predict(setup, time_of(setup) / cases.kick(setup))


def _moments(setup: Setup, time: float | None = None) -> dict[str, Any]:
    found = noise_only_moments(*start(setup), time_of(setup) if time is None else time)
    return {"WWt": largest(found.WWt), "a2": float(found.a2)}


def _seen_moments(runs: Any) -> dict[str, Any]:
    W, a = layers(runs)
    return {"WWt": mean(W @ np.swapaxes(W, 1, 2)), "a2": mean(np.sum(a**2, axis=1))}


def general(key: int) -> Setup:
    """Data with different singular values."""
    X = draws(key + 23).standard_normal((D + 1, D))
    X /= np.linalg.norm(X.T @ X) ** 0.5
    return cases.alone(key, X, TIME, STEPS, WIDTH, saves=2)


PROP_A = Theorem(
    "spectral.noise.prop4.1a",
    r"Under $dW = X^\top dB\,a^\top$, $da = W^\top X^\top dB$ the second moments explode: "
    r"$E|a|^2 = |a_0|^2\cosh\kappa t+\frac{1}{\kappa}\mathrm{tr}(AW_0W_0^\top)\sinh\kappa t$ and "
    r"$E[WW^\top] = W_0W_0^\top+A\int E|a|^2$ with $\kappa = \|A\|_F$, $A = X^\top X$; label noise "
    r"that outweighs the gradient is this at $t = (\eta\delta)^2k$.",
    [*KINDS, FINE],
    _moments,
    _seen_moments,
    0.01,
    general,
    [Control("time is (lr δ)² a step", general, as_printed(_moments))],
    runs=members,
    errata=[
        Erratum(
            "Proof of Prop 4.1",
            r"$d\|a_i\|^2$, and $\sqrt n$ for $\sqrt d$",
            r"$d\cdot a_i^2$: the dimension times the square",
            "convention",
        )
    ],
    title="noise alone: second moments explode",
    slow=True,
    **cases.ABOUT,
)


def isotropic(
    key: int, time: float = TIME, steps: int = STEPS, X: Any = None, **more: Any
) -> Setup:
    """X = I."""
    data = np.eye(D) if X is None else X
    return cases.alone(key, data, time, steps, WIDTH, **{"saves": 2, **more})


def _wedges(W: np.ndarray, a: np.ndarray) -> np.ndarray:
    """(z_i ∧ a)_kl, (…, d, width, width)."""
    outer = W[..., :, None] * a[..., None, None, :]
    return outer - np.swapaxes(outer, -1, -2)


def _planes(W: np.ndarray) -> np.ndarray:
    """Σ_{i<j} (z_i ∧ z_j)_kl², (…, width, width)."""
    G = np.swapaxes(W, -1, -2) @ W
    size = np.diagonal(G, axis1=-2, axis2=-1)
    return size[..., :, None] * size[..., None, :] - G**2


def _commutators(setup: Setup, time: float | None = None) -> dict[str, Any]:
    _, W, a = start(setup)
    t = time_of(setup) if time is None else time
    found, signed = commutator_moments(W, a, t), np.exp(-t) * _wedges(W, a)
    return {"mean": largest(signed), "P": largest(found.P), "Q": largest(found.Q)}


def _seen_commutators(runs: Any) -> dict[str, Any]:
    W, a = layers(runs)
    e = _wedges(W, a)
    return {"mean": mean(e), "P": mean(np.sum(e**2, axis=1)), "Q": mean(_planes(W))}


PROP_C = Theorem(
    "spectral.noise.prop4.1c",
    r"For $A = I$ the signed mean of the commutator decays, $E[z_i,a] = [z_i,a](0)e^{-t}$; its "
    r"size does not: $P = E\sum_i[z_i,a]_{kl}^2$ and $Q = \frac{1}{2}E\sum_{ij}[z_i,z_j]_{kl}^2$ "
    r"obey $P' = -2P+2Q$, $Q' = (d-1)P$ and grow as $e^{(\sqrt{2d-1}-1)t}$ for $d \ge 2$.",
    [*KINDS, IDENTITY, FINE],
    _commutators,
    _seen_commutators,
    0.02,
    isotropic,
    [Control("time is (lr δ)² a step", isotropic, as_printed(_commutators))],
    runs=members,
    errata=[
        Erratum(
            "Prop 4.1(c)",
            r"$E|[z_i,a]| = |[z_i(0),a(0)]|e^{-t} \to 0$",
            r"Itô's formula for $|e|$ has a local time at 0: $E|e|$ tends to a constant for $d = 2$"
            r" and grows for $d \ge 3$; what goes to 0 is the angle of $z_i$ and $a$",
            "numeric",
            mean_commutator,
        )
    ],
    title="noise alone: commutators do not vanish",
    slow=True,
    **cases.ABOUT,
)

BURN, TIMES = 1 / 3, 12.0
POWER = 0.5


def lasting_members(setup: Setup) -> Ensemble:
    """Saved after a third of the time, when the directions have forgotten the start."""
    last = float(np.max(cases.steps_of(setup)))
    return members(setup.replace(save_at=[0.0, np.round(BURN * last), last]))


def _grown(setup: Setup) -> dict[str, Any]:
    """The rates λ1, λ2 − λ1 and that of E|(w, a)|^½, times what is left of the time."""
    d, last = setup.problem.d, float(np.max(cases.steps_of(setup)))
    exponents = noise_only_lyapunov(d)
    span = cases.kick(setup) ** 2 * (last - np.round(BURN * last))
    return {
        "growth": equals(span * exponents[0], scale=span),
        "angle": equals(span * (exponents[1] - exponents[0]), scale=span),
        "power": equals(span * moment_exponent(d, 1, POWER), scale=span),
    }


def _seen_growth(runs: Any) -> dict[str, Any]:
    """From the first column and its plane with the second."""
    sizes, planes = [], []
    for when in (1, 2):
        W, a = layers(runs, when)
        S = np.concatenate([W, a[:, None]], axis=1)
        sizes.append(np.log(np.linalg.norm(S[:, :, 0], axis=1)))
        planes.append(_log_plane(S))
    growth, plane = sizes[1] - sizes[0], planes[1] - planes[0]
    powers = [np.exp(POWER * x) for x in sizes]
    errors = [p.std(ddof=1) / np.sqrt(len(p)) / p.mean() for p in powers]
    rise = measured(np.log(powers[1].mean() / powers[0].mean()), 0.0, np.hypot(*errors))
    return {"growth": mean(growth), "angle": mean(plane - 2 * growth), "power": rise}


def _log_plane(S: np.ndarray) -> np.ndarray:
    """The log of the area that the first two columns span, by QR: they are nearly parallel."""
    R = np.linalg.qr(S[:, :, :2], mode="r")
    return np.sum(np.log(np.abs(np.diagonal(R, axis1=1, axis2=2))), axis=1)


def lasting(key: int, X: Any = None) -> Setup:
    """Long enough for the exponents, with steps as short as they need."""
    return isotropic(key, TIMES, int(TIMES * D / SHORT), X)


SHORT = 0.0075  # of the step times d: Euler's exponents are then good to a few thousandths
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
    [*KINDS, IDENTITY, *EXPONENTS],
    _grown,
    _seen_growth,
    0.01,
    lasting,
    [Control("XᵀX is the identity", lambda key: lasting(key, np.diag([1.7, 0.3, 0.1])))],
    runs=lasting_members,
    errata=[
        Erratum(
            "Prop 4.1(b)",
            r"$d \ge 5$",
            r"$d \ge 2$ is enough; the proof itself needs $\sqrt d > 1+\sqrt2$, that is $d \ge 6$",
            "unproved",
            note="For d = 5 and α = 0.01 the proof's constant is −0.0008, not positive.",
        ),
        Erratum(
            "Prop 4.1(b), proof",
            r"$d^{1-\alpha}$ in Jensen's inequality; the moving average of $a$",
            r"$d^{\alpha-1}$; of $a^2$",
            "convention",
        ),
        Erratum(
            "Section 4.1",
            "the top singular value grows and all others decay to zero, for d of at least 2",
            r"$\lambda_1 = 0$ for $d = 2$, and $\lambda_2 > 0$ for $d \ge 6$: only ratios decay",
            "unproved",
        ),
    ],
    title="noise alone: Lyapunov exponents",
    slow=True,
    **cases.ABOUT,
)
