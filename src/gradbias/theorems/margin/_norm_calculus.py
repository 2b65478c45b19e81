"""Optimiser × parametrisation → norm: steepest descent of ℓp on products of two numbers."""

import numpy as np

from ...dynamics import Steepest
from ...geometry import L1, L2, Geometry, Linf, Lp
from ...nets import Diagonal, Net, linear
from ...problems import Classification, separable
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    kind,
    setup_of,
)
from . import _instances as cases
from ._papers import CALCULUS

# The optimiser's norm, that of the margin on w = u² − v², and the step. Gradient descent, whose
# norm is ℓ1, is too slow to be seen by steps: `margin.diagonal` has it.
CELLS: tuple[tuple[Geometry, Geometry, float], ...] = (
    (Lp(4), L2(), 0.005),
    (Linf(), Linf(), 0.001),
)
START = 0.01
STEPS = 20_000
NEEDS = cases.THETA


def moves(setup: Setup) -> Steepest:
    assert isinstance(setup.dynamics, Steepest)
    return setup.dynamics


def norm_of(setup: Setup) -> Geometry | None:
    """ℓ_{p/2} of the optimiser's ℓp, where its largest margin is known."""
    return next((half for own, half, _ in CELLS if own == moves(setup).geometry), None)


def predict(setup: Setup, geometry: Geometry | None = None) -> Claims:
    norm = geometry or norm_of(setup)
    assert norm is not None
    return {"margin": cases.classes(setup).max_margin(norm).gamma}


def wrong(setup: Setup) -> Claims:
    """The norm of another optimiser."""
    return predict(setup, L1() if isinstance(moves(setup).geometry, Linf) else Linf())


def measure(run: Run) -> Measurements:
    """At the end."""
    setup = setup_of(run)
    norm = norm_of(setup)
    assert norm is not None
    w = cases.predictors(run)[-1]
    return {"margin": (cases.classes(setup).constraints @ w).min() / float(norm.norm(w))}


def reach(setup: Setup) -> float:
    """How large the start is beside the way that is gone."""
    rates = np.diff(moves(setup).time(np.arange(int(np.asarray(setup.save_at)[-1]) + 1)))
    sizes = [float(np.abs(p).max()) for p in setup.params.values()]
    return max(sizes) / float(rates.sum())


def times(params):
    """A product that cannot change its sign under sign descent from |u| = |v|."""
    return params["u"] * params["v"]


def instance(key: int, cell: int | None = None) -> Setup:
    """Each optimiser in turn."""
    rng = cases.draws(key, "norm calculus")
    n = int(rng.integers(3, 6))
    d = n + int(rng.integers(5, 10))
    problem = separable(n, d, key=key, loss="exponential")
    own, _, lr = CELLS[key % 2 if cell is None else cell]
    params = {name: START * rng.uniform(1, 2, d) for name in ("u", "v")}
    net = Diagonal(d)
    return Setup(problem, net, params, Steepest(lr, own), Until(steps=STEPS), NEEDS, key=key)


def product(key: int) -> Setup:
    """Sign descent of u·v with |u| = |v|: a coordinate that starts with the wrong sign dies."""
    setup = instance(key, 1)
    d = setup.problem.d
    net: Net = linear(times, {"u": (d,), "v": (d,)})
    signs = np.where(cases.draws(key, "signs").random(d) < 0.5, -1.0, 1.0)
    return setup.replace(net=net, params={"u": np.full(d, START), "v": START * signs})


THEOREMS = (
    Theorem(
        "margin.norm_calculus",
        r"Steepest descent in $\ell_p$ on $w = u^2 - v^2$ finds the largest margin of "
        r"$\ell_{p/2}$: of $\ell_2$ for $\ell_4$, of $\ell_\infty$ for signs.",
        hypotheses=[
            *cases.separated(),
            kind("there are two classes", lambda s: cases.classes(s).vector),
            kind("the norm has an exact margin", norm_of),
            kind("steps have unit length", lambda s: moves(s).normalised),
            kind("there is no momentum", lambda s: float(moves(s).momentum) == 0),
            kind("there is no weight decay", lambda s: float(moves(s).weight_decay) == 0),
            kind("no noise", lambda s: moves(s).noise is None),
            Hypothesis("the start is small beside the way", reach, 1e-2),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-2,
        instances=instance,
        controls=[
            Control("the margin of another optimiser", instance, wrong, formula=True),
            Control("the net is u² − v²", product),
        ],
        nets=(Diagonal,),
        problems=(Classification,),
        dynamics=(Steepest,),
        needs=NEEDS,
        paper=CALCULUS,
        title="optimiser × parametrisation",
    ),
)
