"""Label-noise SGD itself, in steps: how it slides, and how far it stays from the manifold."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Diagonal
from ...noise import LabelNoise
from ...problems import Regression
from ...theory import diagonal, manifold
from .. import _shared_hypotheses as common
from .._claims import at_most, equals, measured
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis, kind
from .._per_setup import fact
from .._source import ZEROLOSS as SOURCE
from .._theorem import Control, Ensemble, Theorem
from . import _instances as cases
from ._lemma_6_5 import certificate, clear, unique
from ._section_6_1 import halves

MEMBERS = 64
STEPS, LR = 4000, 0.008
SAVES = np.unique(np.concatenate([[0], np.linspace(STEPS // 2, STEPS, 80).astype(int)]))
NOISE = LabelNoise(1.0, 1)


def displacement(problem, net, params):
    """The Newton step to the manifold, J⁺r, in an orthonormal basis of the normal space."""
    vector, unravel = ravel_pytree(params)
    scale = jnp.sqrt(2.0 * jnp.asarray(problem.weight))

    def residual(x):
        return scale * (jnp.ravel(net(unravel(x), jnp.asarray(problem.X))) - problem.labels.ravel())

    J = jax.jacrev(residual)(vector)
    return solve_triangular(jnp.linalg.cholesky(J @ J.T), residual(vector), lower=True)


RECORD = {"loss": observe.loss, "params": observe.params, "displacement": displacement}
USEFUL = 0.3


def noisy(key: int, std: float = 1.0, lr: float = LR, **more: Any) -> Setup:
    """Label-noise SGD on single samples."""
    return Setup(
        more.pop("problem", cases.regression(key)),
        cases.DIAGONAL,
        cases.start(key),
        more.pop("dynamics", Descent(lr, LabelNoise(std, 1))),
        until=more.pop("until", Until(steps=STEPS)),
        record=RECORD,
        save_at=more.pop("save_at", SAVES),
        key=key,
    )


def ensemble(setup: Setup) -> Ensemble:
    """The same start under other noise."""
    first = MEMBERS * setup.key
    return Ensemble(lambda seed: setup.replace(key=first + int(seed)), {"seed": range(MEMBERS)})


def is_label_noise() -> Hypothesis:
    """Steps see labels with fresh noise."""
    noise = "the noise is on the labels"
    return kind(noise, lambda s: isinstance(getattr(s.dynamics, "noise", None), LabelNoise))


@fact
def roughness(setup: Setup) -> float:
    """The step over that at which single rows become unstable, at the end of gradient flow."""
    found = cases.diagonal_end(setup)
    bound = diagonal.stability_bound(setup.problem, found.u, found.v)  # pyright: ignore[reportArgumentType]
    return common.learning_rate(setup) / bound


def early(setup: Setup) -> float:
    """What the way to the manifold takes of uv, over what label noise takes, at most.

    4∫g²dt of each coordinate, with Σ_j 4∫g_j²(u_j² + v_j²)dt = L(0).
    """
    problem: Any = setup.problem
    u, v = halves(setup)
    loss = float(problem.loss(u**2 - v**2)) - problem.min_loss
    later = float(limit_times(setup)[-1]) * np.linalg.norm(diagonal.decay_rates(problem))
    spent = common.learning_rate(setup) * loss / float(np.min(u**2 + v**2))
    return spent / (strength(setup) * later) if strength(setup) * later > 0 else np.inf


def small_step() -> Hypothesis:
    """The expected error of a finite step, first order in lr."""

    def margin(setup: Setup) -> float:
        return roughness(setup) + early(setup)

    return Hypothesis("the step is small", margin, USEFUL, True, "O(lr)")


def strength(setup: Setup, noise: Any = None) -> float:
    """The c of Σ = cH."""
    law: Any = getattr(setup.dynamics, "noise", None) if noise is None else noise
    return diagonal.noise_level(setup.problem, float(law.std), law.batch_size)  # pyright: ignore[reportArgumentType]


def limit_times(setup: Setup) -> np.ndarray:
    """Times k·lr² at the saves."""
    return np.asarray(manifold.steps_to_limit(setup.save_at, common.learning_rate(setup)))


def slide(setup: Setup, noise: Any = None) -> dict[str, Any]:
    """ln|uv| falls by c·s·t, and θ is that of the limiting flow."""
    problem: Any = setup.problem
    t, c = float(limit_times(setup)[-1]), strength(setup, noise)
    u, v = diagonal.limiting_flow(problem, *halves(setup), t, c)
    return {"decay": -c * t * diagonal.decay_rates(problem), "theta": u**2 - v**2}


def slid(runs: Any) -> dict[str, Any]:
    """Means over the members at the last save."""
    data = runs["run"]
    u, v = data["params_u"].values, data["params_v"].values
    logs = np.log(np.abs(u[:, -1] * v[:, -1])) - np.log(np.abs(u[:, 0] * v[:, 0]))
    return {"decay": _mean(logs), "theta": _mean(u[:, -1] ** 2 - v[:, -1] ** 2)}


def _mean(values: np.ndarray) -> Any:
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return measured(values.mean(axis=0), standard_error=error)


def steps_hypotheses() -> list[Hypothesis]:
    """What label-noise SGD on a diagonal net needs to follow the limiting flow."""
    return [
        common.one_output(),
        *common.plain(),
        is_label_noise(),
        cases.fitted(),
        cases.start_without_zeros(),
        small_step(),
    ]


KINDS: dict[str, Any] = {
    "nets": (Diagonal,),
    "problems": (Regression,),
    "dynamics": (Descent,),
    "source": SOURCE,
}

LEMMAD_13 = Theorem(
    "zeroloss.lemmaD.13",
    r"After $k = t/\eta^2$ steps of label-noise SGD on a diagonal net $\ln|u_jv_j|$ has fallen by "
    r"$cs_jt$, $s_j = \frac{4}{n}\sum_iz_{ij}^2$, and the predictor is that of the limiting flow, "
    r"up to $O(\eta)$.",
    steps_hypotheses(),
    slide,
    slid,
    0.02,
    noisy,
    [
        Control(
            "the noise is on the labels",
            lambda key: noisy(key, std=0.0),
            lambda s: slide(s, NOISE),
        )
    ],
    runs=lambda s: {"run": ensemble(s)},
    needs=RECORD,
    title="label-noise SGD slides along the manifold",
    **KINDS,
)


def _independent(setup: Setup) -> bool:
    problem: Any = setup.problem
    return problem.rank == problem.n


def independent_samples() -> Hypothesis:
    """No sample is a combination of others: each has a normal direction of its own."""
    return kind("samples are independent", _independent)


def plateau(setup: Setup, noise: Any = None) -> dict[str, Any]:
    """c·lr·R/4 and (c·lr/2)·I, averaged over the second half."""
    problem: Any = setup.problem
    c, late = strength(setup, noise), limit_times(setup)[_late(setup.save_at)]
    u, v = diagonal.limiting_flow(problem, *halves(setup), late, c)
    levels = [diagonal.regulariser(problem, *x) for x in zip(u, v, strict=True)]
    lr = common.learning_rate(setup)
    size = c * lr / 2
    return {
        "loss": c * lr * float(np.mean(levels)) / 4,
        "covariance": equals(size * np.eye(problem.rank), scale=size),
    }


def _late(steps: Any) -> np.ndarray:
    return np.asarray(steps) >= np.max(steps) / 2


def hovering(runs: Any) -> dict[str, Any]:
    """Means over the second half and the members."""
    data = runs["run"]
    late = _late(data["step"].values)
    z = data["displacement"].values[:, late]
    outer = np.einsum("mti,mtj->mij", z, z) / np.sum(late)
    return {"loss": _mean(data["loss"].values[:, late].mean(axis=1)), "covariance": _mean(outer)}


PLATEAU = Theorem(
    "zeroloss.plateau",
    r"On the manifold label-noise SGD hovers with the normal covariance $\frac{c\eta}{2}Q$, and "
    r"with it the loss at $\frac{c\eta}{4}\tr H$.",
    [*steps_hypotheses(), independent_samples()],
    plateau,
    hovering,
    0.02,
    noisy,
    [
        Control(
            "the noise is on the labels",
            lambda key: noisy(key, std=0.0),
            lambda s: plateau(s, NOISE),
        )
    ],
    runs=lambda s: {"run": ensemble(s)},
    needs=RECORD,
    errata=(
        Erratum(
            "Section 1.1",
            r"a standard Gaussian scaled by $\sqrt{\eta}$",
            r"scaled by $\sqrt{\eta/2}$",
            "numeric",
            lambda key: _scale(key),
        ),
    ),
    title="how far label-noise SGD hovers, and its loss",
    **KINDS,
)


def _scale(key: int) -> Evidence:
    """The variance of x ← (1 − ηλ)x + ηξ, ξ of variance cλ, over cη and over cη/2."""
    lam, eta = 1.0, 1e-4
    variance = eta**2 * lam / (1 - (1 - eta * lam) ** 2)
    return Evidence(abs(variance / eta - 1), abs(variance / (eta / 2) - 1))


QUICK = np.arange(1501)
FALL = 1e-2  # of the loss: where Phase I is said to end


def quick(key: int, share: float = 0.2) -> Setup:
    """Gradient descent with a step of `share`/sharpness."""
    setup = noisy(key, dynamics=Descent(0.1), until=Until(steps=int(QUICK[-1])), save_at=QUICK)
    return setup.replace(dynamics=Descent(share / sharpness(setup)))


@fact
def sharpness(setup: Setup) -> float:
    """The largest eigenvalue of the Hessian at the end of gradient flow, where the data are fitted.

    There it is 8·weight·JᵀJ, with the eigenvalues of the n × n matrix 8·weight·JJᵀ.
    """
    found, problem = cases.diagonal_end(setup), common.problem(setup)
    kernel = diagonal.tangent_kernel(problem, found.u, found.v)
    return 2 * float(problem.weight) * float(np.linalg.norm(kernel, 2))


def two_steps(setup: Setup) -> dict[str, Setup]:
    """With this step and with half of it."""
    lr = common.learning_rate(setup)
    return {"run": setup, "half": setup.replace(dynamics=Descent(lr / 2))}


def phase_one(setup: Setup) -> dict[str, Any]:
    """The same flow time, no longer than the PL constant allows."""
    constant = diagonal.pl_constant(setup.problem, *halves(setup))  # pyright: ignore[reportArgumentType]
    return {"ratio": 1.0, "time": at_most(-np.log(FALL) / constant)}


def fallen(runs: Any) -> dict[str, Any]:
    """Flow time k·lr at which the loss has fallen, with half the distance of saves around it."""
    (coarse, off), (fine, also) = (_fall(runs[name]) for name in ("run", "half"))
    ratio = coarse / fine
    unknown = ratio * (off / coarse + also / fine)
    return {"ratio": measured(ratio, unknown), "time": measured(fine, also)}


def _fall(run: Any) -> tuple[float, float]:
    """The time, and how well it is known; the time of the whole run where it was not reached."""
    times = common.learning_rate(run.setup) * np.asarray(run.setup.save_at, dtype=np.float64)
    loss = run.data["loss"].values
    heights = np.log(loss / loss[0]) - np.log(FALL)
    below = np.flatnonzero(heights < 0)
    if not len(below):
        return float(times[-1]) or math.inf, float(times[-1]) or math.inf
    k = below[0]
    share = heights[k - 1] / (heights[k - 1] - heights[k])
    apart = times[k] - times[k - 1]
    # Where every step is saved, the logarithm of the loss is a line from one to the next.
    step = run.setup.save_at[k] - run.setup.save_at[k - 1] == 1
    return float(times[k - 1] + share * apart), 0.0 if step else float(apart) / 2


B10 = Theorem(
    "zeroloss.remarkB.10",
    r"Phase I, the way to the manifold, takes $\Theta(1/\eta)$ steps: the loss falls at a flow "
    r"time $k\eta$ that does not depend on $\eta$, within $\ln(L_0/L)/C$.",
    [
        common.one_output(),
        *common.plain(),
        kind("there is no noise", lambda s: getattr(s.dynamics, "noise", None) is None),
        cases.fitted(),
        cases.start_without_zeros(),
        Hypothesis(
            "the step is small",
            lambda s: common.learning_rate(s) * sharpness(s) / 2,
            USEFUL,
            True,
            "O(lr)",
        ),
    ],
    phase_one,
    fallen,
    {"ratio": 0.02, "time": 0.0},
    quick,
    [Control("the step is small", lambda key: quick(key, 4.0))],
    runs=two_steps,
    needs=RECORD,
    title="the way to the manifold takes 1/lr steps",
    **KINDS,
)

LONG = 60_000


def planted(key: int, std: float = 1.0) -> Setup:
    """A sparse teacher that the data determine, and a long run with a small step."""
    problem = clear(key).problem
    saves = np.unique(np.concatenate([[0], np.linspace(0.9 * LONG, LONG, 80).astype(int)]))
    return noisy(key, std, 0.006, problem=problem, until=Until(steps=LONG), save_at=saves)


def recovered(setup: Setup) -> dict[str, Any]:
    """The solution of the weighted ℓ1 problem."""
    return {"theta": certificate(setup).w}


def still_on_the_way(setup: Setup) -> float:
    """What the limiting flow has not finished by the end of the run."""
    t = float(limit_times(setup)[-1])
    w = certificate(setup).w
    u, v = diagonal.limiting_flow(setup.problem, *halves(setup), t, strength(setup))  # pyright: ignore[reportArgumentType]
    return float(np.linalg.norm(u**2 - v**2 - w) / np.linalg.norm(w))


def late_mean(runs: Any) -> dict[str, Any]:
    """The mean predictor of the last tenth."""
    data = runs["run"]
    u, v = data["params_u"].values[:, 1:], data["params_v"].values[:, 1:]
    return {"theta": _mean((u**2 - v**2).mean(axis=1))}


THM6_1 = Theorem(
    "zeroloss.thm6.1",
    r"Label-noise SGD on a diagonal net, from any start without zeros, finds the sparse teacher "
    r"after $O(1/\eta^2)$ steps, up to $O(\eta)$, where the weighted $\ell_1$ problem does.",
    [
        *steps_hypotheses(),
        unique(),
        Hypothesis("the run is long", still_on_the_way, USEFUL, True, "what is left of the way"),
    ],
    recovered,
    late_mean,
    0.02,
    planted,
    [Control("the noise is on the labels", lambda key: planted(key, std=0.0))],
    runs=lambda s: {"run": ensemble(s)},
    needs=RECORD,
    title="label noise recovers a sparse teacher",
    **KINDS,
)

THEOREMS = (LEMMAD_13, PLATEAU, B10, THM6_1)
