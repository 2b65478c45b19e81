"""What steepest descent of small steps conserves: its own power of the factors, and no other."""

import numpy as np

from ...dynamics import Steepest
from ...geometry import L2, Geometry, GeometryLike, Lp
from ...nets import TwoLayer
from ...problems import Regression
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    common,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases
from ._sign_charge import NET, stays

STEPS = 400
POWER = 3.0  # of ℓp with p = 3/2, for controls whose geometry has another


def power(setup: Setup) -> float:
    """The exponent q with 1/p + 1/q = 1."""
    geometry = cases.steepest(setup).geometry
    return geometry.charge_power if isinstance(geometry, Lp) else POWER


def charge(setup: Setup, params: dict[str, np.ndarray], q: float) -> np.ndarray:
    """|u|^q − |v|^q of every product of two scalars."""
    return np.abs(np.ravel(params["W1"])) ** q - np.abs(np.ravel(params["W2"])) ** q


def predict(setup: Setup) -> Claims:
    start = charge(setup, setup.params, power(setup))
    scale = float(np.abs(start).max())
    return {"C": equals(np.broadcast_to(start, (len(setup.save_at), len(start))), scale=scale)}


def measure(run: Run) -> Measurements:
    setup = setup_of(run)
    return {"C": np.array([charge(setup, p, power(setup)) for p in cases.path(run)])}


def finite(setup: Setup) -> float:
    """What steps of a finite size add: q(q−1)/2·|u|^(q−2)·d² each, over the charges."""
    q = power(setup)
    steps = int(setup.limit or 0)
    rates = cases.rates(setup, steps)
    way = float(rates.sum())
    sizes = np.concatenate([np.abs(np.ravel(p)) for p in setup.params.values()])
    ends = np.array([max(float(sizes.min()) - way, 0.0), float(sizes.max()) + way])
    bend = q * (q - 1) / 2 * float(np.max(ends ** (q - 2)))
    scale = float(np.abs(charge(setup, setup.params, q)).max())
    return float(np.sum(rates**2)) * bend / scale if scale > 0 else np.inf


def own(geometry: Geometry) -> bool:
    """Is it ℓp with 1 < p < ∞, other than ℓ2?"""
    return isinstance(geometry, Lp) and geometry.p != 2


def instance(key: int, geometry: GeometryLike | None = None, decay: float = 0.0) -> Setup:
    """Eight products of two scalars."""
    rng = cases.draws(key, "powers")
    x = rng.standard_normal((9, 1))
    problem = Regression.half_mean(x, 6 * x + 0.1 * rng.standard_normal((9, 1)))
    params = {n: rng.uniform(0.5, 1, shape) for n, shape in (NET.shapes() or {}).items()}
    moves = Steepest(5e-4, Lp(1.5) if geometry is None else geometry, weight_decay=decay)
    saves = np.arange(0, STEPS + 1, 40)
    return Setup(problem, NET, params, moves, Until(steps=STEPS), cases.PATH, saves, key=key)


THEOREMS = (
    Theorem(
        "optimiser.power_charge",
        r"Small steps of steepest descent in $\ell_p$ conserve $|u|^q-|v|^q$ of every product of "
        r"two scalars, $1/p+1/q=1$, where gradient descent conserves $u^2-v^2$.",
        hypotheses=[
            kind("the geometry is ℓp", lambda s: own(cases.steepest(s).geometry)),
            common.no_decay(),
            kind("there is no momentum", lambda s: float(cases.steepest(s).momentum) == 0),
            kind("no noise", lambda s: cases.steepest(s).noise is None),
            kind("there is one input and one output", lambda s: s.problem.d == s.problem.k == 1),
            kind("steps are counted", lambda s: s.limit is not None),
            kind("steps are of unit size", lambda s: cases.steepest(s).normalised),
            kind("no factor can cross zero", lambda s: stays(s) < 1),
            Hypothesis("steps are small", finite, 0.01, True, "O(η)"),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-6,
        instances=instance,
        controls=[
            Control("the geometry is ℓp", lambda key: instance(key, L2)),
            Control("there is no weight decay", lambda key: instance(key, decay=0.2)),
        ],
        nets=(TwoLayer,),
        problems=(Regression,),
        dynamics=(Steepest,),
        needs=cases.PATH,
        title="charges of other powers",
        own=True,
    ),
)
