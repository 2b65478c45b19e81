"""How far heavy ball moves charges: by the squares of its steps, exactly."""

import itertools

import numpy as np

from ...dynamics import Descent
from ...nets import Deep, TwoLayer
from ...noise import Minibatch
from ...theory.optimisers import charge_sum_rule
from ..prelude import (
    Claims,
    Control,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases
from ._angular_momentum import heavy_ball
from ._papers import MOMENTUM

STEPS = 120


def short(setup: Setup) -> dict[str, Setup]:
    """Every step of the first ones."""
    return {"run": setup.replace(until=Until(steps=STEPS), save_at=np.arange(STEPS + 1))}


def told(setup: Setup, run: Run, last: bool = True) -> np.ndarray:
    """The sum rule for every entry of every seam."""
    states = cases.path(run)
    steps = [{n: b[n] - a[n] for n in a} for a, b in itertools.pairwise(states)]
    beta = float(cases.descent(setup).momentum)
    decay = 2 * float(setup.dynamics.weight_decay)
    found = []
    for family in setup.net.symmetries().values():
        E = np.stack([np.ravel(family.form(d, d)) for d in steps], axis=1)
        C = np.stack([np.ravel(family.charge(p)) for p in states[:-1]], axis=1)
        D = np.ravel(family.form(steps[-1], states[-2]))
        for squares, charges, cross in zip(E, C, D if last else -E[:, -1], strict=True):
            rate = cases.rates(setup, 1)[0]
            found.append(charge_sum_rule(squares, beta, rate, decay, charges, float(cross)))
    return np.array(found)


def predict(setup: Setup, run: Run, last: bool = True) -> Claims:
    values = told(setup, run, last)
    return {"C": equals(values, scale=float(np.abs(values).max()) or 1.0)}


def measure(run: Run) -> Measurements:
    """The charges at the end less those at the start."""
    setup = setup_of(run)
    both = [setup.net.symmetries().values(), setup.params, cases.path(run)[-1]]
    moved = [np.ravel(s.charge(both[2]) - s.charge(both[1])) for s in both[0]]
    return {"C": np.concatenate(moved)}


def instance(key: int, nesterov: bool = False) -> Setup:
    """Batches of three, with decay."""
    moves = Descent(0.01, Minibatch(3), 0.9, 0.02, nesterov=nesterov)
    return cases.two_layers(key, moves, STEPS)


THEOREMS = (
    Theorem(
        "optimiser.charge_sum",
        r"Heavy ball from rest moves a charge by $\frac{1+\beta}{1-\beta}\sum_kE_k - "
        r"2\eta_e\lambda\sum_kC_k - \frac{2\beta}{1-\beta}(D_{K-1}+E_{K-1})$ in $K$ steps, with "
        r"$E = \langle d, Ad\rangle$ and $D = \langle d, A\theta\rangle$ of its steps $d$.",
        hypotheses=[
            heavy_ball(),
            kind("the step is constant", lambda s: not callable(cases.descent(s).lr)),
            kind("it starts from rest", lambda s: cases.descent(s).velocity is None),
            cases.from_data(),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-9,
        instances=instance,
        controls=[
            Control("momentum is heavy ball", lambda key: instance(key, nesterov=True)),
            Control(
                "without what is still on its way",
                instance,
                lambda s, run: predict(s, run, last=False),
                formula=True,
            ),
        ],
        runs=short,
        narrow=True,
        given=("path",),
        nets=(TwoLayer, Deep),
        dynamics=(Descent,),
        needs=cases.PATH,
        paper=MOMENTUM,
        title="the sum rule of charges under momentum",
        own=True,
    ),
)
