"""Label-noise SGD itself, in steps: how it slides, and how far it stays from the manifold."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from numpy.typing import ArrayLike

from ... import observe
from ...dynamics import Descent
from ...noise import LabelNoise
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory import diagonal, manifold
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Hypothesis,
    Measure,
    Measured,
    Measurements,
    Setup,
    Theorem,
    Until,
    common,
    equals,
    fact,
    kind,
    setup_of,
)
from . import _instances as cases
from ._measurements import end_time, mean_of
from ._oracle import Place
from ._paper import DIAGONAL_STEPS
from ._section_6_1 import halves
from ._two_steps import extrapolated, halved, members, small_step

MEMBERS = 64
STEPS = 16_000
LAST = Until(steps=STEPS)
LR = 0.004
SAVES = np.array([0, STEPS])
NOISE = LabelNoise(1.0, 1)


def displacement(problem, net, params):
    """The Newton step to the manifold, J⁺r, in an orthonormal basis of the normal space."""
    vector, unravel = ravel_pytree(params)
    scale = jnp.sqrt(2.0 * jnp.asarray(problem.weight))

    def residual(x):
        return scale * (jnp.ravel(net(unravel(x), jnp.asarray(problem.X))) - problem.labels.ravel())

    J = jax.jacrev(residual)(vector)
    return solve_triangular(jnp.linalg.cholesky(J @ J.T), residual(vector), lower=True)


RECORD = {"params": observe.params}
HOVER = {"loss": observe.loss, "displacement": displacement}


def noisy(
    key: int,
    std: float = 1.0,
    lr: float = LR,
    problem: Regression | None = None,
    dynamics: Descent | None = None,
    until: Until = LAST,
    save_at: ArrayLike = SAVES,
) -> Setup:
    """Label-noise SGD on single samples."""
    return Setup(
        cases.regression(key) if problem is None else problem,
        cases.DIAGONAL,
        cases.start(key),
        Descent(lr, LabelNoise(std, 1)) if dynamics is None else dynamics,
        until=until,
        record=RECORD,
        save_at=save_at,
        key=key,
    )


def two_steps(setup: Setup, count: int = MEMBERS) -> dict[str, Setup | Ensemble]:
    """The same start under other noise, with this step and with half of it; one step of one."""
    one = setup.replace(until=Until(steps=1), save_at=[0, 1])
    return {"run": members(setup, count), "half": members(halved(setup), count), "one": one}


def is_label_noise() -> Hypothesis:
    """Steps see labels with fresh noise."""
    return kind("the noise is on the labels", lambda s: label_noise(s) is not None)


def label_noise(setup: Setup) -> LabelNoise | None:
    """The noise of the steps, if it is on the labels."""
    noise = getattr(setup.dynamics, "noise", None)
    return noise if isinstance(noise, LabelNoise) else None


@fact
def roughness(setup: Setup) -> float:
    """The step over that at which single rows become unstable, at the end of gradient flow."""
    end = cases.diagonal_end(setup)
    bound = diagonal.stability_bound(common.regression(setup), {"u": end.u, "v": end.v})
    return common.learning_rate(setup) / bound


def early(setup: Setup) -> float:
    """What the way to the manifold takes of uv, over what label noise takes, at most.

    4∫g²dt of each coordinate, with Σ_j 4∫g_j²(u_j² + v_j²)dt = L(0).
    """
    problem = common.regression(setup)
    u, v = halves(setup)
    loss = float(problem.loss(u**2 - v**2)) - problem.min_loss
    later = end_time(setup) * float(np.linalg.norm(diagonal.decay_rates(problem)))
    spent = common.learning_rate(setup) * loss / float(np.min(u**2 + v**2))
    return spent / (strength(setup) * later) if strength(setup) * later > 0 else np.inf


def first_order(setup: Setup) -> float:
    """What a finite step is off, relative, of first order in lr."""
    return roughness(setup) + early(setup)


def strength(setup: Setup, noise: LabelNoise | None = None) -> float:
    """The c of Σ = cH."""
    law = label_noise(setup) if noise is None else noise
    assert law is not None
    return diagonal.noise_level(common.regression(setup), float(law.std), law.batch_size)


def limit_times(setup: Setup) -> np.ndarray:
    """Times k·lr² at the saves."""
    return np.asarray(manifold.steps_to_limit(setup.save_at, common.learning_rate(setup)))


def predict_slide(setup: Setup, noise: LabelNoise | None = None) -> Claims:
    """ln|uv| falls by c·s·t, and θ is that of the limiting flow."""
    problem = common.regression(setup)
    t = end_time(setup)
    c = strength(setup, noise)
    u, v = diagonal.limiting_flow(problem, setup.params, t, c)
    return {"decay": -c * t * diagonal.decay_rates(problem), "theta": u**2 - v**2}


def at_both(measure: Callable[[Setup, xr.Dataset], dict[str, Measured]]) -> Measure:
    """Measured with both steps, and extrapolated to lr = 0."""

    def measure_both(runs: Mapping[str, Any]) -> Measurements:
        setup = setup_of(runs["one"])
        coarse = measure(setup, runs["run"])
        fine = measure(halved(setup), runs["half"])
        return {name: extrapolated(coarse[name], fine[name]) for name in coarse}

    return measure_both


def measure_slide(setup: Setup, members: xr.Dataset) -> dict[str, Measured]:
    """Means over the members at the last save: of ln|uv|, and of the fit Φ(x) that is nearby."""
    u = members["params_u"].values
    v = members["params_v"].values
    logs = np.log(np.abs(u[:, -1] * v[:, -1])) - np.log(np.abs(u[:, 0] * v[:, 0]))
    return {"decay": mean_of(logs), "theta": mean_of(landed(setup, u[:, -1], v[:, -1]))}


def landed(setup: Setup, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The predictors to which gradient flow takes the rows of u and v, by DOP853."""
    ends = Place(setup, setup.params).phi(np.hstack([u, v]))
    u, v = np.split(ends, 2, axis=1)
    return u**2 - v**2


def steps_hypotheses() -> list[Hypothesis]:
    """What label-noise SGD on a diagonal net needs to follow the limiting flow."""
    return [
        common.one_output(),
        *common.plain(),
        is_label_noise(),
        cases.fitted(),
        cases.start_without_zeros(),
        small_step(first_order),
    ]


def without_noise(predict: Callable[[Setup, LabelNoise], Claims]) -> Control:
    """Plain descent, of which is said what label noise would do."""
    return Control(
        "the noise is on the labels",
        lambda key: noisy(key, dynamics=Descent(LR)),
        lambda setup: predict(setup, NOISE),
    )


SLIDE = Theorem(
    "zeroloss.slide",
    r"After $k = t/\eta^2$ steps of label-noise SGD on a diagonal net $\ln|u_jv_j|$ has fallen by "
    r"$cs_jt$, $s_j = \frac{4}{n}\sum_iz_{ij}^2$, and the fit to which gradient flow would take it "
    r"is that of the limiting flow, up to $O(\eta)$; here of $\eta$ and $\eta/2$, extrapolated.",
    hypotheses=steps_hypotheses(),
    predict=predict_slide,
    measure=at_both(measure_slide),
    tolerance=0.002,
    instances=noisy,
    controls=[without_noise(predict_slide)],
    runs=two_steps,
    needs=RECORD,
    title="label-noise SGD slides along the manifold",
    paper=DIAGONAL_STEPS,
    own=True,
)


def _independent(setup: Setup) -> bool:
    problem = common.regression(setup)
    return problem.rank == problem.n


def independent_samples() -> Hypothesis:
    """No sample is a combination of others: each has a normal direction of its own."""
    return kind("samples are independent", _independent)


HOVERING = 8192  # members: variances converge slowly
SHORT = Until(steps=1500)
LATE = np.unique(np.concatenate([[0], np.linspace(750, 1500, 76).astype(int)]))


def even(key: int, dynamics: Descent | None = None) -> Setup:
    """Orthogonal samples of one size, so that no direction across the manifold is slow."""
    rng = generator(key, "zeroloss even data")
    X = np.sqrt(cases.D) * np.linalg.qr(rng.standard_normal((cases.D, cases.N)))[0].T
    teacher = np.where(np.arange(cases.D) < 2, [1.0, -1.0, 0, 0, 0, 0], 0.0)
    problem = Regression.half_mean(X, X @ teacher)
    return noisy(key, 1.0, 0.006, problem, dynamics, SHORT, LATE)


def predict_plateau(setup: Setup, noise: LabelNoise | None = None) -> Claims:
    """c·R/4 and (c/2)·I in units of lr, averaged over the second half."""
    problem = common.regression(setup)
    c = strength(setup, noise)
    late = limit_times(setup)[_late(setup.save_at)]
    u, v = diagonal.limiting_flow(problem, setup.params, late, c)
    levels = [diagonal.regulariser(problem, {"u": a, "v": b}) for a, b in zip(u, v, strict=True)]
    return {
        "loss": c * float(np.mean(levels)) / 4,
        "covariance": equals(c / 2 * np.eye(problem.rank), scale=c / 2),
    }


def _late(steps: np.ndarray) -> np.ndarray:
    return steps >= np.max(steps) / 2


def measure_plateau(setup: Setup, members: xr.Dataset) -> dict[str, Measured]:
    """Means over the second half and the members, over lr."""
    late = _late(members["step"].values)
    lr = common.learning_rate(setup)
    z = members["displacement"].values[:, late]
    outer = np.einsum("mti,mtj->mij", z, z) / np.sum(late)
    loss = members["loss"].values[:, late].mean(axis=1)
    return {"loss": mean_of(loss / lr), "covariance": mean_of(outer / lr)}


PLATEAU = Theorem(
    "zeroloss.plateau",
    r"On the manifold label-noise SGD hovers with the normal covariance $\frac{c\eta}{2}Q$, and "
    r"with it the loss at $\frac{c\eta}{4}\tr H$, to first order in $\eta$.",
    hypotheses=[*steps_hypotheses(), independent_samples()],
    predict=predict_plateau,
    measure=at_both(measure_plateau),
    tolerance=0.001,
    instances=even,
    controls=[
        Control(
            "the noise is on the labels",
            lambda key: even(key, Descent(0.006)),
            lambda setup: predict_plateau(setup, NOISE),
        )
    ],
    runs=lambda setup: two_steps(setup, HOVERING),
    needs=HOVER,
    slow=True,
    errata=(
        Erratum(
            "Section 1.1, before (3)",
            r"a standard Gaussian scaled by $\sqrt{\eta}$",
            r"scaled by $\sqrt{\eta/2}$",
            "reading",
            quote="the standard multivariate gaussian in the normal space scaled by √η",
            note="A ½ may have been lost on the way to the text: check against the PDF.",
        ),
    ),
    title="how far label-noise SGD hovers, and its loss",
    paper=DIAGONAL_STEPS,
)


THEOREMS = (SLIDE, PLATEAU)
