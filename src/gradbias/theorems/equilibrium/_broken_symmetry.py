"""A symmetry that a second term of the loss breaks: how its charge moves, and where it is held.

θ = (u, w) with ℓ1 = (uwx − y)² and ℓ2 = |θ − θ0|², which is a net with three outputs: uwx, and
√ζ(θ − θ0), which every sample wants to be zero.
"""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...dynamics import Descent
from ...nets import FunctionNet, general
from ...noise import Noise
from ...numerics.host_rng import generator
from ...problems import Regression
from ..prelude import (
    Control,
    Ensemble,
    Erratum,
    Hypothesis,
    Measurements,
    Predict,
    Setup,
    Theorem,
    Told,
    Until,
    common,
    equals,
    kind,
)
from . import _instances as cases
from ._drifts import ONE, Share, paired
from ._facts import kappa, sgd
from ._measurements import EXACT, draws
from ._paper import PAPER

N = 8
ZETA = 2.0
LR = 0.02
CROWD = 1024
FEW = np.arange(65)
A = np.diag([1.0, -1.0])
LATE = np.arange(0, 8001, 20)


def outputs(params, X):
    """uwx, √ζ(u − u0), √ζ(w − w0); θ0 and ζ come with the inputs."""
    u = params["u"]
    w = params["w"]
    pull = X[:, 3] ** 0.5
    return jnp.stack([u * w * X[:, 0], pull * (u - X[:, 1]), pull * (w - X[:, 2])], axis=1)


NET = general(outputs, {"u": (), "w": ()})


def held(key: int, noise: Noise | None = cases.BATCHES, off: bool = False) -> Setup:
    """A start at the common minimum of both terms, or away from it."""
    rng = generator(key, "equilibrium approximate")
    x = rng.uniform(0.6, 1.6, size=N)
    eps = rng.standard_normal(N)
    eps -= x * (x @ eps) / (x @ x)  # so that the least squares solution is u0·w0
    u0 = rng.uniform(1.0, 1.4)
    w0 = rng.uniform(0.3, 0.5)
    X = np.stack([x, np.full(N, u0), np.full(N, w0), np.full(N, ZETA)], axis=1)
    Y = np.stack([u0 * w0 * x + 1.5 * eps, np.zeros(N), np.zeros(N)], axis=1)
    params = {"u": u0 + 0.5 * off, "w": w0 - 0.3 * off}
    until = Until(steps=int(LATE[-1]))
    problem = Regression.mean(X, Y)
    return Setup(problem, NET, params, Descent(LR, noise), until, cases.PARAMS, LATE, key)


def away(key: int) -> Setup:
    """A start away from the minimum."""
    return held(key, off=True)


def parts(setup: Setup) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and θ0 of a problem of this kind."""
    problem = common.regression(setup)
    return np.asarray(problem.X)[:, 0], np.asarray(problem.Y)[:, 0], np.asarray(problem.X)[0, 1:3]


def few(setup: Setup) -> Ensemble:
    """A few steps with many draws."""
    return draws(setup, CROWD, until=Until(steps=int(FEW[-1])), save_at=FEW)


def charges(data: xr.Dataset) -> np.ndarray:
    """u² − w², (members, saves)."""
    return data["params_u"].values ** 2 - data["params_w"].values ** 2


def predict_drift(setup: Setup, run: xr.Dataset, share: Share = ONE, pull: float = 1.0) -> Told:
    """Eq 20 and the term of a finite step, along every path; `pull` multiplies that of ℓ2."""
    x, y, theta0 = parts(setup)
    u, w = (run[f"params_{n}"].values[:, :-1] for n in "uw")
    lr = common.learning_rate(setup)
    single = 2 * ((u * w)[..., None] * x - y) * x
    slopes = 2 * ZETA * (u - theta0[0]), 2 * ZETA * (w - theta0[1])
    held = -2 * lr * np.stack([slopes[0] * u, slopes[1] * w])
    loud = lr * kappa(setup) * np.var(single, axis=-1) * np.stack([w * w, u * u])
    slope = single.mean(axis=-1)
    step = lr**2 * np.stack([slope * w + slopes[0], slope * u + slopes[1]]) ** 2
    weights = (pull, share.noise, share.gd)
    each = sum(c * (a - b) for c, (a, b) in zip(weights, (held, loud, step), strict=True))
    pulls = np.sum(np.abs([held, loud, step]), axis=(0, 1))
    scale = float(np.sum(pulls.mean(axis=0)))
    return Told({"drift": equals(np.sum(np.mean(each, axis=0)), scale=scale)})


def left_out(share: Share = ONE, pull: float = 1.0) -> Predict:
    """The drift with other weights of its terms."""
    return lambda setup, run: predict_drift(setup, run, share, pull)


def measure_drift(run: xr.Dataset) -> Measurements:
    """C at the end − C at the start."""
    return {"drift": paired(charges(run))}


def of_this_kind() -> list[Hypothesis]:
    """The net of the instances, with minibatches."""
    return [
        kind("the net is that of the instances", lambda s: s.net == NET),
        common.no_decay(),
        *sgd(),
    ]


EQ20 = Theorem(
    "equilibrium.eq20",
    r"If $L = \ell_1+\zeta\ell_2$ and only $\ell_1$ has the symmetry, SGD moves the charge by "
    r"$\dot C = -2\zeta\,\nabla\ell_2^\top A\theta+\kappa\,\mathrm{Tr}[\Sigma A]$ and the term "
    r"of a "
    r"finite step: it rests where the two cancel.",
    hypotheses=of_this_kind(),
    predict=predict_drift,
    measure=measure_drift,
    tolerance=EXACT,
    instances=away,
    controls=[
        Control("the second term does not count", away, left_out(pull=0.0), formula=True),
        Control(
            "there is no momentum",
            lambda key: away(key).replace(dynamics=Descent(LR, cases.BATCHES, 0.5)),
        ),
    ],
    terms={
        "the pull of the second term": left_out(pull=0.0),
        "noise": left_out(Share(noise=0.0)),
        "the term of a finite step": left_out(Share(gd=0.0)),
    },
    runs=few,
    nets=(FunctionNet,),
    needs=cases.PARAMS,
    given=("path",),
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (20)",
            r"$\dot C = -\zeta\nabla\ell_2^\top A\theta+\sigma^2\mathrm{Tr}[\Sigma A]$",
            r"that is for half the charge; with $\ell_2 = \|\theta\|^2$ it contradicts Eq (7) by 2",
            "convention",
            quote="Then, ˙CA(θ)=−ζ(∇ℓ2)⊺Aθ∗+σ2Tr[Σ(θ)A], whose fixed point is",
            note="The fixed point (20) is the same.",
            predict=left_out(Share(noise=0.5), 0.5),
        ),
    ),
    paper=PAPER,
    title="a charge with a broken symmetry",
)


THEOREMS = (EQ20,)
