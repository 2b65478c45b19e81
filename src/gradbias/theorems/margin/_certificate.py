"""What every predictor proves about the best one, and what is between the two bounds."""

import numpy as np

from ...dynamics import Descent
from ...geometry import L2, Geometry, Lp
from ...nets import LinearNet
from ...observe import certificate
from ...problems import Classification, separable
from ...theory import margin
from ..prelude import (
    Claims,
    Control,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_least,
    at_most,
    equals,
    kind,
)
from . import _instances as cases

GEOMETRIES: dict[str, Geometry] = {kind.__name__: kind() for kind in cases.SOLVED}
ALL = {**GEOMETRIES, "L4": Lp(4)}
NEEDS = {name: certificate(geometry) for name, geometry in ALL.items()} | cases.THETA
STEPS = 2000


def bounds(setup: Setup, of: Geometry | None = None) -> Claims:
    """γ between the best of all lower bounds and the best of all upper ones."""
    told = {}
    for name, geometry in GEOMETRIES.items():
        gamma = cases.classes(setup).max_margin(of or geometry).gamma
        told[f"{name} lower"] = at_most(gamma)
        told[f"{name} upper"] = at_least(gamma)
    return told


def best(run: Run) -> Measurements:
    """The best of all saves on each side."""
    lower = {f"{n} lower": run.data[f"{n}_lower"].values.max() for n in GEOMETRIES}
    return lower | {f"{n} upper": run.data[f"{n}_upper"].values.min() for n in GEOMETRIES}


def gaps(setup: Setup, run: Run, entropy: bool = True) -> Claims:
    """Misalignment and entropy, at every save whose predictor is not zero."""
    problem = cases.classes(setup)
    told = {}
    for name, geometry in ALL.items():
        parts = [margin.duality_gap(problem, w, geometry) for w in moved(run)]
        told[name] = equals([g.misalignment + entropy * g.entropy for g in parts])
    return told


def widths(run: Run) -> Measurements:
    """Between the two bounds."""
    nonzero = cases.predictors(run).any(axis=1)
    both = {n: run.data[f"{n}_upper"].values - run.data[f"{n}_lower"].values for n in ALL}
    return {name: width[nonzero] for name, width in both.items()}


def moved(run: Run) -> np.ndarray:
    """The predictors that are not zero."""
    flat = cases.predictors(run)
    return flat[flat.any(axis=1)]


def instance(key: int, loss: str = "exponential") -> Setup:
    """Descent from a random start, saved from the first step on."""
    rng = cases.draws(key, "certificate")
    n = int(rng.integers(4, 12))
    problem = separable(n, int(rng.integers(3, 15)), key=key, loss=loss)
    rate = 1 / float(np.max(np.sum(problem.X**2, axis=1)))
    return Setup(
        problem,
        cases.one_layer(problem),
        cases.start(problem, key, 0.1),
        Descent(rate),
        Until(steps=STEPS),
        NEEDS,
        key=key,
    )


THEOREMS = (
    Theorem(
        "margin.certificate",
        r"The margin $m_{\min}/\|w\|$ of any predictor $w$ is at most $\gamma$, the largest there "
        r"is, and $\|Z^\top p\|_*$, with the samples' shares $p$ of its gradient, at least "
        r"$\gamma$, in any norm.",
        hypotheses=cases.separated(),
        predict=bounds,
        measure=best,
        tolerance=1e-9,
        instances=lambda key: instance(key, ("exponential", "logistic", "cross_entropy")[key % 3]),
        controls=[
            Control(
                "the largest margin of another norm",
                instance,
                lambda s: bounds(s, L2()),
                formula=True,
            )
        ],
        nets=(LinearNet,),
        problems=(Classification,),
        needs=NEEDS,
        title="a certificate at every step",
        own=True,
    ),
    Theorem(
        "margin.duality_gap",
        r"Of the exponential loss the two bounds on the largest margin differ by exactly "
        r"$(\|w\|\|Z^\top p\|_* - \langle w, Z^\top p\rangle)/\|w\|$, the misalignment of $w$ with "
        r"its gradient, and $(H(p) - H_\infty(p))/\|w\|$, the entropy gap of its dual weights.",
        hypotheses=[
            kind("the loss is exponential", lambda s: cases.classes(s).loss_name == "exponential"),
        ],
        predict=gaps,
        measure=widths,
        tolerance=1e-9,
        instances=instance,
        controls=[
            Control(
                "the loss is exponential",
                lambda key: instance(key, "logistic"),
                lambda s, run: gaps(instance(s.key), run),
            ),
        ],
        given=("path",),
        terms={"the entropy gap": lambda s, run: gaps(s, run, entropy=False)},
        nets=(LinearNet,),
        problems=(Classification,),
        needs=NEEDS,
        title="what is between the two bounds",
        own=True,
    ),
)
