"""What sign descent conserves: differences of absolute values."""

import numpy as np

from ...dynamics import Steepest
from ...geometry import L2, GeometryLike, Linf
from ...nets import MLP, Rank1, TwoLayer
from ...observe import charges
from ...problems import Regression
from ...symmetry import kept
from ..prelude import Claims, Control, Measurements, Run, Setup, Theorem, Until, equals, kind
from . import _instances as cases

STEPS = 200
RECORD = {"absolute": charges(power=1)}
NET = TwoLayer(1, 1, 8)


def conserved(setup: Setup) -> list[str]:
    """The symmetries with one parameter on each side."""
    return [name for name, found in kept(setup.net, Linf).items() if found is not None]


def predict(setup: Setup) -> Claims:
    """Those of the start; decoupled decay shrinks them."""
    steps = int(setup.limit or 0)
    decay = float(setup.dynamics.weight_decay)
    factors = np.cumprod(np.concatenate([[1.0], 1 - cases.rates(setup, steps) * decay]))
    told = {}
    for name in conserved(setup):
        entries = setup.net.symmetries()[name].entries(setup.params)
        assert entries == (1, 1)
        size = {n: np.abs(p) ** 0.5 for n, p in setup.params.items()}
        start = np.asarray(setup.net.symmetries()[name].charge(size))
        start = np.diagonal(start) if start.ndim == 2 else start
        at = factors[np.asarray(setup.save_at, int)]
        value = at.reshape(-1, *(1,) * start.ndim) * start
        told[name] = equals(value, scale=float(np.abs(start).max()))
    return told


def measure(run: Run) -> Measurements:
    assert run.setup is not None
    return {name: run.data[f"absolute_{name}"].values for name in conserved(run.setup)}


def stays(setup: Setup) -> float:
    """How far parameters go over how large the least is."""
    least = min(float(np.abs(p).min()) for p in setup.params.values())
    steps = int(setup.limit) if setup.limit is not None else 0
    way = float(cases.rates(setup, steps).sum())
    decay = float(setup.dynamics.weight_decay)
    return way * (1 + decay * max(float(np.abs(p).max()) for p in setup.params.values())) / least


def signs(setup: Setup) -> bool:
    """Not the gradient, and not times its norm."""
    moves = cases.steepest(setup)
    return isinstance(moves.geometry, Linf) and moves.normalised


def instance(
    key: int, geometry: GeometryLike = Linf, least: float = 0.5, most: float = 1.0
) -> Setup:
    """Eight products of two scalars."""
    rng = cases.draws(key, "scalars")
    x = rng.standard_normal((9, 1))
    problem = Regression.half_mean(x, 3 * x + 0.1 * rng.standard_normal((9, 1)))
    params = {n: rng.uniform(least, most, shape) for n, shape in (NET.shapes() or {}).items()}
    moves = Steepest(1e-3, geometry, weight_decay=0.1)
    saves = np.arange(0, STEPS + 1, 20)
    return Setup(problem, NET, params, moves, Until(steps=STEPS), RECORD, saves, key=key)


THEOREMS = (
    Theorem(
        "optimiser.sign_charge",
        r"Sign descent conserves $|u|-|v|$ of every product of two scalars, to rounding and for "
        r"steps of any size, while no factor crosses zero; decoupled decay multiplies it by "
        r"$1-\eta\lambda$ in every step.",
        hypotheses=[
            kind("steps are signs", signs),
            kind("there is no momentum", lambda s: float(cases.steepest(s).momentum) == 0),
            kind(
                "decay is decoupled",
                lambda s: cases.steepest(s).decoupled or float(s.dynamics.weight_decay) == 0,
            ),
            kind("some symmetry has one parameter on each side", conserved),
            kind("steps are counted", lambda s: s.limit is not None),
            kind("no factor can cross zero", lambda s: stays(s) < 1),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-11,
        instances=instance,
        controls=[
            Control("steps are signs", lambda key: instance(key, L2)),
            Control("no factor can cross zero", lambda key: instance(key, least=-0.1, most=0.1)),
        ],
        nets=(TwoLayer, Rank1, MLP),
        dynamics=(Steepest,),
        needs=RECORD,
        title="charges of sign descent",
        own=True,
    ),
)
