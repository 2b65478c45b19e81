"""A symmetry that a second term of the loss breaks: how its charge moves, and where it is held.

θ = (u, w) with ℓ1 = (uᵀw·x − y)² and ζℓ2 = Σζ_i(θ_i − θ0_i)², which is a net with more outputs:
√ζ(θ − θ0), which every sample wants to be zero.
"""

from typing import NamedTuple

import jax
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
CROWD = 2048
FEW = np.arange(25)  # the term of a finite step is that of the first
HIDDEN = (1, 3)  # a key takes one of these
LATE = np.arange(0, 6001, 24)


def outputs(params, X):
    """uᵀw·x and what pulls at θ; then those of a companion that is linear in θ − θ0.

    θ0, the roots of the pulls and labels come with the inputs. The companion moves by the second
    order of every sample's loss at θ0 and sees the same batches. Its moments are known: it is
    there to be subtracted.
    """
    u, w, du, dw = (params[name] for name in ("u", "w", "du", "dw"))
    h = u.shape[0]
    x, u0, w0, pull_u, pull_w, y = jnp.split(X, [1, 1 + h, 1 + 2 * h, 2 + 2 * h, 3 + 2 * h], axis=1)
    x = x[:, 0]
    y = y[:, 0]
    bent = [(jnp.sum(u * w) * x)[:, None], pull_u * (u[None, :] - u0), pull_w * (w[None, :] - w0)]
    straight = [((w0 @ du + u0 @ dw) * x)[:, None], pull_u * du[None, :], pull_w * dw[None, :]]
    # One output that is 1, with half the gradient of what residuals bend.
    residual = jnp.sum(u0 * w0, axis=1) * x - y
    bend = residual * x * jnp.sum(du * dw)
    one = (1 + bend - jax.lax.stop_gradient(bend))[:, None]
    return jnp.concatenate([*bent, *straight, one], axis=1)


NETS = {h: general(outputs, dict.fromkeys(("u", "w", "du", "dw"), (h,))) for h in HIDDEN}


class Parts(NamedTuple):
    """What a problem of this kind is made of.

    Attributes:
        x: inputs.
        y: labels.
        theta0: the common minimum, (2h,).
        pulls: ζ of every coordinate, (2h,): they need not be equal.
    """

    x: np.ndarray
    y: np.ndarray
    theta0: np.ndarray
    pulls: np.ndarray


def held(key: int, noise: Noise | None = cases.BATCHES, off: float = 0.0) -> Setup:
    """A start at the common minimum of both terms, or u away from it."""
    rng = generator(key, "equilibrium approximate")
    h = HIDDEN[key % len(HIDDEN)]
    x = rng.uniform(0.6, 1.6, size=N)
    eps = rng.standard_normal(N)
    eps -= x * (x @ eps) / (x @ x)  # so that the least squares solution is u0·w0
    u0 = rng.uniform(1.0, 1.4, size=h) / np.sqrt(h)
    w0 = rng.uniform(0.3, 0.5, size=h) / np.sqrt(h)
    pulls = ZETA * rng.uniform(0.6, 1.6, size=2)
    given = np.concatenate([u0, w0, np.sqrt(pulls)])
    y = (u0 @ w0) * x + 1.5 * eps
    X = np.column_stack([x, np.tile(given, (N, 1)), y])
    still = np.zeros((N, 2 * h))
    Y = np.column_stack([y, still, 1.5 * eps, still, np.zeros(N)])
    zero = np.zeros(h)
    params = {"u": u0 + off / np.sqrt(h), "w": w0, "du": zero, "dw": zero}
    until = Until(steps=int(LATE[-1]))
    problem = Regression.mean(X, Y)
    return Setup(problem, NETS[h], params, Descent(LR, noise), until, cases.PARAMS, LATE, key)


def away(key: int) -> Setup:
    """A start away from the minimum."""
    return held(key, off=-0.8)


def parts(setup: Setup) -> Parts:
    """Of a problem of this kind."""
    problem = common.regression(setup)
    X = np.asarray(problem.X)
    h = np.size(setup.params["u"])
    pulls = np.repeat(X[0, 1 + 2 * h : -1] ** 2, h)
    return Parts(X[:, 0], np.asarray(problem.Y)[:, 0], X[0, 1 : 1 + 2 * h], pulls)


def few(setup: Setup) -> Ensemble:
    """A few steps with many draws."""
    return draws(setup, CROWD, until=Until(steps=int(FEW[-1])), save_at=FEW)


def charges(data: xr.Dataset) -> np.ndarray:
    """|u|² − |w|², (members, saves)."""
    u, w = (data[f"params_{name}"].values for name in "uw")
    return np.sum(u * u, axis=-1) - np.sum(w * w, axis=-1)


def halves(values: np.ndarray) -> list[np.ndarray]:
    """Of u and of w."""
    return np.split(values, 2)


def predict_drift(setup: Setup, run: xr.Dataset, share: Share = ONE, pull: float = 1.0) -> Told:
    """Eq 20 and the term of a finite step, along every path; `pull` multiplies that of ℓ2."""
    x, y, theta0, pulls = parts(setup)
    theta = [run[f"params_{n}"].values[:, :-1] for n in "uw"]
    lr = common.learning_rate(setup)
    product = np.sum(theta[0] * theta[1], axis=-1)
    single = 2 * (product[..., None] * x - y) * x
    slope = single.mean(axis=-1)[..., None]
    slopes = [
        2 * z * (t - t0) for z, t, t0 in zip(halves(pulls), theta, halves(theta0), strict=True)
    ]
    held = -2 * lr * np.stack([np.sum(g * t, -1) for g, t in zip(slopes, theta, strict=True)])
    other = theta[::-1]
    sizes = np.stack([np.sum(t * t, axis=-1) for t in other])
    loud = lr * kappa(setup) * np.var(single, axis=-1) * sizes
    whole = [slope * t + g for t, g in zip(other, slopes, strict=True)]
    step = lr**2 * np.stack([np.sum(g * g, axis=-1) for g in whole])
    weights = (pull, share.noise, share.gd)
    each = sum(c * (a - b) for c, (a, b) in zip(weights, (held, loud, step), strict=True))
    all_pulls = np.sum(np.abs([held, loud, step]), axis=(0, 1))
    scale = float(np.sum(all_pulls.mean(axis=0)))
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
        kind("the net is that of the instances", lambda s: s.net in NETS.values()),
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
