"""The mean motion of charges: SGD's own, and that of its relatives."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ...dynamics import Descent, Diffusion, Flow
from ...nets import TwoLayer
from ...noise import Minibatch
from ...problems import Population, Regression
from ..prelude import (
    Claim,
    Control,
    Ensemble,
    Erratum,
    Measured,
    Measurements,
    Predict,
    Run,
    Runs,
    Setup,
    Theorem,
    Told,
    Until,
    common,
    equals,
    kind,
    measured,
    setup_of,
)
from . import _instances as cases
from ._drifts import ONE, Share, layers, paired, predict_drift, summed, terms
from ._errata import balance_9, balance_43, printed_7
from ._facts import constant_lr, decay, kappa, minibatches, no_momentum, noise_of, sgd
from ._facts_units import charges
from ._measurements import EXACT, draws
from ._paper import PAPER

BATCHES = Minibatch(4, replace=True)
MEMBERS = 4096
FEW = np.arange(65)
NO_NOISE = Share(noise=0.0)
NO_GD = Share(gd=0.0)
NO_DECAY = Share(decay=0.0)


def loud(key: int, decay: float = cases.DECAY, **more: Any) -> Setup:
    """SGD on a factorisation whose first layer starts larger."""
    d, k, h, _ = cases.shape(key)
    params = cases.start(key, {"W1": (d, h), "W2": (h, k)}, 1.4 / np.sqrt(h), 0.4 / np.sqrt(h))
    given = {
        "dynamics": Descent(cases.LR, BATCHES, weight_decay=decay),
        "params": params,
        **more,
    }
    return cases.pair(key, decay, **given)


def short(setup: Setup) -> Ensemble:
    """A few steps from one point with many draws."""
    until = Until(steps=int(FEW[-1]))
    return draws(setup, MEMBERS, until=until, save_at=FEW, record=cases.PARAMS)


def points(data: xr.Dataset) -> dict[str, np.ndarray]:
    """Parameters (members, saves, …)."""
    return {name: data[f"params_{name}"].values for name in ("W1", "W2")}


def left_out(share: Share) -> Predict:
    """The drift with other weights of its terms."""
    return lambda setup, run: predict_drift(setup, run, share)


EQ7 = Theorem(
    "equilibrium.eq7",
    r"In the mean SGD moves a charge by $\dot C = -4\gamma C + \kappa\,\mathrm{Tr}[\Sigma A] + "
    r"\eta\,\nabla L^\top A\nabla L$ with $\kappa = \eta/S$ (here for every hidden unit): what "
    r"has more noise grows.",
    hypotheses=sgd(),
    predict=predict_drift,
    measure=lambda run: {"drift": paired(charges(points(run)))},
    tolerance=EXACT,
    instances=loud,
    controls=[
        Control("there is no decay", loud, left_out(NO_DECAY), formula=True),
        Control(
            "there is no momentum",
            lambda key: loud(
                key, dynamics=Descent(cases.LR, BATCHES, 0.5, weight_decay=cases.DECAY)
            ),
        ),
    ],
    runs=short,
    terms={
        "decay": left_out(NO_DECAY),
        "noise": left_out(NO_NOISE),
        "the term of a finite step": left_out(NO_GD),
    },
    nets=(TwoLayer,),
    given=("path",),
    problems=(Regression, Population),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (6), (7)",
            r"$\dot C = -4\gamma C + \sigma^2\mathrm{Tr}[\Sigma A]$ with $C = \theta^\top A\theta$ "
            r"and $\sigma^2 = \eta/2S$",
            r"$2\sigma^2 = \kappa$ in place of $\sigma^2$",
            "misprint",
            evidence=printed_7,
            quote="˙C(θt)=−4γC(θt)+σ2Tr[Σ(θt)A]=∶G(θt). (7)",
            note="(5) with (6) gives it: the Hessian of C is 2A.",
            predict=left_out(Share(noise=0.5)),
        ),
        Erratum(
            "Eq (9)",
            r"$4\gamma C = \sigma^2\mathrm{Tr}[\Sigma A]$ at equilibrium",
            r"$4\gamma C = \kappa\,\mathrm{Tr}[\Sigma A]$",
            "misprint",
            evidence=balance_9,
            quote="4γC(θ∗)=σ2Tr[Σ(θ∗)A]. (9)",
            predict=left_out(Share(noise=0.5)),
        ),
        Erratum(
            "Section 4.3",
            r"$-\gamma C + \eta\mathrm{Tr}[\Sigma A] = 0$ at equilibrium",
            r"$4\gamma C = \kappa\,\mathrm{Tr}[\Sigma A]$",
            "misprint",
            evidence=balance_43,
            quote="the stationary point is reached when −γC(θ)+ηTr[Σ(θ)A]=0",
            note="(7) has other factors.",
            predict=left_out(Share(decay=0.25, noise=float(BATCHES.batch_size))),
        ),
        Erratum(
            "Eq (27), (31)",
            r"drift $+\nabla L$ and noise $\sqrt{\sigma^2\Sigma}$",
            r"drift $-\nabla L$; this $\sigma^2$ is $\kappa$, twice that of Eq (1)",
            "convention",
            quote="where we have used µt=∇L,Gt=√ σ2Σ(θ)",
        ),
    ),
    paper=PAPER,
    title="the Noether flow of SGD",
    narrow=True,
)

CROWD = 4096
PARTS = 8


def methods(setup: Setup) -> dict[str, Setup | Ensemble]:
    """A few steps, and as much time: gradient flow, GD, and ensembles of SGD and its equation."""
    lr = common.learning_rate(setup)
    gamma = decay(setup)
    parts = lr / PARTS * FEW
    steps: dict[str, Any] = {"until": Until(steps=int(FEW[-1])), "save_at": FEW}
    time: dict[str, Any] = {"until": Until(time=float(parts[-1])), "save_at": parts}
    still = Flow(rtol=1e-11, atol=1e-13, weight_decay=gamma)
    fine = Diffusion(lr, noise_of(setup), lr / PARTS, gamma)
    kept = setup.replace(record=cases.PARAMS)
    return {
        "GF": kept.replace(dynamics=still, **time),
        "GD": kept.replace(dynamics=Descent(lr, weight_decay=gamma), **steps),
        "SGD": draws(kept, CROWD, **steps),
        "SDE": draws(kept, CROWD, dynamics=fine, **time),
    }


def told_table(setup: Setup, runs: Runs, of: Mapping[str, Share]) -> Told:
    """The flow by each method, from the terms that it has; gradient flow in closed form."""
    lr = common.learning_rate(setup)
    dt = lr / PARTS
    lasting = {"GF": dt, "GD": lr, "SGD": lr, "SDE": dt}
    time = {name: step * float(FEW[-1]) for name, step in lasting.items()}
    rows: dict[str, Claim] = {}
    for name in ("GD", "SGD", "SDE"):
        run = runs[name]
        path = layers(run) if isinstance(run, xr.Dataset) else alone(run)
        # The integrator's own step has a term of a finite step, as many times smaller.
        found = terms(setup, *path, lasting[name], kappa(setup))
        rows[name] = summed(found, of[name], time[name])
    start = charges({name: np.asarray(p) for name, p in setup.params.items()})
    faded = np.expm1(-4 * decay(setup) * of["GF"].decay * time["GF"]) / time["GF"]
    scale = rows["GD"].scale
    return Told({"GF": equals(faded * start, scale=scale), **rows})


def alone(run: Run | xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """One run as an ensemble of one member."""
    assert isinstance(run, Run)
    W1, W2 = (run.data[f"params_{name}"].values[None, :-1] for name in ("W1", "W2"))
    return W1, W2


TABLE = {"GF": ONE, "GD": NO_NOISE, "SGD": ONE, "SDE": ONE}


def predict_table(setup: Setup, runs: Runs) -> Told:
    """The flow by each method."""
    return told_table(setup, runs, TABLE)


def measure_table(runs: Runs) -> Measurements:
    """The change of C over the time."""
    first = runs["GD"]
    assert isinstance(first, Run)
    lr = common.learning_rate(setup_of(first))
    seen: dict[str, Measured] = {}
    for name, run in runs.items():
        time = float(FEW[-1]) * (lr / PARTS if name in ("GF", "SDE") else lr)
        if isinstance(run, xr.Dataset):
            seen[name] = paired(charges(points(run)), time)
        else:
            path = charges(points(run.data))
            seen[name] = measured((path[-1] - path[0]) / time)
    return seen


def other(name: str, share: Share) -> Predict:
    """The table with other terms in one row; that row alone."""

    def predict(setup: Setup, runs: Runs) -> Told:
        told = told_table(setup, runs, {**TABLE, name: share})
        return Told({name: told.values[name]})

    return predict


def predict_all_alike(setup: Setup, runs: Runs) -> Told:
    """Every method with the flow of SGD."""
    row = predict_table(setup, runs).values["SGD"]
    return Told(dict.fromkeys(TABLE, row))


REMARK44 = Theorem(
    "equilibrium.remark4.4",
    r"What moves a charge: gradient flow only $-4\gamma C$; GD adds $\eta\,\nabla L^\top "
    r"A\nabla L$; the stochastic differential equation adds $\kappa\,\mathrm{Tr}[\Sigma A]$; SGD "
    r"adds both.",
    hypotheses=[
        constant_lr(),
        no_momentum(),
        minibatches(),
        kind("batches are drawn with replacement", lambda s: _replaced(s)),
    ],
    predict=predict_table,
    measure=measure_table,
    tolerance={"GF": 1e-9, "GD": 1e-9, "SGD": EXACT, "SDE": EXACT},
    instances=loud,
    controls=[Control("all move as SGD does", loud, predict_all_alike, formula=True)],
    runs=methods,
    given=("path",),
    terms={
        "decay in GF": other("GF", NO_DECAY),
        "decay in GD": other("GD", NO_DECAY),
        "the step's term in GD": other("GD", Share(gd=0.0, noise=0.0)),
        "its being without noise, GD": other("GD", ONE),
        "decay in SGD": other("SGD", NO_DECAY),
        "noise in SGD": other("SGD", NO_NOISE),
        "the step's term in SGD": other("SGD", NO_GD),
        "decay in the SDE": other("SDE", NO_DECAY),
        "noise in the SDE": other("SDE", NO_NOISE),
        "its being without a step's term, SDE": other("SDE", Share(gd=float(PARTS))),
    },
    nets=(TwoLayer,),
    problems=(Regression,),
    dynamics=(Descent,),
    paper=PAPER,
    title="four methods, four flows",
    narrow=True,
    slow=True,
)


def _replaced(setup: Setup) -> bool:
    batch = common.minibatch(setup)
    return batch is not None and batch.replace


THEOREMS = (EQ7, REMARK44)
