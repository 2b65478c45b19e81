"""How far outside its box a step of Adam can lead."""

import itertools

import numpy as np

from ...dynamics import Adam
from ...noise import Replay
from ...problems import Regression
from ...theory.optimisers import update_bound
from ..prelude import (
    Claims,
    Control,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_most,
    kind,
    setup_of,
)
from . import _instances as cases
from ._papers import ADAMW

STEPS = 1000
BETAS = (0.9, 0.99)


def short(setup: Setup) -> dict[str, Setup]:
    """Every step of the first ones."""
    limit = int(min(STEPS, np.inf if setup.limit is None else setup.limit))
    return {"run": setup.replace(until=Until(steps=limit), save_at=np.arange(limit + 1))}


def predict(setup: Setup) -> Claims:
    return {"step": at_most(update_bound(*cases.adam(setup).betas))}


def measure(run: Run) -> Measurements:
    """The largest step over the learning rate, without its decay."""
    setup = setup_of(run)
    states = cases.path(run)
    rates = cases.rates(setup, len(states) - 1)
    decay = float(setup.dynamics.weight_decay)
    largest = 0.0
    for lr, (a, b) in zip(rates, itertools.pairwise(states), strict=True):
        moved = [np.abs(b[n] - (1 - lr * decay) * a[n]).max() / lr for n in a]
        largest = max(largest, *moved)
    return {"step": largest}


def instance(key: int, decoupled: bool = True) -> Setup:
    """Labels that grow by β₂/β₁ a step: the gradients that attain the bound."""
    rng = cases.draws(key, "bound")
    problem = Regression.half_mean(np.diag(rng.uniform(1, 2, 2)), np.zeros((2, 1)))
    grown = (BETAS[1] / BETAS[0]) ** np.arange(STEPS)
    noise = Replay(label_noise=grown[:, None, None] * rng.uniform(1, 2, (1, 2, 1)))
    moves = Adam(1e-3, BETAS, 0.0, 0.1, decoupled, noise)
    return cases.one_layer(key, moves, problem, STEPS)


THEOREMS = (
    Theorem(
        "optimiser.update_bound",
        r"Whatever the gradients, a step of Adam moves no coordinate by more than "
        r"$\eta(1-\beta_1)/\sqrt{(1-\beta_2)(1-\beta_1^2/\beta_2)}$ beside its decay; gradients "
        r"that grow by $\beta_2/\beta_1$ in every step attain it.",
        hypotheses=[
            kind("β₂ is above β₁²", lambda s: cases.adam(s).betas[0] ** 2 < cases.adam(s).betas[1]),
            kind(
                "decay is decoupled",
                lambda s: cases.adam(s).decoupled or float(s.dynamics.weight_decay) == 0,
            ),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-9,
        instances=instance,
        controls=[
            Control(
                "a step is at most the learning rate",
                instance,
                lambda s: {"step": at_most(1.0)},
                formula=True,
            )
        ],
        runs=short,
        dynamics=(Adam,),
        needs=cases.PATH,
        paper=ADAMW,
        title="the largest step of Adam",
        own=True,
    ),
)
