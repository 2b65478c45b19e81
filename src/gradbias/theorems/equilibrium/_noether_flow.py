"""The mean motion of charges: SGD's own, and that of its relatives."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Diffusion, Flow
from ...nets import TwoLayer
from ...problems import Population, Regression
from ...theory.symmetry import flow_by_method
from .. import _shared_hypotheses as common
from .._claims import equals, measured
from .._erratum import Erratum
from .._hypothesis import kind
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Ensemble, Theorem, Told
from . import _instances as cases
from ._errata import balance_9, balance_43, printed_7
from ._facts import constant_lr, decay, minibatches, no_momentum, sgd
from ._facts_units import MU, charges, mean_squares, pulls, spectra, steps_of
from ._measurements import CHANCE, along_paths, draws, mean

MEMBERS = 64
FEW = np.arange(9)
LARGE_DECAY = 3.0


def short(setup: Setup) -> Ensemble:
    """A few steps from one point with many draws."""
    until = Until(steps=int(FEW[-1]))
    return draws(setup, MEMBERS, until=until, save_at=FEW, record=cases.PARAMS)


def points(data: Any) -> dict[str, np.ndarray]:
    """Parameters (members, saves, …)."""
    return {name: data[f"params_{name}"].values for name in ("W1", "W2")}


def mean_drift(setup: Setup, runs: Any) -> Told:
    """What the flow says of every member's path, in the mean."""
    layers = points(runs["run"])
    members, saves = layers["W1"].shape[:2]
    paths = [
        [{n: p[m, i] for n, p in layers.items()} for i in range(saves - 1)] for m in range(members)
    ]
    told = np.asarray([steps_of(setup, path) for path in paths])
    scale = (saves - 1) * common.learning_rate(setup) * pulls(setup, setup.params)
    return along_paths("drift", told, scale)


def moved(data: Any) -> np.ndarray:
    """C at the end − C at the start, by member."""
    found = charges(points(data))
    return found[:, -1] - found[:, 0]


def undecayed(setup: Setup, runs: Any) -> Told:
    """The same, without weight decay."""
    moves = Descent(common.learning_rate(setup), cases.BATCHES)
    return mean_drift(setup.replace(dynamics=moves), runs)


EQ7 = Theorem(
    "equilibrium.eq7",
    r"In the mean SGD moves a charge by $\dot C = -4\gamma C + \kappa\,\mathrm{Tr}[\Sigma A] + "
    r"\eta\,\nabla L^\top A\nabla L$ with $\kappa = \eta/S$ (here for every hidden unit): what "
    r"has more noise grows.",
    sgd(),
    mean_drift,
    lambda runs: {"drift": mean(moved(runs["run"]))},
    CHANCE,
    cases.pair,
    [Control("there is no decay", lambda k: cases.pair(k, decay=LARGE_DECAY), undecayed)],
    runs=short,
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
            "numeric",
            printed_7,
            "Right for half the charge, or with the appendix's σ².",
        ),
        Erratum(
            "Eq (9)",
            r"$4\gamma C = \sigma^2\mathrm{Tr}[\Sigma A]$ at equilibrium",
            r"$4\gamma C = \kappa\,\mathrm{Tr}[\Sigma A]$",
            "numeric",
            balance_9,
        ),
        Erratum(
            "Sec. 4.3",
            r"$-\gamma C + \eta\mathrm{Tr}[\Sigma A] = 0$ at equilibrium",
            r"$4\gamma C = \kappa\,\mathrm{Tr}[\Sigma A]$",
            "numeric",
            balance_43,
        ),
        Erratum(
            "Eq (27), (31)",
            r"drift $+\nabla L$ and noise $\sqrt{\sigma^2\Sigma}$",
            r"drift $-\nabla L$; this $\sigma^2$ is $\kappa$, twice that of Eq (1)",
            "convention",
        ),
    ),
    source=SOURCE,
    title="the Noether flow of SGD",
    narrow=True,
)

CROWD, PARTS = 1024, 16


def methods(setup: Setup) -> dict[str, Any]:
    """The time of one step: gradient flow, GD, and ensembles of SGD and of its equation."""
    lr, gamma = common.learning_rate(setup), decay(setup)
    ends = setup.replace(record=cases.PARAMS)
    still = Flow(rtol=1e-11, atol=1e-13, weight_decay=gamma)
    fine = Diffusion(lr, setup.dynamics.noise, lr / PARTS, gamma)  # pyright: ignore[reportAttributeAccessIssue]
    step: dict[str, Any] = {"until": Until(steps=1), "save_at": [0, 1], "record": cases.PARAMS}
    time: dict[str, Any] = {**step, "until": Until(time=lr), "save_at": [0, lr]}
    return {
        "GF": ends.replace(dynamics=still, **time),
        "GD": ends.replace(dynamics=Descent(lr, weight_decay=gamma), **step),
        "SGD": draws(setup, CROWD, **step),
        "SDE": draws(setup, CROWD, dynamics=fine, **time),
    }


def table(setup: Setup) -> Told:
    """The flow by each method at the start."""
    lr, gamma, problem = common.learning_rate(setup), decay(setup), setup.problem
    batch = common.minibatch(setup)
    assert batch is not None
    squares = mean_squares(problem, setup.params)
    rows: dict[str, list[float]] = {"GF": [], "GD": [], "SGD": [], "SDE": []}
    for (noise, theta), gradient in zip(spectra(problem, setup.params), squares, strict=True):
        flows = flow_by_method(MU, noise, theta, gradient, lr, batch.batch_size, gamma)
        for name, flow in flows.items():
            # A step has (1 − 2ηγ)², exactly; the continuous ones have not.
            step = 4 * lr * gamma**2 * flow.charge if name in ("GD", "SGD") else 0.0
            rows[name].append(float(flow) + step)
    top = pulls(setup, setup.params)
    return Told(
        {name: equals(np.asarray(row), scale=top) for name, row in rows.items()},
        # The point of a continuous path moves while one step would take place.
        expected={name: moved_in_a_step(setup) for name in ("GF", "SDE")},
    )


def moved_in_a_step(setup: Setup) -> float:
    """How far a flow that is quadratic in the residual changes within the time of one step."""
    problem: Any = setup.problem
    spread = np.linalg.norm(np.asarray(problem.svd.s)) ** 2 / problem.n
    weights = sum(float(np.sum(np.square(x))) for x in setup.params.values())
    return 4 * common.learning_rate(setup) * float(spread) * weights


def seen_table(runs: Any) -> dict[str, Any]:
    """C after the step − C before it, over the step."""
    lr = float(runs["GD"].setup.dynamics.lr)
    found: dict[str, Any] = {}
    for name in ("GF", "GD"):
        first, last = (charges(p) for p in cases.path(runs[name].data))
        found[name] = (last - first) / lr
    for name in ("SGD", "SDE"):
        found[name] = mean(moved(runs[name]) / lr)
    return {name: measured(value) for name, value in found.items()}


def all_alike(setup: Setup) -> Told:
    """Every method with the flow of SGD."""
    told = table(setup)
    return Told(dict.fromkeys(told.values, told.values["SGD"]))


REMARK44 = Theorem(
    "equilibrium.remark4.4",
    r"What moves a charge: gradient flow only $-4\gamma C$; GD adds $\eta\,\nabla L^\top "
    r"A\nabla L$; the stochastic differential equation adds $\kappa\,\mathrm{Tr}[\Sigma A]$; SGD "
    r"adds both.",
    [
        constant_lr(),
        no_momentum(),
        minibatches(),
        kind("batches are drawn with replacement", lambda s: _replaced(s)),
    ],
    table,
    seen_table,
    {"GF": 1e-9, "GD": 1e-9, "SGD": CHANCE, "SDE": CHANCE},
    cases.pair,
    [Control("each row has its own terms", cases.pair, all_alike)],
    runs=methods,
    nets=(TwoLayer,),
    problems=(Regression,),
    dynamics=(Descent,),
    source=SOURCE,
    title="four methods, four flows",
    narrow=True,
    slow=True,
)


def _replaced(setup: Setup) -> bool:
    batch = common.minibatch(setup)
    return batch is not None and batch.replace


THEOREMS = (EQ7, REMARK44)
