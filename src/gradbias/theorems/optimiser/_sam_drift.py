"""Sharpness-aware minimisation on a curve of minima: it lowers the largest curvature."""

import jax.numpy as jnp
import numpy as np
import scipy.integrate

from ...dynamics import SAM, Descent
from ...nets import general
from ...problems import Regression
from ...theory.optimisers import sam_factor, sam_orbit
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
from ._papers import SHARPNESS

TIME = 0.36  # of the flow along the minima, kηρ²


def outputs(params, X):
    """√h₁(z)·x and √h₂(z)·y: of zero labels the loss is ½h₁x² + ½h₂y², least on x = y = 0."""
    z = params["z"][0]
    first = jnp.sqrt(1 + z**2) * params["x"]
    second = jnp.sqrt(0.3 + (z - 2) ** 2 / 2) * params["y"]
    return X @ jnp.stack([first, second])


NET = general(outputs, {"x": (1,), "y": (1,), "z": (1,)})


def largest(z: float) -> tuple[float, float]:
    """h₁, the largest curvature, and its slope."""
    return 1 + z * z, 2 * z


def other(z: float) -> tuple[float, float]:
    """h₂."""
    return 0.3 + (z - 2) ** 2 / 2, z - 2


def sam(setup: Setup) -> SAM:
    """What takes the steps."""
    assert isinstance(setup.dynamics, SAM)
    return setup.dynamics


def settings(setup: Setup) -> tuple[float, float]:
    """η and ρ."""
    return float(sam(setup).lr), float(sam(setup).rho)


def zero_labels(setup: Setup) -> bool:
    """Then minima are where both outputs are zero."""
    return isinstance(setup.problem, Regression) and not np.any(np.asarray(setup.problem.labels))


def moved(setup: Setup, finite: bool = True, trace: bool = False) -> Claims:
    """How far z goes along the flow of −½∇λ, with the factor of finite steps or without it."""
    lr, rho = settings(setup)
    time = int(setup.limit or 0) * lr * rho**2
    start = float(setup.params["z"][0])

    def slope(_: float, z: np.ndarray) -> list[float]:
        curvature, down = largest(float(z[0]))
        factor = float(sam_factor(lr, curvature)) if finite else 1.0
        more = other(float(z[0]))[1] if trace else 0.0
        return [-factor * (down + more) / 2]

    path = scipy.integrate.solve_ivp(slope, (0.0, time), [start], rtol=1e-10, atol=1e-12)
    return {"z": float(path.y[0, -1]) - start}


def predict(setup: Setup) -> Claims:
    return moved(setup)


def ends(setup: Setup) -> dict[str, Setup]:
    """The last two states: x changes sign between them."""
    steps = int(setup.limit or 0)
    return {"run": setup.replace(save_at=[steps - 1, steps])}


def measure(run: Run) -> Measurements:
    """How far z has come."""
    states = cases.path(run)
    start = float(setup_of(run).params["z"][0])
    return {"z": float(np.mean([state["z"][0] for state in states])) - start}


def on_orbit(setup: Setup) -> float:
    """How far x is from the orbit at the start, and y from zero, in units of the orbit."""
    lr, rho = settings(setup)
    orbit = float(sam_orbit(lr, rho, largest(float(setup.params["z"][0]))[0]))
    x, y = (float(np.abs(setup.params[name][0])) for name in ("x", "y"))
    return (abs(x - orbit) + y) / orbit


def instance(key: int, lr: float = 0.2, full: bool = True) -> Setup:
    """From z near 1, on the orbit."""
    rng = cases.draws(key, "sam")
    rho = 0.02
    z = float(rng.uniform(0.8, 1.2))
    x = float(sam_orbit(lr, rho, largest(z)[0]))
    params = {"x": np.array([x]), "y": np.array([0.1 * x]), "z": np.array([z])}
    problem = Regression(np.eye(2), np.zeros((2, 1)), 0.5)
    moves = SAM(rho, Descent(lr) if full else Descent(lr, weight_decay=1e-4))
    steps = round(TIME / (lr * rho**2))
    return Setup(problem, NET, params, moves, Until(steps=steps), cases.PATH, [steps], key=key)


THEOREMS = (
    Theorem(
        "optimiser.sam_drift",
        r"On a curve of minima sharpness-aware minimisation with all data in every step moves, in "
        r"time $k\eta\rho^2$, by $-\frac{1}{2}\nabla\lambda_{\max}\cdot"
        r"\frac{4}{(2-\eta\lambda_{\max})^2}$ along the curve: it lowers the largest curvature, "
        r"not the trace.",
        hypotheses=[
            kind("there are two directions off a curve of minima", lambda s: s.net == NET),
            kind("labels are zero", zero_labels),
            kind("descent takes the steps", lambda s: isinstance(sam(s).base, Descent)),
            kind("there is no momentum", lambda s: float(sam(s).momentum) == 0),
            kind("there is no weight decay", lambda s: float(s.dynamics.weight_decay) == 0),
            kind("no noise", lambda s: cases.optimiser(s).noise is None),
            kind("the step is constant", lambda s: not callable(sam(s).lr)),
            kind("steps are counted", lambda s: s.limit is not None),
            Hypothesis("it starts on the orbit", on_orbit, 0.2),
            Hypothesis("ρ is small", lambda s: settings(s)[1] ** 2, 0.01, True, "O(ρ²)"),
        ],
        predict=predict,
        measure=measure,
        tolerance=5e-4,
        instances=instance,
        controls=[
            Control("the trace", instance, lambda s: moved(s, trace=True), formula=True),
            Control("of small steps", instance, lambda s: moved(s, finite=False), formula=True),
            Control("there is no weight decay", lambda key: instance(key, full=False)),
        ],
        runs=ends,
        problems=(Regression,),
        dynamics=(SAM,),
        needs=cases.PATH,
        paper=SHARPNESS,
        title="the drift of sharpness-aware minimisation",
    ),
)
