"""Proposition 4.1: noise without a gradient grows, and aligns, but not as printed."""

from typing import Any

import numpy as np
import xarray as xr

from ... import observe
from ...theory import moment_exponent, noise_only_lyapunov
from ...theory.noise_only import commutator_size
from ..prelude import (
    Claim,
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
from ._errata_noise import jensen, mean_commutator
from ._instances import draws
from ._paper import OF_NOISE

D = 3
SIZES = (D, 5)
WIDTH = 4
MEMBERS = 12_000
TIME = 1.0
STEPS = 1920
FINER = 2 * STEPS  # where what is even in the noise of a step shows
PARTS = 40  # of the run, at the ends of which odd parts are saved
PARAMS = {"params": observe.params}
OF_MOMENTS = {
    "a2": observe.running(odd.square_of_second),
    "seen": observe.running(odd.trace_of_first),
    "WWt": observe.running(odd.square_of_first),
}
OF_WEDGES = {
    "wedge": observe.running(odd.wedge),
    "square": observe.running(odd.square_of_wedge),
    "size": observe.running(odd.size_of_wedge),
}


def members(setup: Setup, count: int = MEMBERS, **record: Any) -> Ensemble:
    """Many draws."""

    def build(member: int) -> Setup:
        return setup.replace(key=setup.key * count + member, record={**PARAMS, **record})

    return Ensemble(build, {"member": range(count)})


def in_parts(setup: Setup, **record: Any) -> Ensemble:
    """Saved at the ends of the parts of the run."""
    last = int(np.max(cases.steps_of(setup)))
    ends = np.unique(np.round(np.linspace(0, last, PARTS + 1)))
    return members(setup.replace(save_at=ends), **record)


def time_of(setup: Setup) -> float:
    """Of the noise-only process: (lr·2w·δ)² a step."""
    return cases.kick(setup) ** 2 * float(np.max(cases.steps_of(setup)))


KINDS = [*cases.HYPOTHESES, cases.ONLY_NOISE]


def _from_identity(setup: Setup) -> float:
    X = np.asarray(cases.data_of(setup).X)
    return float(np.linalg.norm(X.T @ X - np.eye(X.shape[1])))


IDENTITY = Hypothesis("XᵀX is the identity", _from_identity, 1e-9)


def start(setup: Setup) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, W and a."""
    W, a = (np.asarray(setup.params[name]) for name in ("W1", "W2"))
    return np.asarray(cases.data_of(setup).X), W, a[:, 0]


def layers(run: xr.Dataset, when: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """W (members, d, width) and a (members, width) at a save."""
    W, a = (run[f"params_{name}"].values[:, when] for name in ("W1", "W2"))
    return W, a[:, :, 0]


def odd_parts(run: xr.Dataset, name: str) -> np.ndarray:
    """(members, sums, …)."""
    return odd.weighted(run[name].values[:, 1:])


def largest(values: np.ndarray) -> Claim:
    """A claim on every entry, in units of the largest: each has a standard error of its own."""
    return equals(values, scale=np.abs(values).max())


def predict_moments(setup: Setup, strength: float = 1.0, forms: bool = True) -> Claims:
    """Of descent, exactly: cosh κt is ½(1 + κh)^k + ½(1 − κh)^k in k steps of h."""
    X, W, a = start(setup)
    A = X.T @ X
    kappa = float(np.linalg.norm(A))
    seen = float(np.sum((X @ W) ** 2))
    first = float(a @ a)
    h = cases.kick(setup) ** 2 * strength
    k = float(np.max(cases.steps_of(setup)))
    rise, fall = (np.exp(k * np.log1p(sign * kappa * h)) for sign in (1, -1))
    cosh = (rise + fall) / 2
    sinh = (rise - fall) / 2
    if not forms:
        cosh = 1.0
        sinh = kappa * h * k
    area = first * sinh / kappa + seen * (cosh - 1) / kappa**2
    return {
        "WWt": largest(W @ W.T + area * A),
        "a2": first * cosh + seen * sinh / kappa,
    }


def measure_moments(run: xr.Dataset) -> Measurements:
    W, a = layers(run)
    second, first, square = (odd_parts(run, name) for name in ("a2", "seen", "WWt"))
    return {
        "WWt": odd.mean(W @ np.swapaxes(W, 1, 2), square, second, first),
        "a2": odd.mean(np.sum(a**2, axis=1), second, first),
    }


def general(key: int) -> Setup:
    """Data with different singular values, of three or of five inputs."""
    d = SIZES[key % 2]
    X = draws(key + 23).standard_normal((d + 1, d))
    X /= np.linalg.norm(X.T @ X) ** 0.5
    return cases.alone(key, X, TIME, STEPS, WIDTH, saves=2)


PROP_A = Theorem(
    "spectral.noise.prop4.1a",
    r"Under $dW = X^\top dB\,a^\top$, $da = W^\top X^\top dB$ the second moments explode: "
    r"$E|a|^2 = |a_0|^2\cosh\kappa t+\frac{1}{\kappa}\mathrm{tr}(AW_0W_0^\top)\sinh\kappa t$ and "
    r"$E[WW^\top] = W_0W_0^\top+A\int E|a|^2$ with $\kappa = \|A\|_F$, $A = X^\top X$; label noise "
    r"that outweighs the gradient is this at $t = (\eta\delta)^2k$.",
    hypotheses=KINDS,
    predict=predict_moments,
    measure=measure_moments,
    tolerance=1e-3,
    instances=general,
    controls=[
        Control(
            "time is lr δ a step",
            general,
            lambda setup: predict_moments(setup, 1 / cases.kick(setup)),
            formula=True,
        )
    ],
    terms={"orders of t above the first": lambda setup: predict_moments(setup, forms=False)},
    runs=lambda setup: in_parts(setup, **OF_MOMENTS),
    errata=[
        Erratum(
            "Proposition 4.1, proof",
            r"$\sqrt n$ beside $\sqrt d$, for one number",
            r"$\sqrt d$ throughout",
            "misprint",
            quote=r"d(\mathbf{u}_0 + \sqrt{d}\mathbf{v}_0) = \sqrt{d}(\mathbf{u}_0 + "
            r"\sqrt{n}\mathbf{v}_0) dt",
            note=r"$d\|a_i\|^2dt$ there is the dimension times the square.",
        )
    ],
    title="noise alone: second moments explode",
    slow=True,
    paper=OF_NOISE,
)


def isotropic(
    key: int, time: float = TIME, steps: int = FINER, X: np.ndarray | None = None, **more: Any
) -> Setup:
    """X = I, of three or of five inputs."""
    data = np.eye(SIZES[key % 2]) if X is None else X
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


def predict_commutators(setup: Setup, strength: float = 1.0) -> Claims:
    """Of descent, exactly: a step of h makes (1 − 2h + (d + 2)h²)P + 2hQ and Q + (d − 1)hP."""
    _, W, a = start(setup)
    h = cases.kick(setup) ** 2 * strength
    k = int(np.max(cases.steps_of(setup)))
    d = len(W)
    step = np.array([[1 - 2 * h + (d + 2) * h**2, 2 * h], [(d - 1) * h, 1.0]])
    e = _wedges(W, a)
    both = np.stack([np.sum(e**2, axis=0), _planes(W)])
    P, Q = np.einsum("ij,jkl->ikl", np.linalg.matrix_power(step, k), both)
    size = commutator_size(W, a, k * h)
    return {
        "mean": largest((1 - h) ** k * e),
        "size": largest(size),
        "P": largest(P),
        "Q": largest(Q),
    }


def predict_decaying_size(setup: Setup) -> Claims:
    """As printed: what is said of the signed mean, of the size."""
    _, W, a = start(setup)
    size = np.linalg.norm(_wedges(W, a), axis=0)
    return {"size": largest(size * np.exp(-time_of(setup)))}


def predict_linear(setup: Setup) -> Claims:
    """To first order in time."""
    _, W, a = start(setup)
    t = time_of(setup)
    P = np.sum(_wedges(W, a) ** 2, axis=0)
    Q = _planes(W)
    return {"P": largest(P + t * (2 * Q - 2 * P)), "Q": largest(Q + t * (len(W) - 1) * P)}


def measure_commutators(run: xr.Dataset) -> Measurements:
    W, a = layers(run)
    e = _wedges(W, a)
    square = odd_parts(run, "square")
    return {
        "mean": odd.mean(e, odd_parts(run, "wedge")),
        "size": odd.mean(np.linalg.norm(e, axis=1), odd_parts(run, "size")),
        "P": odd.mean(np.sum(e**2, axis=1), square),
        "Q": odd.mean(_planes(W), square),
    }


PROP_C = Theorem(
    "spectral.noise.prop4.1c",
    r"For $A = I$ the signed mean of the commutator decays, $E[z_i,a] = [z_i,a](0)e^{-t}$; its "
    r"mean size $E|[\cdot,a]_{kl}|$ does not, but follows a linear equation of one angle; "
    r"$P = E\sum_i[z_i,a]_{kl}^2$ and $Q = \frac{1}{2}E\sum_{ij}[z_i,z_j]_{kl}^2$ obey "
    r"$P' = -2P+2Q$, $Q' = (d-1)P$ and grow as $e^{(\sqrt{2d-1}-1)t}$ for $d \ge 2$.",
    hypotheses=[*KINDS, IDENTITY],
    predict=predict_commutators,
    measure=measure_commutators,
    tolerance=1e-3,
    instances=isotropic,
    controls=[
        Control(
            "XᵀX is the identity",
            lambda key: isotropic(key, X=np.diag([1.7, 0.3, 0.1])),
        )
    ],
    terms={"orders of t above the first": predict_linear},
    runs=lambda setup: in_parts(setup, **OF_WEDGES),
    errata=[
        Erratum(
            "Proposition 4.1 (c)",
            r"$E|[z_i,a]| = |[z_i(0),a(0)]|e^{-t} \to 0$",
            r"Itô's formula for $|e|$ has a local time at 0: $E|e|$ tends to a constant for $d = 2$"
            r" and grows for $d \ge 3$; what goes to 0 is the angle of $z_i$ and $a$",
            "false",
            evidence=mean_commutator,
            quote=r"\lim_{t \rightarrow \infty} \mathbb{E} [|\mathbf{w}_i, \mathbf{a}|] "
            r"\rightarrow 0.",
            predict=predict_decaying_size,
        )
    ],
    title="noise alone: commutators do not vanish",
    slow=True,
    paper=OF_NOISE,
)

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
