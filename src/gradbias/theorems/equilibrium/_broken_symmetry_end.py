"""Where noise holds the charge of a broken symmetry: first order in κ, fluctuations included."""

import functools

import jax.numpy as jnp
import numpy as np

from ...dynamics import Descent
from ...nets import FunctionNet
from ...noise import Noise
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory.symmetry import ApproximateBias, approximate_bias, printed
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Evidence,
    Hypothesis,
    Measurements,
    Runs,
    Setup,
    Theorem,
    fact,
    kind,
    measured,
)
from . import _instances as cases
from ._broken_symmetry import LR, ZETA, A, N, charges, held, of_this_kind, parts
from ._factorisation_end import both_steps, datasets
from ._facts import kappa
from ._measurements import EXACT, late
from ._paper import PAPER

CROWD = 2048


def loss1(theta, x, y):
    """(uwx − y)²."""
    return (theta[0] * theta[1] * x - y) ** 2


@functools.lru_cache(maxsize=16)
def _bias(x: bytes, y: bytes, theta0: bytes) -> ApproximateBias:
    """Remembered by value: its derivatives compile anew for each call."""
    first, second, star = (np.frombuffer(array) for array in (x, y, theta0))
    pull = functools.partial(distance, star)
    return approximate_bias(loss1, pull, ZETA, star, (first, second), A)


def distance(star: np.ndarray, theta):
    """|θ − θ0|²."""
    return jnp.sum((theta - star) ** 2)


@fact
def bias(setup: Setup) -> ApproximateBias:
    """The stationary state per unit of κ."""
    x, y, theta0 = (np.ascontiguousarray(array).tobytes() for array in parts(setup))
    return _bias(x, y, theta0)


def predict_biased(setup: Setup) -> Claims:
    """E[C] − C*."""
    return {"bias": kappa(setup) * bias(setup).charge_bias}


def predict_printed_23(setup: Setup) -> Claims:
    """2σ²Tr[ΣA]/ζh."""
    return {"bias": kappa(setup) * printed.approximate_charge(bias(setup).trace, ZETA, 2.0)}


def both(setup: Setup) -> dict[str, Ensemble]:
    """Many draws at this step and at half of it."""
    return both_steps(setup, CROWD)


def settling(key: int, noise: Noise | None = cases.BATCHES) -> Setup:
    """From the minimum, with the saves that a mean over time needs."""
    setup = held(key, noise)
    return setup.replace(save_at=np.asarray(setup.save_at)[::4])


def measure_biased(runs: Runs) -> Measurements:
    """The mean over members and the second half, without its part of second order in κ.

    A step and half of it tell that part: 4·half − whole is the first order.
    """
    step, half = (late(run, charges(run) - charges(run)[:, :1]) for run in datasets(runs))
    assert step.standard_error is not None and half.standard_error is not None
    error = np.hypot(step.standard_error, 4 * half.standard_error)
    return {"bias": measured(4 * half.value - step.value, standard_error=error)}


def next_order(setup: Setup) -> float:
    """The order that is left: κ times the curvature of the loss, squared."""
    x, _, theta0 = parts(setup)
    curvature = 2 * float(np.mean(x * x)) * float(theta0 @ theta0) + 2 * ZETA
    return (kappa(setup) * curvature) ** 2


def printed_23(key: int) -> Evidence:
    """2σ²Tr[ΣA]/ζh against many paths by hand, at a smaller step."""
    setup = held(key)
    x, y, theta0 = parts(setup)
    lr = LR / 4
    many = 4000
    steps = 2000
    rng = generator(key, "equilibrium printed 23")
    u, w = (np.full(many, t) for t in theta0)
    total = np.zeros(many)
    for k in range(steps):
        i = rng.integers(N, size=many)
        g = 2 * (u * w * x[i] - y[i]) * x[i]
        pull_u = g * w + 2 * ZETA * (u - theta0[0])
        pull_w = g * u + 2 * ZETA * (w - theta0[1])
        u = u - lr * pull_u
        w = w - lr * pull_w
        if k >= steps // 4:
            total += u * u - w * w
    each = total / (steps - steps // 4) - (theta0[0] ** 2 - theta0[1] ** 2)
    truth = each.mean()
    error = each.std() / np.sqrt(many)
    state = bias(setup)
    wrong = lr * printed.approximate_charge(state.trace, ZETA, 2.0)
    right = lr * state.charge_bias
    # The next order in κ, at a quarter of the step.
    doubt = float(error / abs(truth))
    return Evidence(abs(wrong / truth - 1), abs(right / truth - 1), doubt, tolerance=0.1)


EQ23 = Theorem(
    "equilibrium.eq23",
    r"SGD holds a broken charge at $E[C] = C^*+2\theta^{*\top}Am+\mathrm{Tr}[AQ]$, to first "
    r"order in "
    r"$\kappa$, with $HQ+QH = \kappa\Sigma$ and $m = -\frac{1}{2}H^{-1}D^3L[Q]$, $H$ the "
    r"Hessian of "
    r"the whole loss at its minimum $\theta^*$.",
    hypotheses=[
        *of_this_kind(),
        kind("the start is the minimum", lambda s: _at_minimum(s)),
        Hypothesis("the step is small", next_order, 0.5, graded=True, order="O(κ²)"),
    ],
    predict=predict_biased,
    measure=measure_biased,
    tolerance=2 * EXACT,
    instances=settling,
    controls=[
        Control(
            "the noise is that of minibatches",
            lambda key: settling(key, None),
            lambda s: predict_biased(held(s.key)),
        )
    ],
    runs=both,
    nets=(FunctionNet,),
    needs=cases.PARAMS,
    problems=(Regression,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (21)-(23)",
            r"$C = C^*+2\sigma^2\mathrm{Tr}[\Sigma A]/\zeta h$",
            r"less $\mathrm{Tr}[AQ]$: the fluctuations of $\theta$ are of the same order; and "
            r"$\nabla\ell_2(\theta^*) = 0$ is needed",
            "false",
            evidence=printed_23,
            quote="C(θ)=C∗+2(θ−θ∗)⊺Aθ∗+O(∥θ−θ∗∥2)=C∗+2σ2 ζh∗Tr[ΣA]. (23)",
            predict=predict_printed_23,
            note="Nearly right where ζh is small beside the curvature of the symmetric term only.",
        ),
    ),
    paper=PAPER,
    title="where noise holds a broken charge",
    slow=True,
)


def _at_minimum(setup: Setup) -> bool:
    x, y, theta0 = parts(setup)
    here = np.array([setup.params["u"], setup.params["w"]])
    slope = np.mean(2 * (here.prod() * x - y) * x)
    return bool(np.allclose(here, theta0) and abs(slope) < 1e-8)


THEOREMS = (EQ23,)
