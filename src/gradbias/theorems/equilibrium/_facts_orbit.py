"""Along the orbit of a point: what a theorem on orbits predicts from and measures.

Predictions take the noise of a unit from closed forms, measurements from the covariance of the
run's own noise and from gradients of samples at moved parameters.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Isotropic
from ...problems import Population, Regression
from ..prelude import (
    Control,
    Erratum,
    Measure,
    Predict,
    Run,
    Setup,
    Theorem,
    common,
    kind,
    setup_of,
)
from . import _instances as cases
from ._facts import decay, kappa, noise_of, sgd
from ._facts_units import Spectra, sample_square, spectra
from ._paper import PAPER

UNIT = cases.UNITS["units"]
DENSE = 1000  # parameters up to which a covariance of all of them is formed
LEAST = 1e-6  # of a sample's own gradient: of less noise the closed forms have few digits
OTHER_NOISE = "the noise is that of minibatches"
PULLED = "every unit is pulled both ways"


def points(run: Run) -> list[dict[str, np.ndarray]]:
    """The first save, and the last at which noise pulls every unit both ways."""
    setup = setup_of(run)
    path = cases.noisy_path(run)
    last = next((p for p in reversed(path) if pulled(setup, p)), path[0])
    return [path[0], last]


def predicted_spectra(setup: Setup, run: Run) -> Spectra:
    """(σ², θ²) of every unit at these points, by theory."""
    return [unit for p in points(run) for unit in spectra(setup.problem, p)]


def sigma(setup: Setup, params: cases.Params) -> np.ndarray:
    """The covariance of the gradient of a step."""
    return noise_of(setup).covariance(setup.problem, setup.net, params)


def factor(setup: Setup, params: cases.Params) -> np.ndarray:
    """(D, m), a root of that covariance."""
    return noise_of(setup).factor(setup.problem, setup.net, params)


def is_small(params: cases.Params) -> bool:
    """Is the covariance of all parameters formed?"""
    return sum(np.size(p) for p in params.values()) <= DENSE


def variances(setup: Setup, params: cases.Params) -> np.ndarray:
    """Its diagonal."""
    if is_small(params):
        return np.diagonal(sigma(setup, params))
    return np.sum(factor(setup, params) ** 2, axis=1)


def measured_spectra(setup: Setup, params: cases.Params) -> Spectra:
    """(σ², θ²) of every unit at a point, from the covariance of the run's own noise."""
    W1 = np.asarray(params["W1"])
    W2 = np.asarray(params["W2"])
    # Σ/S of a batch, over κ/η, is that of one sample.
    variance = variances(setup, params) * common.learning_rate(setup) / kappa(setup)
    enter = variance[: W1.size].reshape(W1.shape)
    leave = variance[W1.size :].reshape(W2.shape)
    both = zip(enter.T, leave, W1.T, W2, strict=True)
    return [
        (np.array([a.sum(), b.sum()]), np.array([np.sum(w * w), np.sum(u * u)]))
        for a, b, w, u in both
    ]


def pulled(setup: Setup, params: cases.Params) -> bool:
    """Is there noise beyond rounding, or decay, on both sides of every unit there?"""
    rate = kappa(setup)
    four = 4 * decay(setup)
    least = LEAST * rate * sample_square(common.quadratic(setup), params)
    units = spectra(setup.problem, params)
    return all(np.all(rate * s + four * t[::-1] > least * t[::-1]) for s, t in units)


def moved(params: cases.Params, unit: int, lam: float) -> dict[str, np.ndarray]:
    """exp(λA)θ for the rescaling of one unit."""
    amounts = np.zeros(np.shape(params["W1"])[1])
    amounts[unit] = lam
    return UNIT.move(params, amounts)


def all_moved(params: cases.Params, lam: np.ndarray) -> dict[str, np.ndarray]:
    """Every unit rescaled by its own λ.

    To each it is as if it alone had been moved: no residual changes, and a unit's noise hangs on
    residuals and its own weights.
    """
    return UNIT.move(params, lam)


def flows_at(setup: Setup, params: cases.Params) -> np.ndarray:
    """dC/dt of every unit there, from gradients; without the term of a finite step."""
    flow = cases.here(setup, params, include_gd=False, symmetries=cases.UNITS)["units"]
    return np.asarray(flow.total)


def closed_stars(setup: Setup, units: Spectra) -> np.ndarray:
    """λ* of every unit, by hand: ¼ ln of the ratio of pulls."""
    rate = kappa(setup)
    four = 4 * decay(setup)
    pulls = [(rate * s[0] + four * t[1], rate * s[1] + four * t[0]) for s, t in units]
    return np.array([np.log(up / down) / 4 for up, down in pulls])


def theorem(
    name: str,
    statement: str,
    title: str,
    predict: Predict,
    measure: Measure,
    tolerance: float | Mapping[str, float] = 1e-9,
    decays: bool = True,
    errata: Sequence[Erratum] = (),
    control: Control | None = None,
    large: bool = False,
) -> Theorem:
    """A theorem on the orbits of hidden units, with or without decay; `large`: at Fig. 2's size."""
    gamma = cases.DECAY if decays else 0.0
    other = Control(OTHER_NOISE, lambda key: cases.pair(key, gamma, Isotropic(5.0)))
    return Theorem(
        name,
        statement,
        hypotheses=[
            *([] if decays else [common.no_decay()]),
            *sgd(),
            kind(PULLED, lambda s: pulled(s, s.params)),
        ],
        predict=predict,
        measure=measure,
        tolerance=tolerance,
        instances=lambda key: cases.pair(key, gamma),
        paper_size=(lambda key: cases.of_paper(key, gamma)) if large else None,
        controls=[control or other],
        nets=(TwoLayer,),
        needs=cases.PARAMS,
        given=("path",),
        problems=(Regression, Population),
        dynamics=(Descent,),
        errata=errata,
        paper=PAPER,
        title=title,
        narrow=True,
    )
