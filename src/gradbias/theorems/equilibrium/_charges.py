"""How charges move without a mean: kept by gradient flow, changed exactly by steps."""

import numpy as np
import xarray as xr

from ...dynamics import Descent, Flow
from ..prelude import (
    Claim,
    Claims,
    Control,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    common,
    equals,
    kind,
    measured,
    setup_of,
)
from . import _instances as cases
from ._facts import decay, no_momentum, symmetric
from ._paper import PAPER

TIME = 2.0


def charges(setup: Setup, params: cases.Params) -> np.ndarray:
    """All charges of a net in one vector."""
    return np.concatenate([np.ravel(s.charge(params)) for s in setup.net.symmetries().values()])


def size(setup: Setup) -> float:
    """‖θ‖² at the start; 1 where all parameters are zero, and so are charges."""
    return sum(float(np.sum(np.square(x))) for x in setup.params.values()) or 1.0


def predict_kept(setup: Setup) -> Claims:
    """The charges of the start."""
    return {"charge": equals(charges(setup, setup.params), scale=size(setup))}


def measure_kept(run: Run) -> Measurements:
    """The charges at the end."""
    return {"charge": charges(setup_of(run), run.final)}


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
    hypotheses=[symmetric(), common.no_decay()],
    predict=predict_kept,
    measure=measure_kept,
    tolerance=1e-9,
    instances=flowing,
    controls=[Control("the path is gradient flow's", lambda key: cases.pair(key, decay=0.0))],
    dynamics=(Flow,),
    paper=PAPER,
    title="charges that gradient flow keeps",
    narrow=True,
)


def predict_summed(setup: Setup, run: Run) -> Claims:
    """C(0), plus lr²gᵀAg and less 4γ·lr(1 − γ·lr)C of every step."""
    data = run.data
    gamma = decay(setup)
    drift, once, twice = (_sums(setup, data, name) for name in ("drift", "once", "twice"))
    moved = drift - 4 * gamma * (once - gamma * twice)
    return {"charge": equals(charges(setup, setup.params) + moved, scale=size(setup))}


def predict_undecayed(setup: Setup, run: Run) -> Claims:
    """lr²gᵀAg of every step alone."""
    moved = _sums(setup, run.data, "drift")
    return {"charge": equals(charges(setup, setup.params) + moved, scale=size(setup))}


def predict_unstepped(setup: Setup, run: Run) -> Claims:
    """What decay alone takes."""
    told = predict_summed(setup, run)["charge"]
    assert isinstance(told, Claim)
    return {"charge": equals(told.value - _sums(setup, run.data, "drift"), scale=told.scale)}


def _sums(setup: Setup, data: xr.Dataset, name: str) -> np.ndarray:
    """A running sum by charge, (saves, charges), in the order in which the net lists them."""
    sums = [data[f"{name}_{charge}"].values for charge in setup.net.symmetries()]
    return np.concatenate([x.reshape(len(x), -1) for x in sums], axis=1)


def measure_decayed(run: Run) -> dict[str, np.ndarray]:
    """The charges at every save."""
    return {"charge": np.asarray([charges(setup_of(run), p) for p in cases.path(run.data)])}


def measure_summed(run: Run) -> Measurements:
    """The same, with what rounding makes of them in so many steps."""
    charge = measure_decayed(run)["charge"]
    steps = np.asarray(setup_of(run).save_at, dtype=np.float64)
    sizes = [sum(float(np.sum(x * x)) for x in p.values()) for p in cases.path(run.data)]
    error = np.finfo(np.float64).eps * steps * np.maximum.accumulate(sizes)
    return {"charge": measured(charge, error=np.broadcast_to(error[:, None], charge.shape))}


def predict_decayed(setup: Setup, run: Run) -> Claims:
    """What decay alone leaves of the charges at every save."""
    left = np.exp(-4 * decay(setup) * np.asarray(run.data["time"].values))
    return {"charge": equals(np.outer(left, charges(setup, setup.params)), scale=size(setup))}


def predict_slower(setup: Setup, run: Run) -> Claims:
    """With a quarter of the rate."""
    return predict_decayed(flowing(setup.key, cases.DECAY / 4), run)


def predict_unmoved(setup: Setup, run: Run) -> Claims:
    """No decay."""
    return predict_decayed(flowing(setup.key), run)


BALANCE = Theorem(
    "equilibrium.decay",
    r"Weight decay alone takes every charge to 0, $C(t) = e^{-4\gamma t}C(0)$ along gradient flow: "
    r"it balances the norms of two layers, whatever the noise of either is; SGD without decay "
    r"balances the noise.",
    hypotheses=[symmetric(), kind("there is weight decay", lambda s: decay(s) > 0)],
    predict=predict_decayed,
    measure=measure_decayed,
    tolerance=1e-9,
    instances=lambda key: flowing(key, cases.DECAY),
    controls=[
        Control(
            "−γC for −4γC",
            lambda key: flowing(key, cases.DECAY),
            predict_slower,
            formula=True,
        ),
        Control(
            "there is weight decay",
            flowing,
            lambda s, run: predict_decayed(flowing(s.key, cases.DECAY), run),
        ),
    ],
    terms={"decay": predict_unmoved},
    needs=cases.PARAMS,
    given=("times",),
    dynamics=(Flow,),
    paper=PAPER,
    title="what weight decay does by itself",
    narrow=True,
)


LAW = Theorem(
    "equilibrium.eq98",
    r"One step of SGD with any batch and any step size moves a charge by exactly "
    r"$\Delta C = -4\eta\gamma(1-\eta\gamma)C + \eta^2 g^\top A g$.",
    hypotheses=[symmetric(), no_momentum()],
    predict=predict_summed,
    measure=measure_summed,
    tolerance=1e-12,
    instances=cases.pair,
    paper_size=cases.of_paper,
    controls=[
        Control(
            "there is no momentum",
            lambda key: cases.pair(
                key, dynamics=Descent(cases.LR, cases.BATCHES, 0.5, cases.DECAY)
            ),
        )
    ],
    terms={"decay": predict_undecayed, "the step's own term": predict_unstepped},
    needs=cases.EXACT,
    given=("gradients",),
    dynamics=(Descent,),
    errata=(),
    paper=PAPER,
    title="what one step does to a charge, exactly",
    narrow=True,
)

THEOREMS = (EQ4, BALANCE, LAW)
