"""What rotations of a hidden space conserve under heavy ball: angular momentum, times β a step."""

import itertools

import numpy as np

from ...dynamics import Descent
from ...nets import Deep, TwoLayer
from ...noise import Isotropic, Minibatch
from ...noise import Noise as NoiseLaw
from ...observe import angular_momentum
from ...theory.optimisers import discrete_noether
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
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
from ._papers import MOMENTUM

LOOKS = np.arange(0, 31, 5)


def heavy_ball() -> Hypothesis:
    """Momentum, and not Nesterov's."""
    return kind("momentum is heavy ball", lambda s: not getattr(s.dynamics, "nesterov", False))


def short(setup: Setup) -> dict[str, Setup]:
    """Pairs of successive states."""
    saves = np.ravel([LOOKS, LOOKS + 1], order="F")
    return {"run": setup.replace(until=Until(steps=int(saves[-1])), save_at=saves)}


def predict(setup: Setup) -> Claims:
    """From the velocity at the start: the gradient has no part along a rotation."""
    beta = float(cases.descent(setup).momentum)
    rates = cases.rates(setup, int(LOOKS[-1]) + 1)
    seams = []
    for a, b in itertools.pairwise(sorted(setup.params)):
        v = cases.descent(setup).velocity
        turned = setup.params[a].T @ v[a] - v[b] @ setup.params[b].T
        seams.append(np.ravel(turned - turned.T) / 2)
    first = -rates[0] * beta * np.concatenate(seams)
    told = discrete_noether(LOOKS, beta, rates)[:, None] * first
    return {"J": equals(told, scale=np.abs(told).max(axis=1, keepdims=True))}


def measure(run: Run) -> Measurements:
    """Of successive states."""
    states = cases.path(run)
    pairs = zip(states[::2], states[1::2], strict=True)
    found = [angular_momentum(setup_of(run).net, *pair) for pair in pairs]
    return {"J": np.array([np.concatenate([np.ravel(x) for x in J.values()]) for J in found])}


def instance(key: int, nesterov: bool = False, noise: NoiseLaw | None = None) -> Setup:
    """Batches of two, decay in the gradient, a random velocity."""
    velocity = {n: 3 * v for n, v in cases.layers(key + 1).items()}
    law = Minibatch(2) if noise is None else noise
    moves = Descent(0.01, law, 0.9, 0.01, nesterov=nesterov, velocity=velocity)
    return cases.two_layers(key, moves, 31)


THEOREMS = (
    Theorem(
        "optimiser.angular_momentum",
        r"Heavy ball multiplies the angular momentum of a hidden space, the antisymmetric part of "
        r"$W_1^\top d_1 - d_2W_2^\top$ with steps $d$, by $\beta\eta_{k+1}/\eta_k$ in every step, "
        r"whatever the batch and with decay in the gradient.",
        hypotheses=[
            heavy_ball(),
            kind("a velocity is given", lambda s: cases.descent(s).velocity),
            kind(
                "steps see the data only",
                lambda s: not isinstance(cases.descent(s).noise, Isotropic),
            ),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-10,
        instances=instance,
        controls=[
            Control("momentum is heavy ball", lambda key: instance(key, nesterov=True)),
            Control("steps see the data only", lambda key: instance(key, noise=Isotropic(0.3))),
        ],
        runs=short,
        nets=(TwoLayer, Deep),
        dynamics=(Descent,),
        needs=cases.PATH,
        paper=MOMENTUM,
        title="angular momentum under momentum",
        own=True,
    ),
)
