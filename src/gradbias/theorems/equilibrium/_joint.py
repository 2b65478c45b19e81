"""Several symmetries at once: one joint equilibrium, the least noise of their common orbit."""

import numpy as np

from ...dynamics import Descent
from ...nets import Deep
from ...noise import Isotropic
from ...numerics.host_rng import generator
from ...problems import Population, Regression
from ...symmetry import Symmetry, neurons
from ...theory.symmetry import joint_equilibrium
from ..prelude import (
    Claims,
    Control,
    Measurements,
    Run,
    Setup,
    Theorem,
    at_least,
    common,
    equals,
    setup_of,
)
from . import _instances as cases
from ._deep import anywhere, hidden
from ._facts import decay, kappa, sgd
from ._facts_orbit import OTHER_NOISE, sigma
from ._paper import PAPER

NEAR = 1e-2
FAR = 0.5


def families(params: cases.Params) -> dict[str, Symmetry]:
    """The rescalings of the units between every two layers; a layer belongs to two of them."""
    seams = range(1, len(params))
    return {f"units {i}": neurons({f"W{i}": 1}, {f"W{i + 1}": 0}) for i in seams}


def squares(setup: Setup, params: cases.Params) -> tuple[np.ndarray, np.ndarray]:
    """The noise of one sample and θ², entry by entry."""
    noise = np.diagonal(sigma(setup, params)) * common.learning_rate(setup) / kappa(setup)
    return noise, np.concatenate([np.ravel(params[n]) for n in sorted(params)]) ** 2


def moved(params: cases.Params, lam: np.ndarray) -> cases.Params:
    """All units rescaled, those of the first layer first."""
    for symmetry in families(params).values():
        mine, lam = np.split(lam, [np.size(symmetry.charge(params))])
        params = symmetry.move(params, mine)
    return params


def star(setup: Setup, params: cases.Params) -> np.ndarray:
    """λ* of all units together."""
    dense = [s.dense(params) for s in families(params).values()]
    mu = np.concatenate([np.diagonal(A, axis1=1, axis2=2) for A in dense])
    return joint_equilibrium(mu, *squares(setup, params), kappa(setup), decay(setup)).lam


def shifts(count: int) -> list[np.ndarray]:
    """Moves away from the equilibrium, of all generators."""
    rng = generator(0, "equilibrium joint")
    return [size * rng.standard_normal(count) for size in (NEAR, FAR) for _ in range(3)]


def units(params: cases.Params) -> int:
    """How many hidden units there are."""
    return sum(np.shape(params[f"W{i}"])[1] for i in range(1, len(params)))


def predict_rests(setup: Setup, run: Run) -> Claims:
    """No flow of any charge, and no less noise anywhere around."""
    count = units(setup.params)
    above = at_least(np.zeros(len(shifts(count))), scale=1.0)
    return {"flow": equals(np.zeros(count), scale=1.0), "above": above}


def potential(setup: Setup, params: cases.Params) -> float:
    """κ Tr Σ + 4γ‖θ‖²."""
    noise, theta2 = squares(setup, params)
    return float(kappa(setup) * noise.sum() + 4 * decay(setup) * theta2.sum())


def measure_rests(run: Run) -> Measurements:
    """The flow at the predicted point from gradients, over the potential; and that around it."""
    setup = setup_of(run)
    last = cases.noisy_path(run)[-1]
    there = moved(last, star(setup, last))
    least = potential(setup, there)
    flows = cases.here(setup, there, include_gd=False, symmetries=families(last)).values()
    around = [potential(setup, moved(there, x)) for x in shifts(units(last))]
    return {
        "flow": np.concatenate([np.ravel(f.total) for f in flows]) / least,
        "above": np.asarray(around) / least - 1,
    }


JOINT = Theorem(
    "equilibrium.joint",
    r"Symmetries that share parameters have a joint equilibrium: $\kappa\,\mathrm{Tr}\Sigma + "
    r"4\gamma\|\theta\|^2$ is convex on their common orbit, and where it is least all charges "
    r"stand still.",
    hypotheses=[hidden(), *sgd()],
    predict=predict_rests,
    measure=measure_rests,
    tolerance=1e-9,
    instances=lambda key: anywhere(key, decay=cases.DECAY),
    controls=[Control(OTHER_NOISE, lambda key: anywhere(key, Isotropic(0.5), cases.DECAY))],
    nets=(Deep,),
    needs=cases.PARAMS,
    given=("path",),
    problems=(Regression, Population),
    dynamics=(Descent,),
    paper=PAPER,
    title="the joint equilibrium of many symmetries",
    own=True,
)

THEOREMS = (JOINT,)
