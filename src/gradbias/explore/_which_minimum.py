"""One start, one line of minima: linear, deep, rank-1 and diagonal nets end at different ones."""

import numpy as np

from .._engine.setup import Setup, Until
from .._engine.simulate import simulate
from ..dynamics import Flow
from ..init import balanced
from ..nets import Deep, Diagonal, Net, Rank1
from ..problems import Regression
from ..theory import balanced_limit, diagonal_limit
from ._one_equation import data_point, minima
from ._picture import Json, axis, dots, handle, line, number, panel
from ._scene import Scene, Slider, State

WIDE = (-1.6, 2.8)
HIGH = (-1.3, 2.2)
NAMES = ("linear", "deep", "rank1", "diagonal")
LEAST = 0.05  # length of a data point


def problem(s: State) -> Regression:
    """One equation for two unknowns."""
    return Regression.half_sum([data_point(s, LEAST)], [s["y"]])


def start(s: State) -> np.ndarray:
    """The common start of all models."""
    return s["scale"] * np.array([s["start1"], s["start2"]])


def diagonal_start(s: State) -> dict[str, np.ndarray]:
    """The parameters with u² − v² the start and uv = α² in every coordinate."""
    half = np.arcsinh(start(s) / (2 * s["alpha"] ** 2)) / 2
    return {"u": s["alpha"] * np.exp(half), "v": s["alpha"] * np.exp(-half)}


def labels(s: State) -> dict[str, str]:
    """What each model is called."""
    return {
        "linear": "linear model",
        "deep": f"deep net, {s['depth']:g} layers",
        "rank1": f"rank-1 net, {s['layers']:g} layers",
        "diagonal": f"diagonal net, α = {s['alpha']:g}",
    }


def ends(s: State) -> dict[str, np.ndarray]:
    """Where each model ends, from the theorems."""
    data = problem(s)
    factors = {"linear": 1, "deep": int(s["depth"]), "rank1": 2 * int(s["layers"]) - 1}
    told = {name: balanced_limit(data, start(s), N).theta for name, N in factors.items()}
    told["diagonal"] = diagonal_limit(data, diagonal_start(s)).theta
    return {name: np.ravel(theta) for name, theta in told.items()}


def setups(s: State) -> dict[str, Setup]:
    """Gradient flow of each model."""
    nets: dict[str, Net] = {
        "linear": Deep([2, 1]),
        "deep": Deep([2] * int(s["depth"]) + [1]),
        "rank1": Rank1(d=2, depth=int(s["layers"]), width=2),
        "diagonal": Diagonal(2),
    }
    save_at = np.concatenate([[0.0], np.geomspace(1e-3, 2000, 200)])
    until = Until(gap=1e-20, time=2000)
    return {
        name: Setup(
            problem(s),
            net,
            diagonal_start(s) if name == "diagonal" else balanced(net, start(s)),
            Flow(),
            until,
            save_at=save_at,
        )
        for name, net in nets.items()
    }


def scene(s: State) -> Json:
    """The line of minima, one ring for each model, and where they are, in numbers."""
    x = np.array([s["x1"], s["x2"]])
    told = ends(s)
    rings = [dots("predicted", told[n], labels(s)[n], i) for i, n in enumerate(NAMES)]
    drawn = [
        line("minima", minima(problem(s)), "minima: every point has zero loss"),
        line("guide", ([0, x[0]], [0, x[1]])),
        *rings,
        handle("data point", x, ["x1", "x2"]),
        handle("start", start(s), ["start1", "start2"], s["scale"]),
    ]
    axes = (axis("θ₁", *WIDE), axis("θ₂", *HIGH))
    words = labels(s)
    numbers = [number(name, f"end of the {words[name]}", told[name]) for name in NAMES]
    return {"panels": [panel("Predictors", *axes, drawn, square=True)], "numbers": numbers}


def paths(s: State) -> Json:
    """The way of each model, and where it really ends."""
    runs = {name: simulate(setup, progress=False) for name, setup in setups(s).items()}
    marks: list[Json] = []
    numbers: list[Json] = []
    for i, (name, run) in enumerate(runs.items()):
        marks.append(line("simulated", run.data["theta"].values.T, series=i))
        numbers.append(number(name, "", np.ravel(np.asarray(run.theta))))
    return {"marks": [marks], "numbers": numbers}


def asked(s: State) -> dict[str, Setup]:
    """Which theorem is asked about which model."""
    of = setups(s)
    return {
        "rank1.cor1.1": of["linear"],
        "rank1.thm2": of["deep"],
        "rank1.thm1": of["rank1"],
        "rank1.diagonal": of["diagonal"],
    }


def code(s: State) -> str:
    """The same picture as a program."""
    return f"""\
# One start, one line of minima, four ends.
import numpy as np
import gradbias as gb

problem = gb.Regression.half_sum([[{s["x1"]!r}, {s["x2"]!r}]], [{s["y"]!r}])
start = {s["scale"]!r} * np.array([{s["start1"]!r}, {s["start2"]!r}])
alpha = {s["alpha"]!r}  # the diagonal net starts where uv = α² and u² − v² = start
half = np.arcsinh(start / (2 * alpha**2)) / 2
pair = {{"u": alpha * np.exp(half), "v": alpha * np.exp(-half)}}
depth, layers = {s["depth"]:.0f}, {s["layers"]:.0f}
nets = {{
    "linear": gb.Deep([2, 1]),
    "deep": gb.Deep([2] * depth + [1]),
    "rank1": gb.Rank1(d=2, depth=layers, width=2),
    "diagonal": gb.Diagonal(2),
}}
predicted = {{
    "linear": gb.theory.balanced_limit(problem, start, 1).theta,
    "deep": gb.theory.balanced_limit(problem, start, depth).theta,
    "rank1": gb.theory.balanced_limit(problem, start, 2 * layers - 1).theta,
    "diagonal": gb.theory.diagonal_limit(problem, pair).theta,
}}
saves = np.concatenate([[0.0], np.geomspace(1e-3, 2000, 200)])
runs = {{}}
for name, net in nets.items():
    params = pair if name == "diagonal" else gb.init.balanced(net, start)
    until = gb.Until(gap=1e-20, time=2000)
    setup = gb.Setup(problem, net, params, gb.Flow(), until, save_at=saves)
    runs[name] = gb.simulate(setup)
simulated = {{name: run.theta for name, run in runs.items()}}
ways = {{name: run.data["theta"].values for name, run in runs.items()}}
rings = {{name: np.ravel(theta) for name, theta in predicted.items()}}
ax = gb.plot.plane(ways, predicted=rings, problem=problem, xlim={WIDE}, ylim={HIGH})
ax.figure.savefig("which_minimum.png")
"""


SCENE = Scene(
    id="which_minimum",
    title="Which minimum?",
    look=(
        "Every point of the grey line fits the data; the models start at one predictor, and the "
        "parametrisation alone decides where each of them ends."
    ),
    controls=(
        Slider("x1", "data point x₁", 1.0, -2, 2, 0.01),
        Slider("x2", "data point x₂", 2.0, -2, 2, 0.01),
        Slider("y", "label y", 2.0, -2, 2, 0.01),
        Slider("start1", "start θ₁", 0.3, -2, 2, 0.01),
        Slider("start2", "start θ₂", -0.2, -2, 2, 0.01),
        Slider("scale", "scale of the start", 1.0, 0.05, 4, 0.01, log=True),
        Slider("depth", "layers of the deep net", 4, 2, 6, 1),
        Slider("layers", "layers of the rank-1 net", 4, 2, 4, 1),
        Slider("alpha", "α of the diagonal net", 0.1, 0.01, 2, 0.01, log=True),
    ),
    predicted=scene,
    simulated=paths,
    setups=asked,
    code=code,
    warm=tuple({"depth": depth, "layers": min(depth, 4)} for depth in (4, 3, 2, 5, 6)),
)
