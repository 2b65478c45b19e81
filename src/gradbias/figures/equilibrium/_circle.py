"""Figure 1: a loss that knows only the direction; steps and noise move outward."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Flow
from ...nets import general
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...numerics.types import PyTree
from ...plot import BLUE, GREEN, GREY, ORANGE
from ...problems import Regression
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

LOOKS = {"flow": (GREEN, "-"), "GD": (BLUE, "--"), "SGD": (ORANGE, "-")}


def on_the_circle(params: PyTree, X: jax.Array) -> jax.Array:
    """The outputs x·θ/‖θ‖."""
    theta = params["theta"]
    return X @ theta / jnp.sqrt(jnp.sum(theta * theta))


NET = general(on_the_circle, {"theta": (2,)})


def problem(s: Settings) -> Regression:
    """A direction to be found, and labels that cannot all be fitted."""
    rng = generator(s.key, "figures.circle")
    X = rng.standard_normal((s.n, 2))
    return Regression.mean(
        X, X @ [1.0, 0.3] / np.hypot(1, 0.3) + s.noise * rng.standard_normal(s.n)
    )


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    data = problem(s)
    start = {"theta": np.asarray(s.start)}
    record = {"theta": lambda problem, net, params: params["theta"]}
    steps = np.unique(np.geomspace(1, s.steps, s.saves).astype(int))
    save = np.concatenate([[0], steps])
    runs = {
        "flow": Setup(data, NET, start, Flow(), Until(time=s.lr * s.steps), record, s.lr * save),
        "GD": Setup(data, NET, start, Descent(s.lr), Until(steps=s.steps), record, save),
        "SGD": Setup(
            data,
            NET,
            start,
            Descent(s.lr, Minibatch(s.batch)),
            Until(steps=s.steps),
            record,
            save,
            key=s.key,
        ),
    }
    paths = [lab.simulate(setup).data["theta"].values for setup in runs.values()]
    # What one step adds on average: lr²(‖ḡ‖² + Tr Σ/S), with the noise at the best direction.
    return xr.Dataset(
        {"path": (("how", "step", "entry"), np.array(paths)), "noise": noise_at_minimum(data)},
        {"how": list(runs), "step": save},
    )


def noise_at_minimum(data: Regression) -> float:
    """Tr Σ·‖θ‖² of one sample's gradient at the best direction; it does not depend on ‖θ‖."""
    X = np.asarray(data.X)
    y = np.ravel(data.Y)
    angles = np.linspace(0, 2 * np.pi, 20_001)
    unit = np.stack([np.cos(angles), np.sin(angles)])
    best = unit[:, np.argmin(((X @ unit - y[:, None]) ** 2).mean(0))]
    across = np.array([-best[1], best[0]])
    gradients = 2 * (X @ best - y) * (X @ across)  # tangential, at ‖θ‖ = 1
    return float(gradients.var())


def radius(data: xr.Dataset, how: str) -> np.ndarray:
    """‖θ‖ along a path."""
    return np.linalg.norm(data["path"].sel(how=how).values, axis=-1)


def predicted(data: xr.Dataset, s: Settings) -> np.ndarray:
    """‖θ‖ under noise: d‖θ‖²= lr²TrΣ/S a step with Tr Σ ∝ 1/‖θ‖², so ‖θ‖⁴ grows linearly."""
    growth = s.lr**2 * float(data["noise"]) / s.batch * (s.n - s.batch) / (s.n - 1)
    return (np.linalg.norm(s.start) ** 4 + 2 * growth * data["step"].values) ** 0.25


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2)
    start = np.linalg.norm(s.start)
    turn = np.linspace(0, 2 * np.pi, 400)
    left.plot(start * np.cos(turn), start * np.sin(turn), color=GREY, lw=0.7, zorder=0)
    for how, (colour, line) in LOOKS.items():
        left.plot(*data["path"].sel(how=how).values.T, line, color=colour, label=how)
        right.plot(data["step"] / 1000, radius(data, how), line, color=colour, label=how)
    left.plot(*s.start, "o", color="black", ms=3)
    right.plot(
        data["step"] / 1000, predicted(data, s), ":", color="black", label="noise, predicted"
    )
    left.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$", title="the path of θ")
    left.set_aspect("equal", adjustable="datalim")
    right.set(xlabel="step / 1000", ylabel=r"$\|\theta\|$", title="its norm")
    right.legend()


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    start = np.linalg.norm(s.start)
    flow, gd, sgd = (radius(data, how) for how in LOOKS)
    late = data["step"].values > s.steps / 3
    told = predicted(data, s)
    # The path's own first leg is not in the prediction: compare growth of ‖θ‖⁴ after it.
    first = int(np.argmax(late))
    grown = (sgd[-1] ** 4 - sgd[first] ** 4) / (told[-1] ** 4 - told[first] ** 4)
    return [
        Check("flow: largest change of the norm, relative", abs(flow / start - 1).max(), high=1e-7),
        Check("GD: smallest step of the norm outward", np.diff(gd).min(), low=-1e-12),
        Check("GD: norm at the end ÷ start − 1", gd[-1] / start - 1, low=1e-4),
        Check("SGD: norm at the end ÷ start", sgd[-1] / start, low=1.2),
        Check("SGD: growth of ‖θ‖⁴ in the last two thirds ÷ predicted", grown, 0.85, 1.15),
    ]


CIRCLE = Figure(
    id="equilibrium.1",
    title="A scale-invariant loss: steps and noise go outward",
    caption=(
        r"A loss of the direction $\theta/\|\theta\|$ alone: its charge is $\|\theta\|^2$. "
        "Gradient flow stays on its circle to integration error. A step of gradient descent is "
        "tangential, so it ends outside the circle, until the gradient has died out; noise never "
        "dies here (the labels cannot all be fitted), and SGD keeps moving outward. Dotted: "
        r"$\|\theta\|^4 = \|\theta_0\|^4 + 2\,\mathrm{lr}^2\,T\,k/S$ from the noise "
        r"$T = \|\theta\|^2\mathrm{Tr}\,\Sigma$ at the best direction; its slope agrees with "
        "what is measured once the direction is found."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "n": 40,
        "noise": 0.7,
        "batch": 2,
        "lr": 0.05,
        "steps": 30_000,
        "saves": 300,
        "start": (-0.8, 1.0),
    },
    wide=True,
    height=0.95,
)
