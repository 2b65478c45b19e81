"""Where noise holds the charge of a broken symmetry: first order in κ, fluctuations included."""

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._engine.setup import Setup
from ...dynamics import Descent
from ...nets import FunctionNet
from ...numerics.host_rng import generator
from ...problems import Regression
from ...theory.symmetry import approximate_bias, printed
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis, kind
from .._per_setup import fact
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Ensemble, Theorem
from . import _instances as cases
from ._broken_symmetry import LR, MEMBERS, ZETA, A, N, charges, held, of_this_kind, parts
from ._facts import kappa
from ._measurements import CHANCE, draws, late


def loss1(theta, x, y):
    """(uwx − y)²."""
    return (theta[0] * theta[1] * x - y) ** 2


@functools.lru_cache(maxsize=16)
def _bias(x: bytes, y: bytes, theta0: bytes) -> Any:
    """Remembered by value: its derivatives compile anew for each call."""
    first, second, star = (np.frombuffer(array) for array in (x, y, theta0))
    pull = functools.partial(distance, star)
    return approximate_bias(loss1, pull, ZETA, star, (first, second), A)


def distance(star: np.ndarray, theta):
    """|θ − θ0|²."""
    return jnp.sum((theta - star) ** 2)


@fact
def bias(setup: Setup) -> Any:
    """The stationary state per unit of κ."""
    x, y, theta0 = (np.ascontiguousarray(array).tobytes() for array in parts(setup))
    return _bias(x, y, theta0)


def biased(setup: Setup) -> dict[str, Any]:
    """E[C] − C*."""
    return {"bias": kappa(setup) * bias(setup).charge_bias}


def members(setup: Setup) -> Ensemble:
    """Many draws."""
    return draws(setup, MEMBERS)


def seen_biased(runs: Any) -> dict[str, Any]:
    """The mean over members and the second half."""
    found = charges(runs["run"])
    return {"bias": late(runs["run"], found - found[:, :1])}


def next_order(setup: Setup) -> float:
    """The next order: κ times the curvature of the first term, as for a misadjusted loss."""
    x, _, theta0 = parts(setup)
    return 2 * kappa(setup) * (2 * float(np.mean(x * x)) * float(theta0 @ theta0) + 2 * ZETA)


def printed_23(key: int) -> Evidence:
    """2σ²Tr[ΣA]/ζh against many paths by hand, at a smaller step."""
    setup = held(key)
    x, y, theta0 = parts(setup)
    lr, many, steps = LR / 4, 4000, 2000
    rng = generator(key, "equilibrium printed 23")
    u, w = (np.full(many, t) for t in theta0)
    total = np.zeros(many)
    for k in range(steps):
        i = rng.integers(N, size=many)
        g = 2 * (u * w * x[i] - y[i]) * x[i]
        u, w = (
            u - lr * (g * w + 2 * ZETA * (u - theta0[0])),
            w - lr * (g * u + 2 * ZETA * (w - theta0[1])),
        )
        if k >= steps // 4:
            total += u * u - w * w
    each = total / (steps - steps // 4) - (theta0[0] ** 2 - theta0[1] ** 2)
    truth, error = each.mean(), each.std() / np.sqrt(many)
    found = bias(setup)
    wrong, right = lr * printed.approximate_charge(found.trace, ZETA, 2.0), lr * found.charge_bias
    return Evidence(abs(wrong / truth - 1), abs(right / truth - 1), z=abs(wrong - truth) / error)


EQ23 = Theorem(
    "equilibrium.eq23",
    r"SGD holds a broken charge at $E[C] = C^*+2\theta^{*\top}Am+\mathrm{Tr}[AQ]$, to first "
    r"order in "
    r"$\kappa$, with $HQ+QH = \kappa\Sigma$ and $m = -\frac{1}{2}H^{-1}D^3L[Q]$, $H$ the "
    r"Hessian of "
    r"the whole loss at its minimum $\theta^*$.",
    [
        *of_this_kind(),
        kind("the start is the minimum", lambda s: _at_minimum(s)),
        Hypothesis("the step is small", next_order, 0.5, graded=True, order="O(κ)"),
    ],
    biased,
    seen_biased,
    2 * CHANCE,
    held,
    [
        Control(
            "the noise is that of minibatches",
            lambda key: held(key, None),
            lambda s: biased(held(s.key)),
        )
    ],
    runs=members,
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
            "numeric",
            printed_23,
            "Nearly right where ζh is small beside the curvature of the symmetric term only.",
        ),
    ),
    source=SOURCE,
    title="where noise holds a broken charge",
    slow=True,
)


def _at_minimum(setup: Setup) -> bool:
    x, y, theta0 = parts(setup)
    here = np.array([setup.params["u"], setup.params["w"]])
    slope = np.mean(2 * (here.prod() * x - y) * x)
    return bool(np.allclose(here, theta0) and abs(slope) < 1e-8)


THEOREMS = (EQ23,)
