"""Label noise: first down to zero loss, then slowly along it, to the sparse solution."""

import numpy as np

from .._engine.setup import Setup, Until
from .._sweeps.sweep import sweep
from ..dynamics import Descent
from ..nets import Diagonal
from ..noise import LabelNoise
from ..observe import theta
from ..problems import Regression
from ..theory import diagonal
from ._one_equation import data_point, minima
from ._picture import Json, axis, dots, handle, line, number, panel
from ._scene import Scene, Slider, State

SEEDS = 8
STEPS = 8000
SAVES = 160
POINTS = 41  # of the predicted way; each is a root
WIDE = (-0.6, 2.2)
HIGH = (-0.7, 1.5)
LEAST = 0.2  # length of a data point


def problem(s: State) -> Regression:
    """One equation for two unknowns."""
    return Regression.half_mean([data_point(s, LEAST)], [s["y"]])


def start(s: State) -> dict[str, np.ndarray]:
    """The same u and v in both coordinates, so that the predictor starts at zero."""
    return {"u": np.full(2, s["alpha"]), "v": np.full(2, s["alpha"])}


def save_at(count: int = SAVES) -> np.ndarray:
    """Steps at which runs are looked at."""
    return np.unique(np.linspace(0, STEPS, count).astype(int))


def setup(s: State, seed: int = 0) -> Setup:
    """One run with new noise on the label at every step."""
    dynamics = Descent(s["lr"], LabelNoise(s["std"]))
    record = {"theta": theta}
    until = Until(steps=STEPS)
    return Setup(problem(s), Diagonal(2), start(s), dynamics, until, record, save_at(), seed)


def slide(s: State) -> np.ndarray:
    """θ of the limiting flow, (points, 2); its time is steps·lr²."""
    data = problem(s)
    c = diagonal.noise_level(data, s["std"])
    u, v = diagonal.limiting_flow(data, start(s), save_at(POINTS) * s["lr"] ** 2, c)
    return u**2 - v**2


def scene(s: State) -> Json:
    """The way along the minima, and where it would end."""
    data = problem(s)
    way = slide(s)
    sparse = diagonal.weighted_l1(data)
    plane = [
        line("minima", minima(data), "minima"),
        line("predicted", way.T, "limiting flow"),
        dots("predicted", way[0], "where gradient flow ends", 2),
        dots("predicted", way[-1], f"after {STEPS} steps", 0),
        dots("predicted", sparse, "where noise ends at last: least weighted ℓ1", 1),
        handle("data point", (s["x1"], s["x2"]), ["x1", "x2"]),
    ]
    coordinates = [
        line("predicted", (save_at(POINTS), way[:, i]), f"θ{'₁₂'[i]}", i) for i in range(2)
    ]
    values = np.concatenate([way.ravel(), sparse, [0.0]])
    room = 0.15 * float(np.ptp(values))
    return {
        "panels": [
            panel("Predictors", axis("θ₁", *WIDE), axis("θ₂", *HIGH), plane, square=True),
            panel(
                "Both coordinates",
                axis("step", 0, STEPS),
                axis("θ", values.min() - room, values.max() + room),
                coordinates,
            ),
        ],
        "numbers": [
            number("first", "where gradient flow ends", way[0]),
            number("last", f"after {STEPS} steps of noise", way[-1]),
            number("sparse", "least weighted ℓ1, after infinitely many", sparse),
        ],
    }


def paths(s: State) -> Json:
    """Several draws; the mean of them in each coordinate."""
    runs = sweep(lambda seed: setup(s, seed), {"seed": range(SEEDS)}, progress=False)
    ways = runs["theta"].transpose("seed", "step", ...).values
    mean = ways.mean(axis=0)
    plane = [
        line("simulated", mean.T, f"mean of {SEEDS} runs"),
        dots("simulated", ways[:, -1].T, "their ends", 0),
    ]
    coordinates = [line("simulated", (save_at(), mean[:, i]), series=i) for i in range(2)]
    late = slice(-SAVES // 20, None)  # of fluctuations around the manifold, an average
    return {
        "marks": [plane, coordinates],
        "numbers": [number("last", "", mean[late].mean(axis=0))],
    }


def code(s: State) -> str:
    """The same picture as a program."""
    return f"""\
# Label noise, after zero loss.
import numpy as np
import gradbias as gb

problem = gb.Regression.half_mean([[{s["x1"]!r}, {s["x2"]!r}]], [{s["y"]!r}])
start = {{"u": np.full(2, {s["alpha"]!r}), "v": np.full(2, {s["alpha"]!r})}}
lr, std = {s["lr"]!r}, {s["std"]!r}
saves = np.unique(np.linspace(0, {STEPS}, {SAVES}).astype(int))
told_at = np.unique(np.linspace(0, {STEPS}, {POINTS}).astype(int))
c = gb.theory.diagonal.noise_level(problem, std)
u, v = gb.theory.diagonal.limiting_flow(problem, start, told_at * lr**2, c)
way = u**2 - v**2
sparse = gb.theory.diagonal.weighted_l1(problem)


def setup(seed):
    dynamics = gb.Descent(lr, gb.LabelNoise(std))
    record = {{"theta": gb.observe.theta}}
    until = gb.Until(steps={STEPS})
    return gb.Setup(problem, gb.Diagonal(2), start, dynamics, until, record, saves, key=seed)


runs = gb.sweep(setup, {{"seed": range({SEEDS})}})
mean = runs["theta"].mean("seed").values
predicted = {{"first": way[0], "last": way[-1], "sparse": sparse}}
simulated = {{"last": mean[{-SAVES // 20}:].mean(axis=0)}}
ax = gb.plot.plane(mean, predicted=way[-1], problem=problem, xlim={WIDE}, ylim={HIGH})
ax.plot(*way.T, "k--", lw=1)
ax.figure.savefig("label_noise.png")
"""


SCENE = Scene(
    id="label_noise",
    title="After zero loss",
    look=(
        "Fresh noise on the label cannot lift the loss for long, yet it moves the parameters "
        "along the minima, step by step, towards the sparse solution."
    ),
    controls=(
        Slider("std", "standard deviation of the noise", 0.5, 0.05, 1, 0.01),
        Slider("lr", "learning rate", 0.04, 0.01, 0.1, 0.02, log=True),
        Slider("alpha", "α of the start", 0.8, 0.1, 1.2, 0.01),
        Slider("x1", "data point x₁", 0.6, -1.2, 1.2, 0.01),
        Slider("x2", "data point x₂", 0.9, -1.2, 1.2, 0.01),
        Slider("y", "label y", 0.8, -1, 1, 0.01),
    ),
    predicted=scene,
    simulated=paths,
    setups=lambda s: {"zeroloss.slide": setup(s)},
    code=code,
)
