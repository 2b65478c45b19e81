"""Proposition 4.1: noise without a gradient grows, and aligns, but not as printed."""

from typing import Any

import numpy as np
import xarray as xr

from ... import observe
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
)
from . import _instances_noise as cases
from . import _odd_parts as odd
from ._errata_noise import mean_commutator
from ._instances import draws
from ._paper import OF_NOISE

D = 3
SIZES = (D, 5)
WIDTH = 4
MEMBERS = 8000
TIME = 1.0
STEPS = 1920
FINER = 3 * STEPS  # where what is even in the noise of a step shows
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
