"""Where decoupled decay ends: at the least loss in a ball."""

import numpy as np

from ...dynamics import Adam, Lion, Muon, Steepest
from ...geometry import L2, Geometry, Linf, Product, Spectral
from ...nets import Deep
from ...problems import Regression
from ...theory.optimisers import decay_ball
from ..prelude import (
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    common,
    equals,
    kind,
)
from . import _instances as cases
from ._papers import ADAMW

STEPS = 60_000
MEMORY = 0.05  # of 1/(1 − β₂) steps: fitted, with β₂ from 0.99 to 0.999


def geometry_of(setup: Setup) -> Geometry | None:
    """In which the optimiser is steepest, at the end of its memory; None if unknown."""
    moves = setup.dynamics
    if isinstance(moves, Muon):
        return Spectral() if moves.orthogonalise == "exact" and float(moves.scale) == 1 else None
    if isinstance(moves, Adam):
        return Linf() if float(moves.eps) == 0 else None
    if isinstance(moves, Steepest):
        inner = moves.geometry
        if isinstance(inner, Product) and isinstance(inner.geometries, Spectral):
            inner = Spectral() if not inner.scales else inner
        return inner if moves.normalised and isinstance(inner, (L2, Linf, Spectral)) else None
    return Linf()


def last_rate(setup: Setup) -> float:
    """What the last step is of the ball, as far as coordinates inside it chatter."""
    steps = int(setup.limit) if setup.limit is not None else 0
    rate = cases.rates(setup, steps)[-1] if steps else np.inf
    chatter = setup.problem.d**0.5
    if isinstance(setup.dynamics, Adam):  # √v forgets slowly that gradients have become small
        chatter += MEMORY / (1 - float(setup.dynamics.betas[1]))
    return float(rate) * chatter * float(setup.dynamics.weight_decay)


def predict(setup: Setup) -> Told:
    geometry = geometry_of(setup)
    assert geometry is not None
    problem = common.regression(setup)
    ball = decay_ball(problem, float(setup.dynamics.weight_decay), geometry)
    slope = float(np.abs(problem.theta_gradient(np.zeros((problem.d, problem.k)))).sum())
    return Told({"theta": equals(ball.theta, scale=ball.radius)}, abs(ball.gap) / slope)


def measure(run: Run) -> Measurements:
    assert run.theta is not None
    return {"theta": run.theta}


def ridge(setup: Setup) -> Told:
    """The minimiser of L + (λ/2)‖θ‖², by its normal equations."""
    problem = common.regression(setup)
    decay = float(setup.dynamics.weight_decay)
    X = np.asarray(problem.X)
    H = 2 * float(problem.weight) * X.T @ X
    c = 2 * float(problem.weight) * X.T @ np.asarray(problem.labels)
    theta = np.linalg.solve(H + decay * np.eye(problem.d), c)
    return Told({"theta": equals(problem.at_edge(theta), scale=1 / decay)})


def shrinking(k: int) -> float:
    """A learning rate whose sum has no end."""
    return 0.05 / (1 + k / 300)


def squares(key: int, k: int = 1) -> Regression:
    """Thirty samples of ten inputs, labels far from what they fit."""
    rng = cases.draws(key, "ball")
    return Regression.half_mean(rng.standard_normal((30, 10)), 3 * rng.standard_normal((30, k)))


def boxed(key: int, decoupled: bool = True, eps: float = 0.0) -> Setup:
    """AdamW with half of its coordinates at the box."""
    problem = squares(key)
    sizes = np.sort(np.abs(np.ravel(problem.min_norm)))
    moves = Adam(shrinking, (0.9, 0.99), eps, float(1 / np.median(sizes)), decoupled)
    return cases.one_layer(key, moves, problem, STEPS)


def spectral(key: int, method: str = "exact") -> Setup:
    """Muon with half of its singular values at the ball."""
    problem = squares(key, 4)
    sizes = np.linalg.svd(np.asarray(problem.min_norm), compute_uv=False)
    moves = Muon(shrinking, 0.9, orthogonalise=method, weight_decay=float(1 / np.median(sizes)))
    return cases.one_layer(key, moves, problem, STEPS, 1e-3)


def settled() -> list[Hypothesis]:
    """One layer, decay, no noise, and steps that have become small."""
    return [
        kind("there is one layer", lambda s: len(s.params) == 1),
        kind("there is decay", lambda s: float(s.dynamics.weight_decay) > 0),
        kind("no noise", lambda s: cases.optimiser(s).noise is None),
        kind("the data determine the minimiser", lambda s: common.quadratic(s).rank == s.problem.d),
        Hypothesis("the last step is small", last_rate, 0.02, True, "O(η√d λ)"),
    ]


def hypotheses() -> list[Hypothesis]:
    """What both balls have in common."""
    return [
        kind("decay is decoupled", lambda s: getattr(s.dynamics, "decoupled", True)),
        kind("the geometry is known", lambda s: geometry_of(s) is not None),
        *settled(),
    ]


_SAID = (
    r"from a net of one layer, with $\sum\eta = \infty$ and $\eta\to0$, ends at the least loss in "
    r"the ball $\|\theta\| \le 1/\lambda$"
)
THEOREMS = (
    Theorem(
        "optimiser.decay_box",
        rf"Adam ($\epsilon = 0$), Lion or sign descent with decoupled decay $\lambda$, {_SAID} of "
        r"$\ell_\infty$.",
        hypotheses=hypotheses(),
        predict=predict,
        measure=measure,
        tolerance=1e-4,
        instances=boxed,
        controls=[Control("decay is decoupled", lambda key: boxed(key, False))],
        nets=(Deep,),
        problems=(Regression,),
        dynamics=(Adam, Lion, Steepest),
        needs=cases.PATH,
        paper=ADAMW,
        title="the box of decoupled decay",
    ),
    Theorem(
        "optimiser.coupled_ridge",
        r"Adam or sign descent with decay $\lambda$ in the gradient, from a net of one layer, with "
        r"$\sum\eta = \infty$ and $\eta\to0$, ends at ridge regression, the minimum of "
        r"$L + \frac{\lambda}{2}\|\theta\|^2$: no norm of their own is left.",
        hypotheses=[
            kind("decay is in the gradient", lambda s: not getattr(s.dynamics, "decoupled", True)),
            *settled(),
        ],
        predict=ridge,
        measure=measure,
        tolerance=1e-4,
        instances=lambda key: boxed(key, False),
        controls=[Control("decay is in the gradient", boxed)],
        nets=(Deep,),
        problems=(Regression,),
        dynamics=(Adam, Steepest),
        needs=cases.PATH,
        paper=ADAMW,
        title="decay in the gradient is ridge",
    ),
    Theorem(
        "optimiser.decay_spectral",
        rf"Muon with decoupled decay $\lambda$, {_SAID} of the spectral norm.",
        hypotheses=hypotheses(),
        predict=predict,
        measure=measure,
        tolerance=1e-4,
        instances=spectral,
        controls=[
            Control(
                "the geometry is known",
                lambda key: spectral(key, "newton_schulz"),
                lambda s: predict(spectral(s.key)),
            )
        ],
        nets=(Deep,),
        problems=(Regression,),
        dynamics=(Muon,),
        needs=cases.PATH,
        title="the spectral ball of Muon",
        own=True,
    ),
)
