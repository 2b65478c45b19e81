"""Which interpolator steepest descent finds in regression: not the one of least norm."""

from collections.abc import Mapping

import numpy as np
import scipy.linalg
import scipy.optimize

from ...dynamics import Steepest
from ...geometry import L2, GeometryLike, Lp
from ...nets import Deep
from ...problems import Regression
from ..prelude import (
    Control,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    Until,
    at_least,
    common,
    kind,
    setup_of,
)
from . import _instances as cases
from ._papers import GEOMETRY

STEPS = 6000
LESS = 5  # how much smaller the other step is
ABOVE = 0.005  # by how much norms differ at least, on these data


def exponent(setup: Setup) -> float:
    """Of the norm."""
    geometry = cases.steepest(setup).geometry
    return geometry.p if isinstance(geometry, Lp) else 2.0


def two_rates(setup: Setup) -> dict[str, Setup]:
    """The run, and one of smaller steps that goes as far."""
    steps = int(setup.limit or STEPS)
    moves = cases.steepest(setup)
    smaller = Steepest(float(moves.lr) / LESS, moves.geometry, normalised=False)
    more = LESS * steps
    other = setup.replace(dynamics=smaller, until=Until(steps=more), save_at=[more])
    return {"run": setup.replace(save_at=[steps]), "smaller": other}


def least_norm(A: np.ndarray, b: np.ndarray, p: float) -> tuple[np.ndarray, float]:
    """The interpolator of least ℓp norm, and how far it is from being stationary."""
    start = np.linalg.pinv(A) @ b
    free = scipy.linalg.null_space(A)

    def power(t: np.ndarray) -> tuple[float, np.ndarray]:
        x = start + free @ t
        return float(np.sum(np.abs(x) ** p)), free.T @ (p * np.sign(x) * np.abs(x) ** (p - 1))

    found = scipy.optimize.minimize(power, np.zeros(free.shape[1]), jac=True, tol=1e-12)
    value, slope = power(found.x)
    return start + free @ found.x, float(np.abs(slope).max()) / value


def predict(setup: Setup) -> Told:
    problem = common.regression(setup)
    p = exponent(setup)
    best, residual = least_norm(np.asarray(problem.X), np.ravel(problem.labels), p)
    above = at_least((1 + ABOVE) * float(np.linalg.norm(best, p)))
    return Told({"norm": above, "smaller": above, "ratio": at_least(1 + ABOVE)}, residual)


def measure(runs: Mapping[str, Run]) -> Measurements:
    """The norms of both ends, and how much larger that of large steps is."""
    p = exponent(setup_of(runs["run"]))
    norm, smaller = (
        float(np.linalg.norm(np.ravel(next(iter(runs[name].final.values()))), p))
        for name in ("run", "smaller")
    )
    return {"norm": norm, "smaller": smaller, "ratio": norm / smaller}


def instance(key: int, geometry: GeometryLike | None = None) -> Setup:
    """Two samples of three inputs, as in the paper, with other labels."""
    rng = cases.draws(key, "no norm")
    labels = np.array([1.0, 10.0]) * rng.uniform(0.8, 1.2, 2)
    problem = Regression([[1.0, 1, 1], [1, 2, 0]], labels, 0.5)
    moves = Steepest(0.05, Lp(4) if geometry is None else geometry, normalised=False)
    return cases.one_layer(key, moves, problem, STEPS)


def same_data(setup: Setup) -> bool:
    """That it is not the least norm is shown by these data; on others it may come near."""
    problem = setup.problem
    known = instance(0).problem
    assert isinstance(known, Regression)
    return isinstance(problem, Regression) and np.array_equal(problem.X, known.X)


THEOREMS = (
    Theorem(
        "optimiser.no_norm",
        r"Steepest descent in $\ell_p$, $p \ne 2$, does not find the interpolator of least "
        r"$\ell_p$ norm in regression: where it ends depends on the size of its steps.",
        hypotheses=[
            kind("the geometry is not ℓ2", lambda s: isinstance(cases.steepest(s).geometry, Lp)),
            kind("steps are those of the norm", lambda s: not cases.steepest(s).normalised),
            kind("the data are those of the paper", same_data),
            common.no_decay(),
            kind("there is no momentum", lambda s: float(cases.steepest(s).momentum) == 0),
            kind("no noise", lambda s: cases.steepest(s).noise is None),
            kind("the step is constant", lambda s: not callable(cases.steepest(s).lr)),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-4,
        instances=instance,
        controls=[Control("the geometry is not ℓ2", lambda key: instance(key, L2))],
        runs=two_rates,
        nets=(Deep,),
        problems=(Regression,),
        dynamics=(Steepest,),
        needs=cases.PATH,
        paper=GEOMETRY,
        title="no norm in regression",
    ),
)
