"""Scale invariance, A = I: noise makes the norm grow, decay holds it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...dynamics import Descent
from ...nets import NormalisedA
from ...problems import Regression
from ...theory.symmetry import equilibrium_norm
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Evidence,
    Hypothesis,
    Measurements,
    Setup,
    Theorem,
    Until,
    common,
    kind,
    measured,
)
from . import _instances as cases
from ._facts import decay, kappa, sgd
from ._measurements import CHANCE, draws, late
from ._paper import PAPER

LR = 0.05
DECAY = 0.01
MEMBERS = 12
LATE = np.concatenate([[0], np.arange(3000, 6001, 300)])


def long(key: int, gamma: float = DECAY, grown: float = 1.0) -> Setup:
    """SGD for twelve times 1/4ηγ."""
    params = {n: grown * p for n, p in cases.scale(key).params.items()}
    moves = Descent(LR, cases.BATCHES, weight_decay=gamma)
    until = Until(steps=int(LATE[-1]))
    given = {"params": params, "dynamics": moves, "until": until, "save_at": LATE}
    return cases.scale(key, **given)


def ensemble(setup: Setup) -> Ensemble:
    """Many draws."""
    return draws(setup, MEMBERS)


def norms(data: xr.Dataset) -> np.ndarray:
    """‖θ‖², (members, saves)."""
    u = data["params_u"].values
    w = data["params_w"].values
    return np.sum(u * u, axis=(-2, -1)) + np.sum(w * w, axis=(-2, -1))


def predict_norm(setup: Setup, run: xr.Dataset) -> Claims:
    """The norm at which the run's own pushes and its decay agree, from late saves."""
    data = run
    per = common.learning_rate(setup) / kappa(setup)
    # Both pushes fall as 1/‖θ‖²; that of the mean gradient is small beside the noise, not nothing.
    traces = data["push_noise"].values + per * data["push_mean"].values
    # Every point of the path tells a fourth power of the norm.
    product = float(late(data, traces * norms(data)).value)
    return {"norm": equilibrium_norm(product, 1.0, kappa(setup), decay(setup))}


def predict_printed_norm(setup: Setup, run: xr.Dataset) -> Claims:
    """With γ for 4γ and σ² = κ/2 for κ: 2^¼ times as large."""
    return {"norm": 2**0.25 * float(np.asarray(predict_norm(setup, run)["norm"]))}


def measure_norm(run: xr.Dataset) -> Measurements:
    """The norm over members and late saves."""
    square = late(run, norms(run))
    mean = float(np.sqrt(square.value))
    assert square.standard_error is not None
    return {"norm": measured(mean, standard_error=square.standard_error / (2 * mean))}


def printed_24(key: int) -> Evidence:
    """The drift of ‖θ‖² against the mean of one step over all batches of two, by autodiff."""
    setup = cases.scale(key)
    problem = common.regression(setup)
    X = jnp.asarray(problem.X)
    Y = jnp.asarray(problem.labels)
    net = setup.net

    def loss(params, rows):
        return jnp.mean(jnp.sum((net(params, X[rows]) - Y[rows]) ** 2, axis=1))

    slopes = jax.vmap(jax.grad(loss), (None, 0))
    rows = np.arange(len(X))
    single = slopes(setup.params, rows[:, None])
    pairs = slopes(setup.params, np.array(list(itertools.product(rows, rows))))
    keep = 1 - 2 * LR * DECAY
    size = trace = moved = 0.0
    for name, p in setup.params.items():
        g = np.asarray(pairs[name])
        size += float(np.sum(p * p))
        trace += float(np.sum(np.var(np.asarray(single[name]), axis=0)))
        after = np.sum(np.mean((keep * p - LR * g) ** 2, axis=0))
        moved += float(after - np.sum(p * p) - LR**2 * np.sum(g.mean(axis=0) ** 2))
    truth = moved / LR
    rate = LR / cases.S
    forms = -DECAY * size + rate / 2 * trace, -4 * DECAY * size + rate * trace
    pulls = 4 * DECAY * size + rate * trace
    errors = [abs(f - truth) / pulls for f in forms]
    return Evidence(*errors, tolerance=2 * LR * DECAY)  # (1 − 2ηγ)² is not 1 − 4ηγ


EQ24 = Theorem(
    "equilibrium.eq24",
    r"Scale-invariant weights: $\frac{d}{dt}\|\theta\|^2 = -4\gamma\|\theta\|^2+\kappa\,\mathrm{Tr}"
    r"\Sigma$, and $\mathrm{Tr}\Sigma \propto 1/\|\theta\|^2$, so the norm stops at "
    r"$\|\theta^*\|^4 = \kappa\,\mathrm{Tr}\Sigma(\theta/\|\theta\|)/4\gamma$ (with the term of a "
    r"finite step added to the noise); without decay it grows for ever.",
    hypotheses=[
        *sgd(),
        kind("there is weight decay", lambda s: decay(s) > 0),
        kind("the run is long", lambda s: _long_enough(s)),
        Hypothesis("ηγ is small", lambda s: _grade(s), 0.3, graded=True, order="O(√(ηγ))"),
    ],
    predict=predict_norm,
    measure=measure_norm,
    tolerance=CHANCE,
    instances=long,
    controls=[
        Control(
            "decay holds the norm",
            lambda key: long(key, 1e-9, grown=30.0),
            lambda s, run: predict_norm(long(s.key), run),
        )
    ],
    runs=ensemble,
    nets=(NormalisedA,),
    needs=cases.PUSHED,
    given=("gradient noise",),
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (24)",
            r"$\frac{d}{dt}\|\theta\|^2 = -\gamma\|\theta\|^2+\sigma^2\mathrm{Tr}\Sigma$",
            r"$-4\gamma\|\theta\|^2+\kappa\mathrm{Tr}\Sigma$",
            "misprint",
            evidence=printed_24,
            quote="dt∥θt∥2=−γ∥θt∥2+σ2Tr[Σ(θt)]. (24)",
            note="(7) with A = I has 4γ.",
            predict=predict_printed_norm,
        ),
    ),
    paper=PAPER,
    title="the norm that decay and noise agree on",
    slow=True,
)


def _long_enough(setup: Setup) -> bool:
    steps = np.asarray(setup.save_at)
    rate = 4 * common.learning_rate(setup) * decay(setup)
    return len(steps) > 2 and bool(rate * steps[1] >= 6)


def _grade(setup: Setup) -> float:
    # At equilibrium directions turn with a step η/‖θ‖² ∝ √(ηγ): the norm fluctuates that much.
    return float(np.sqrt(common.learning_rate(setup) * decay(setup)))


THEOREMS = (EQ24,)
