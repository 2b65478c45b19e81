"""SGD as a diffusion: Lemma 3, the equations on its way, and the gap, against autodiff."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ...dynamics import Flow
from ...numerics.precision import host, to_numpy
from ...theory import balanced_sde, depth_exponents, rank1_overlaps, sde_coefficients
from ..prelude import (
    Claim,
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
    common,
    equals,
    setup_of,
)
from . import _instances as cases
from ._facts import depth_of
from ._paper import OF_PATHS
from ._sgd_gap import several_layers
from ._velocities import ROUNDED, Params


def functions(params):
    """θ, the gaps, ω, ξ and the mirror's ∇V = ‖θ‖^{−λ}θ as functions of the parameters."""
    omega = jnp.sum(params["u"] * params["v"], axis=1)
    theta = jnp.prod(omega) * params["v1"]
    lam = 1 - 1 / (2 * len(omega) + 1)
    return {
        "theta": theta,
        "gap": jnp.sum(params["v1"] ** 2) - jnp.sum(params["u"] ** 2, axis=1),
        "omega": omega,
        "xi": jnp.prod(omega)[None],
        "mirror": jnp.sum(theta**2) ** (-lam / 2) * theta,
    }


def sde(X, y, weight, params):
    """Itô's drift and the diffusion of these under SGD's equation, lr = b = 1, by autodiff."""
    n = X.shape[0]
    r = X @ functions(params)["theta"] - y
    kicks = 2 * weight * n * jnp.sqrt(jnp.mean(r * r) / n) * X
    _, pull = jax.vjp(lambda p: functions(p)["theta"], params)

    def along(g):
        way = pull(g)[0]

        def speed(p):
            return jax.jvp(functions, (p,), (way,))[1]

        return jax.jvp(speed, (params,), (way,))

    first, second = jax.vmap(along)(kicks)
    drift = {f"{name}_ito": jnp.sum(x, axis=0) / 2 for name, x in second.items()}
    return {**drift, **{f"{name}_noise": jnp.moveaxis(x, 0, -1) for name, x in first.items()}}


# Outside of the runs: these are then the ones of other theorems, and nothing new is compiled.
_along_path = jax.jit(jax.vmap(sde, in_axes=(None, None, None, 0)))


@host
def by_autodiff(run: Run) -> dict[str, np.ndarray]:
    """`sde` at every save that was reached."""
    problem = common.regression(setup_of(run))
    count = len(cases.path(run))
    # As many rows as a power of two: how many were reached differs from run to run, and a new
    # number compiles anew.
    rows = np.minimum(np.arange(2 ** math.ceil(math.log2(count))), count - 1)
    params = {name: run.data[f"params_{name}"].values[rows] for name in ("v1", "u", "v")}
    values = _along_path(problem.X, np.ravel(problem.labels), np.asarray(problem.weight), params)
    return {name: x[:count] for name, x in to_numpy(values).items()}


def scaled(rows: Mapping[str, ArrayLike], whole: np.ndarray | None = None) -> dict[str, Claim]:
    """Every instant by its own size: the loss falls by many decades.

    Args:
        rows: quantity → values, instants first.
        whole: what to take the sizes of, where the values are what is left of something larger.
    """
    claims = {}
    for name, values in rows.items():
        array = np.asarray(values)
        size = np.abs(array if whole is None else whole).reshape(len(array), -1).max(axis=1)
        shape = (len(array),) + (1,) * (array.ndim - 1)
        claims[name] = equals(array, scale=size.reshape(shape) + ROUNDED * size.max())
    return claims


def measure_coefficients(*names: str) -> Callable[[Run], Measurements]:
    """What autodiff says at every save."""

    def measure(run: Run) -> Measurements:
        coefficients = by_autodiff(run)
        return {name: coefficients[name] for name in names}

    return measure


def gap_terms(setup: Setup, run: Run) -> np.ndarray:
    """ξ²tr M at every save: the two terms of a gap's drift cancel for data of rank one."""
    problem = common.regression(setup)
    terms = []
    for p in cases.path(run):
        xi = float(rank1_overlaps(p).xi)
        residual = problem.X @ (xi * p["v1"]) - np.ravel(problem.labels)
        kick = 2 * float(problem.weight) * float(np.linalg.norm(residual))
        terms.append(np.full(len(setup.params["u"]), (xi * kick) ** 2 * np.sum(problem.X**2)))
    return np.asarray(terms)


def predict_coefficients(setup: Setup, run: Run) -> Claims:
    """From any start; the gaps have no Brownian part."""
    problem = common.regression(setup)
    instants = [sde_coefficients(problem, p, 1.0, 1) for p in cases.path(run)]
    noise = np.asarray([now.diffusion for now in instants])
    theta = scaled({"theta_ito": [now.drift_ito for now in instants], "theta_noise": noise})
    gaps = scaled({"gap_ito": [now.gap_drift for now in instants]}, gap_terms(setup, run))
    still = np.zeros((len(instants), len(setup.params["u"]), problem.n))
    return {**theta, **gaps, "gap_noise": equals(still, scale=np.abs(noise).max())}


def predict_as_balanced(setup: Setup, run: Run) -> Claims:
    """The same by Lemma 3, which needs the balance."""
    problem = common.regression(setup)
    instants = [
        balanced_sde(problem, theta, depth_of(setup), 1.0) for theta in cases.recorded(run, "theta")
    ]
    gaps = [np.full(len(setup.params["u"]), now.gap_drift) for now in instants]
    theta = {
        "theta_ito": [now.drift_ito for now in instants],
        "theta_noise": [now.diffusion for now in instants],
    }
    return {**scaled(theta), **scaled({"gap_ito": gaps}, gap_terms(setup, run))}


SDE = Theorem(
    "rank1.sgd.sde",
    r"Under SGD's equation $dp = -\nabla L\,dt+2\sqrt{\eta\mathcal{L}/n}\,(\partial_pf)^\top dB$, "
    r"from any start, the predictor diffuses by $(\xi^2I+\Phi v_1v_1^\top)$ times the noise of its "
    r"gradient, of covariance $M$, with the further drift "
    r"$\frac{1}{2}\Psi(v_1^\top Mv_1)v_1+\Phi\xi Mv_1$; the gaps have the drift "
    r"$\xi^2\mathrm{tr}M-(\xi/\omega_k)^2\|v_{k+1}\|^2v_1^\top Mv_1$ and no Brownian part.",
    hypotheses=[common.one_output(), common.not_at_minimum()],
    predict=predict_coefficients,
    measure=measure_coefficients("theta_ito", "theta_noise", "gap_ito", "gap_noise"),
    tolerance=1e-8,
    instances=cases.unbalanced,
    controls=[
        Control("the form of balanced nets", cases.unbalanced, predict_as_balanced, formula=True)
    ],
    title="SGD's equation from any start",
    given=("path",),
    paper=OF_PATHS,
)


def balanced_kinds() -> list[Hypothesis]:
    """A balanced net of more than one layer; gradient flow leads through such points only."""
    kinds = [common.one_output(), several_layers(), *common.plain(), common.balanced()]
    return [*kinds, common.not_at_minimum()]


def as_printed_lemma_3(setup: Setup, run: Run) -> Claims:
    """Itô's drift without ξ²."""
    told = dict(predict_as_balanced(setup, run))
    sizes = np.linalg.norm(cases.recorded(run, "theta"), axis=1)
    xi2 = sizes ** (2 * depth_exponents(depth_of(setup)).lam)
    ito = told["theta_ito"]
    assert isinstance(ito, Claim)
    told["theta_ito"] = dataclasses.replace(ito, value=ito.value / xi2[:, None])
    return told


def straightened(name: str) -> Predict:
    """Lemma 3 without the part of one of its terms along θ."""

    def predict(setup: Setup, run: Run) -> Claims:
        told = dict(predict_as_balanced(setup, run))
        claim = told[name]
        assert isinstance(claim, Claim)
        L = (depth_of(setup) + 1) // 2
        factor = {"theta_ito": (2 * L - 3) / 2, "theta_noise": 2.0 * (L - 1)}[name]
        theta = cases.recorded(run, "theta")
        unit = theta / np.linalg.norm(theta, axis=1, keepdims=True)
        value = claim.value.reshape(len(theta), setup.problem.d, -1)
        along = np.einsum("ti,tj,tjk->tik", unit, unit, value) * factor / (1 + factor)
        told[name] = dataclasses.replace(claim, value=np.reshape(value - along, claim.value.shape))
        return told

    return predict


def printed_lemma_3(key: int) -> Evidence:
    """The printed Itô drift has ξ² too little; against second differences of θ by hand."""
    setup = cases.rank1(key, scale=0.4)
    truth = ito_by_differences(setup)
    theta = np.ravel(common.start(setup))
    right = balanced_sde(common.regression(setup), theta, depth_of(setup), 1.0).drift_ito
    printed = right / np.linalg.norm(theta) ** (2 * depth_exponents(depth_of(setup)).lam)
    size = np.linalg.norm(truth)
    return Evidence(*(float(np.linalg.norm(x - truth) / size) for x in (printed, right)))


def _pulled(point: Params, g: np.ndarray) -> dict[str, np.ndarray]:
    """How the parameters move if the predictor is pulled along g."""
    omega = np.sum(point["u"] * point["v"], axis=1)
    xi = float(np.prod(omega))
    along = (xi / omega * (point["v1"] @ g))[:, None]
    return {"v1": xi * g, "u": along * point["v"], "v": along * point["u"]}


def first_difference(setup: Setup, g: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """How the predictor moves then, to fourth order."""
    point = {n: np.array(p) for n, p in setup.params.items()}
    way = _pulled(point, g)
    at = {k: _predictor(point, way, k * step) for k in (-2, -1, 1, 2)}
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)


def ito_by_differences(setup: Setup) -> np.ndarray:
    """Itô's drift of the predictor at the start, lr = b = 1, with isotropic noise."""
    problem = common.regression(setup)
    point = {n: np.array(p) for n, p in setup.params.items()}
    X = np.asarray(problem.X)
    residual = X @ np.ravel(common.start(setup)) - np.ravel(problem.labels)
    kick = 2 * float(problem.weight) * float(np.linalg.norm(residual))
    total = np.zeros(X.shape[1])
    for row in kick * X:
        total += 0.5 * _second_difference(point, _pulled(point, row))
    return total


def _predictor(point: Params, way: Params, e: float) -> np.ndarray:
    p = {n: point[n] + e * way[n] for n in point}
    return np.prod(np.sum(p["u"] * p["v"], axis=1)) * p["v1"]


def _second_difference(point: Params, way: Params, step: float = 1e-3) -> np.ndarray:
    """d²θ along a direction, to fourth order."""
    near = _predictor(point, way, step) + _predictor(point, way, -step)
    far = _predictor(point, way, 2 * step) + _predictor(point, way, -2 * step)
    return (16 * near - far - 30 * _predictor(point, way, 0.0)) / (12 * step**2)


LEMMA3 = Theorem(
    "rank1.lemma3",
    r"At an instant when the net is balanced the predictor's equation has the diffusion "
    r"$2\xi^2\sqrt{\eta\mathcal{L}/n}\,[I+2(L-1)\Pi]X^\top$ and the further drift "
    r"$8\eta\mathcal{L}\frac{L-1}{n}(\xi/\|v_1\|)^2[I+\frac{2L-3}{2}\Pi]X^\top X\theta$, "
    r"$\Pi = \theta\theta^\top/\|\theta\|^2$, and the gap the drift "
    r"$\frac{4\eta\mathcal{L}}{n}\xi^2\mathrm{tr}(P_\perp X^\top X)$.",
    hypotheses=balanced_kinds(),
    predict=predict_as_balanced,
    measure=measure_coefficients("theta_ito", "theta_noise", "gap_ito"),
    tolerance=1e-8,
    instances=cases.rank1,
    controls=[Control("init is balanced", cases.unbalanced)],
    terms={
        "the drift's part along θ": straightened("theta_ito"),
        "the noise's part along θ": straightened("theta_noise"),
    },
    errata=(
        Erratum(
            "Lemma 3",
            r"the drift with $1/\|v_1\|^2$ in front",
            r"$(\xi/\|v_1\|)^2$, that is $\|\theta\|$ to the power $2-4/(2L-1)$",
            "misprint",
            evidence=printed_lemma_3,
            quote=r"+ \frac{8\eta\mathcal{L}(L-1)}{n\|\theta\|^{\frac{2}{2L-1}}}\left[I + "
            r"\frac{2L-3}{2}\frac{\theta\theta^T}{\|\theta\|^2}\right]X^T X\theta dt",
            note="(85) with (87)-(89) gives the other power.",
            predict=as_printed_lemma_3,
        ),
    ),
    title="SGD's equation on a balanced net",
    dynamics=(Flow,),
    given=("path",),
    paper=OF_PATHS,
)


def predict_overlaps(setup: Setup, run: Run) -> Claims:
    """Eq (77)–(80) with Φ of (87)–(89)."""
    return _overlaps(setup, run, (1.0, 1.0))


def _overlaps(setup: Setup, run: Run, kept: tuple[float, float]) -> Claims:
    problem = common.regression(setup)
    X = np.asarray(problem.X)
    n = problem.n
    L = len(setup.params["u"]) + 1
    rows: dict[str, list[np.ndarray]] = {
        f"{name}_{part}": [] for part in ("ito", "noise") for name in ("omega", "xi")
    }
    for p in cases.path(run):
        overlaps = rank1_overlaps(p)
        xi = overlaps.xi
        omega = overlaps.omega
        square = float(p["v1"] @ p["v1"])
        r = X @ (xi * p["v1"]) - np.ravel(problem.labels)
        c = 2 * float(problem.weight) * n * np.sqrt(np.mean(r * r) / n)
        h = c * (X @ p["v1"])
        phi = 2 * (L - 1) / square, (L - 1) / square**2, 2 * (L - 1) * (L - 2) / square**2
        rows["omega_ito"].append((xi / omega) ** 2 * omega * (h @ h))
        rows["xi_ito"].append(np.array([xi**3 * (h @ h) * (kept[0] * phi[1] + kept[1] * phi[2])]))
        rows["omega_noise"].append(np.outer(xi / omega * 2 * square, h))
        rows["xi_noise"].append(np.array([xi**2 * phi[0] * h]))
    return scaled(rows)


EQ80 = Theorem(
    "rank1.eq80",
    r"On a balanced net $\omega_k$ has Itô's drift $\frac{4\eta\mathcal{L}}{n}(\xi/\omega_k)^2"
    r"\omega_k\|Xv_1\|^2$, $\xi$ has $\frac{4\eta\mathcal{L}}{n}\xi^3\|Xv_1\|^2(\Phi_2+\Phi_3)$ "
    r"and the noise $2\sqrt{\eta\mathcal{L}/n}\,\xi^2\Phi_1(Xv_1)^\top dB$, with $\Phi_1 = "
    r"2(L-1)/\|v_1\|^2$, $\Phi_2 = (L-1)/\|v_1\|^4$, $\Phi_3 = 2(L-1)(L-2)/\|v_1\|^4$.",
    hypotheses=balanced_kinds(),
    predict=predict_overlaps,
    measure=measure_coefficients("omega_ito", "xi_ito", "omega_noise", "xi_noise"),
    terms={"Φ2": lambda s, run: _overlaps(s, run, (0.0, 1.0))},
    tolerance=1e-8,
    instances=cases.rank1,
    controls=[Control("init is balanced", cases.unbalanced)],
    title="the overlaps under SGD",
    dynamics=(Flow,),
    given=("path",),
    paper=OF_PATHS,
)

THEOREMS = (SDE, EQ80, LEMMA3)
