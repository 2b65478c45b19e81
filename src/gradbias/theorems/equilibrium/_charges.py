"""How charges move without a mean: kept by gradient flow, changed exactly by steps."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Flow
from ...nets import NormalisedA, NormalisedB
from .. import _shared_hypotheses as common
from .._claims import at_least, equals, measured
from .._erratum import Erratum, Evidence
from .._hypothesis import kind
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Theorem
from . import _instances as cases
from ._errata import mean_step
from ._facts import decay, no_momentum, symmetric

TIME = 2.0


def charges(setup: Setup, params: Any) -> np.ndarray:
    """All charges of a net in one vector."""
    return np.concatenate([np.ravel(s.charge(params)) for s in setup.net.symmetries().values()])


def size(setup: Setup) -> float:
    """‖θ‖² at the start; 1 where all parameters are zero, and so are charges."""
    return sum(float(np.sum(np.square(x))) for x in setup.params.values()) or 1.0


def kept(setup: Setup) -> dict[str, Any]:
    """The charges of the start."""
    return {"charge": equals(charges(setup, setup.params), scale=size(setup))}


def last_charge(runs: Any) -> dict[str, Any]:
    """The charges at the end."""
    return {"charge": charges(runs["run"].setup, runs["run"].final)}


def flowing(key: int, gamma: float = 0.0) -> Setup:
    """Gradient flow for a while."""
    moves = Flow(rtol=1e-11, atol=1e-13, weight_decay=gamma)
    return cases.pair(
        key, dynamics=moves, until=Until(time=TIME), save_at=[0, TIME], record=cases.PARAMS
    )


EQ4 = Theorem(
    "equilibrium.eq4",
    r"Where the loss of every sample is the same at $\theta$ and at $e^{\lambda A}\theta$, "
    r"gradient flow keeps the charge $C = \theta^\top A\theta$; of $y = UWx$ it keeps "
    r"$U^\top U-WW^\top$.",
    [symmetric(), common.no_decay()],
    kept,
    last_charge,
    1e-9,
    flowing,
    [Control("the path is gradient flow's", lambda key: cases.pair(key, decay=0.0))],
    dynamics=(Flow,),
    source=SOURCE,
    title="charges that gradient flow keeps",
    narrow=True,
)


def summed(setup: Setup, runs: Any) -> dict[str, Any]:
    """C(0), plus lr²gᵀAg and less 4γ·lr(1 − γ·lr)C of every step."""
    data, gamma = runs["run"].data, decay(setup)
    drift, once, twice = (_sums(setup, data, name) for name in ("drift", "once", "twice"))
    moved = drift - 4 * gamma * (once - gamma * twice)
    return {"charge": equals(charges(setup, setup.params) + moved, scale=size(setup))}


def _sums(setup: Setup, data: Any, name: str) -> np.ndarray:
    """A running sum by charge, (saves, charges), in the order in which the net lists them."""
    found = [data[f"{name}_{charge}"].values for charge in setup.net.symmetries()]
    return np.concatenate([x.reshape(len(x), -1) for x in found], axis=1)


def seen_charges(runs: Any) -> dict[str, Any]:
    """The charges at every save."""
    run = runs["run"]
    return {"charge": np.asarray([charges(run.setup, p) for p in cases.path(run.data)])}


def rounded_charges(runs: Any) -> dict[str, Any]:
    """The same, with what rounding makes of them in so many steps."""
    run, charge = runs["run"], seen_charges(runs)["charge"]
    steps = np.asarray(run.setup.save_at, dtype=np.float64)
    sizes = [sum(float(np.sum(x * x)) for x in p.values()) for p in cases.path(run.data)]
    error = np.finfo(np.float64).eps * steps * np.maximum.accumulate(sizes)
    return {"charge": measured(charge, error=np.broadcast_to(error[:, None], charge.shape))}


def decayed(setup: Setup, runs: Any) -> dict[str, Any]:
    """What decay alone leaves of the charges at every save."""
    left = np.exp(-4 * decay(setup) * np.asarray(runs["run"].data["time"].values))
    return {"charge": equals(np.outer(left, charges(setup, setup.params)), scale=size(setup))}


BALANCE = Theorem(
    "equilibrium.decay",
    r"Weight decay alone takes every charge to 0, $C(t) = e^{-4\gamma t}C(0)$ along gradient flow: "
    r"it balances the norms of two layers, whatever the noise of either is; SGD without decay "
    r"balances the noise.",
    [symmetric(), kind("there is weight decay", lambda s: decay(s) > 0)],
    decayed,
    seen_charges,
    1e-9,
    lambda key: flowing(key, cases.DECAY),
    [
        Control(
            "γ is that of the run",
            lambda key: flowing(key, cases.DECAY),
            lambda s, runs: decayed(flowing(s.key, cases.DECAY / 4), runs),
        )
    ],
    needs=cases.PARAMS,
    given=("times",),
    dynamics=(Flow,),
    source=SOURCE,
    title="what weight decay does by itself",
    narrow=True,
)


def without_decay(key: int) -> Evidence:
    """One step by hand, with one batch of two."""
    problem, params = cases.data(key), cases.pair(key).params
    step = mean_step(problem, params, cases.LR, cases.DECAY, batches=[(0, 1)])
    square = step.noise + step.gd
    printed, corrected = (c + square - step.after for c in (step.before, step.kept))
    return Evidence(*(float(np.linalg.norm(x)) / step.size for x in (printed, corrected)))


LAW = Theorem(
    "equilibrium.eq98",
    r"One step of SGD with any batch and any step size moves a charge by exactly "
    r"$\Delta C = -4\eta\gamma(1-\eta\gamma)C + \eta^2 g^\top A g$.",
    [symmetric(), no_momentum()],
    summed,
    rounded_charges,
    1e-12,
    cases.pair,
    [
        Control(
            "there is no momentum",
            lambda key: cases.pair(
                key, dynamics=Descent(cases.LR, cases.BATCHES, 0.5, cases.DECAY)
            ),
        )
    ],
    needs=cases.EXACT,
    given=("gradients",),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (98)",
            r"$\Delta C = \eta^2 g^\top A g$, also with weight decay",
            r"$C' = (1-2\eta\gamma)^2C + \eta^2g^\top Ag$",
            "numeric",
            without_decay,
        ),
    ),
    source=SOURCE,
    title="what one step does to a charge, exactly",
    narrow=True,
)


def rises(setup: Setup) -> dict[str, Any]:
    """From one save to the next the charge does not fall."""
    return {"rise": at_least(np.zeros(len(setup.save_at) - 1), scale=size(setup))}


def seen_rises(runs: Any) -> dict[str, Any]:
    """The differences of ‖θ‖² from save to save."""
    return {"rise": np.diff(squares(runs["run"]))}


def squares(run: Any) -> np.ndarray:
    """‖θ‖² at every save."""
    return np.asarray([sum(float(np.sum(x * x)) for x in p.values()) for p in cases.path(run.data)])


EQ5 = Theorem(
    "equilibrium.eq5",
    r"$\dot C = \frac{\kappa}{2}\mathrm{Tr}[\Sigma\nabla^2C]$: where $\nabla^2C = 2A$ has no "
    r"negative eigenvalue, as under scale invariance, $C$ never falls, at no step and for no "
    r"batch.",
    [common.no_decay(), no_momentum()],
    rises,
    seen_rises,
    1e-12,
    lambda key: cases.scale(key, decay=0.0),
    [Control("there is no weight decay", cases.scale)],
    nets=(NormalisedA, NormalisedB),
    needs=cases.PARAMS,
    dynamics=(Descent,),
    source=SOURCE,
    title="a positive charge never falls",
)

THEOREMS = (EQ4, BALANCE, EQ5, LAW)
