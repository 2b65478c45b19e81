"""The norm and the rotation at which decay and steps of a given size balance."""

import numpy as np

from ...dynamics import Steepest
from ...geometry import L2, Linf
from ...nets import Deep
from ...noise import Isotropic
from ...problems import Regression
from ...theory.optimisers import rotational_equilibrium
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    kind,
    measured,
)
from . import _instances as cases
from ._noise_floor import late, seen
from ._papers import ROTATION


def size(setup: Setup) -> float:
    """The squared ℓ2 norm of a unit step."""
    count = sum(p.size for p in setup.params.values())
    return float(count) if isinstance(cases.steepest(setup).geometry, Linf) else 1.0


def predict(setup: Setup) -> Claims:
    lr = float(cases.rates(setup, 1)[0])
    found = rotational_equilibrium(lr, float(setup.dynamics.weight_decay), size(setup))
    return {"norm": found.norm, "angle": found.angle}


def leading(setup: Setup) -> Claims:
    """To leading order in ηλ."""
    lr = float(cases.rates(setup, 1)[0])
    decay = float(setup.dynamics.weight_decay)
    return {"norm": np.sqrt(lr * size(setup) / (2 * decay)), "angle": np.sqrt(2 * lr * decay)}


def measure(run: Run) -> Measurements:
    """Of two successive states; a random direction has a part of 1/√N along the weights."""
    before, after = (
        np.concatenate([np.ravel(p) for p in state.values()]) for state in cases.path(run)
    )
    norm = float(np.linalg.norm(after))
    cosine = float(before @ after) / (norm * float(np.linalg.norm(before)))
    angle = float(np.arccos(cosine))
    chance = 1 / np.sqrt(2 * len(after))
    return {
        "norm": measured(norm, standard_error=norm * chance),
        "angle": measured(angle, standard_error=angle * chance),
    }


def unit_steps(setup: Setup) -> bool:
    """Of the same ℓ2 norm, whatever the gradient."""
    moves = cases.steepest(setup)
    return moves.normalised and isinstance(moves.geometry, (L2, Linf))


def many(setup: Setup) -> float:
    """How much a random direction has in common with the weights."""
    return 1 / float(np.sqrt(sum(p.size for p in setup.params.values())))


def instance(key: int, decoupled: bool = True, pull: float = 1e-9) -> Setup:
    """Forty thousand weights in a field of noise; ηλ is 0.8, so that its square is seen."""
    rng = cases.draws(key, "rotation")
    X = rng.standard_normal((4, 200))
    problem = Regression(X, rng.standard_normal((4, 200)), pull)
    moves = Steepest(1.0, L2, 0.0, 0.8, decoupled, noise=Isotropic(5.0))
    return cases.one_layer(key, moves, problem, 100)


THEOREMS = (
    Theorem(
        "optimiser.rotational_equilibrium",
        r"Steps of squared norm $C$ in random directions and decoupled decay balance at "
        r"$\|w\|^2 = \eta C/(2\lambda-\eta\lambda^2)$, where $w$ turns in a step by an angle whose "
        r"sine is $\sqrt{2\eta\lambda-\eta^2\lambda^2}$.",
        hypotheses=[
            kind("noise is isotropic", lambda s: isinstance(cases.steepest(s).noise, Isotropic)),
            kind("steps are of unit size", unit_steps),
            kind("there is no momentum", lambda s: float(cases.steepest(s).momentum) == 0),
            kind("decay is decoupled", lambda s: cases.steepest(s).decoupled),
            kind("there is decay", lambda s: float(s.dynamics.weight_decay) > 0),
            kind("the step is constant", lambda s: not callable(cases.steepest(s).lr)),
            Hypothesis("gradients are noise", seen, 1e-4),
            Hypothesis("there are many weights", many, 0.02),
        ],
        predict=predict,
        measure=measure,
        tolerance=2e-3,
        instances=instance,
        controls=[
            Control("to leading order in ηλ", instance, leading, formula=True),
            Control("decay is decoupled", lambda key: instance(key, False)),
            Control("gradients are noise", lambda key: instance(key, pull=300.0)),
        ],
        runs=late,
        nets=(Deep,),
        dynamics=(Steepest,),
        needs=cases.PATH,
        paper=ROTATION,
        title="where decay and random steps balance",
        own=True,
    ),
)
