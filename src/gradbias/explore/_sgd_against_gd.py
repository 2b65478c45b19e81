"""SGD against GD: noise opens a gap between the layers, and the gap moves the end."""

import numpy as np

from .._engine.setup import Setup, Until
from .._engine.simulate import simulate
from .._sweeps.sweep import sweep
from ..dynamics import Descent, Flow
from ..init import balanced
from ..nets import Rank1
from ..noise import Minibatch
from ..numerics.host_rng import generator
from ..observe import gap, theta
from ..problems import Regression
from ..theory import balanced_limit, gd_gap, sgd_limit
from ._one_equation import minima
from ._picture import Json, axis, dots, handle, line, number, panel
from ._scene import Scene, Slider, State

ROWS = 8
LAYERS = 3
FACTORS = 2 * LAYERS - 1
SEEDS = 8
SAVES = 100
RATES = np.geomspace(0.005, 0.2, 25)
HOW = ("GD", "SGD")
TIME = 30.0  # of each run, in steps·lr
X = np.array([0.6, 0.8])  # the direction of all rows; (1, 0.5) is the solution of least norm
WIDE = (-0.6, 2.4)
HIGH = (-1.3, 1.3)


def lengths() -> np.ndarray:
    """Of the rows, all in one direction, so that minibatches differ."""
    return np.exp(0.5 * generator(0, "explore lengths").standard_normal(ROWS)).round(2)


def problem() -> Regression:
    """Eight equations that say the same."""
    a = lengths()
    return Regression.half_mean(a[:, None] * X, a)


def start(s: State) -> np.ndarray:
    """Of SGD and of GD."""
    return np.array([s["start1"], s["start2"]])


def steps(s: State) -> int:
    """How many, so that all runs last as long."""
    return int(np.ceil(TIME / s["lr"]))


def save_at(s: State) -> np.ndarray:
    """Steps, dense at first; always as many, for another number would be compiled anew."""
    i = np.arange(SAVES)
    return np.maximum(i, np.round(steps(s) * (i / i[-1]) ** 2).astype(int))


def setup(s: State, how: str, seed: int = 0) -> Setup:
    """One run of "flow", "GD" or "SGD"."""
    net = Rank1(d=2, depth=LAYERS, width=2)
    params = balanced(net, start(s))
    record = {"theta": theta, "gap": gap}
    saves = save_at(s)
    if how == "flow":
        times = saves * s["lr"]
        return Setup(problem(), net, params, Flow(), Until(time=float(times[-1])), record, times)
    noise = Minibatch(int(s["batch"])) if how == "SGD" else None
    dynamics = Descent(s["lr"], noise)
    return Setup(problem(), net, params, dynamics, Until(steps=steps(s)), record, saves, seed)


def ends(s: State) -> dict[str, tuple[np.ndarray, float]]:
    """Where flow, GD and SGD end, and with which gap, from the theorems."""
    data = problem()
    opened = gd_gap(data, start(s), FACTORS, s["lr"])
    told = {
        "flow": balanced_limit(data, start(s), FACTORS),
        "GD": balanced_limit(data, start(s), FACTORS, opened),
        "SGD": sgd_limit(data, start(s), FACTORS, s["lr"], int(s["batch"])),
    }
    return {how: (np.ravel(end.theta), end.gap) for how, end in told.items()}


def distances(s: State) -> np.ndarray:
    """From the end of flow, GD and SGD to least norm, at all rates: a gap is proportional to lr."""
    data = problem()
    opened = [gap / s["lr"] for _, gap in ends(s).values()]
    return np.array(
        [
            [balanced_limit(data, start(s), FACTORS, slope * lr).distance for lr in RATES]
            for slope in opened
        ]
    )


def from_least_norm(end: np.ndarray) -> float:
    """How far a predictor is from the solution of least norm."""
    return float(np.linalg.norm(end - np.ravel(problem().min_norm)))


def scene(s: State) -> Json:
    """Three rings on the line of minima, and how far the gap will open."""
    told = ends(s)
    foot = np.ravel(problem().min_norm)
    rings = [dots("predicted", end, how, i) for i, (how, (end, _)) in enumerate(told.items())]
    plane = [
        line("minima", minima(problem()), "minima"),
        dots("guide", foot, "least norm"),
        *rings,
        handle("start", start(s), ["start1", "start2"]),
    ]
    ever = [0.01, TIME]
    gaps = [
        line("predicted", (ever, [told[how][1]] * 2), series=i)
        for i, how in enumerate(("GD", "SGD"), start=1)
    ]
    most = 1.4 * max(told["SGD"][1], told["GD"][1], 1e-3)
    curves = distances(s)
    away = [
        *(line("predicted", (RATES, far), series=i) for i, far in enumerate(curves)),
        *(
            dots("predicted", (s["lr"], from_least_norm(end)), series=i)
            for i, (end, _) in enumerate(told.values())
        ),
    ]
    numbers = [number(f"{how} end", f"end of {how}", end) for how, (end, _) in told.items()]
    numbers += [number(f"{how} gap", f"gap of {how} at the end", told[how][1]) for how in HOW]
    return {
        "panels": [
            panel("Predictors", axis("θ₁", *WIDE), axis("θ₂", *HIGH), plane, square=True),
            panel(
                "Gap between the layers, ‖v₁‖² − s²",
                axis("time, steps·lr", 0.01, TIME, log=True),
                axis("gap", 0, most),
                gaps,
            ),
            panel(
                "How far from least norm it ends",
                axis("learning rate", RATES[0], RATES[-1], log=True),
                axis("distance", 0.9 * np.min(curves), 1.05 * np.max(curves)),
                away,
            ),
        ],
        "numbers": numbers,
    }


def paths(s: State) -> Json:
    """GD once and SGD with several draws; SGD is drawn, and measured, in the mean."""
    flow = simulate(setup(s, "flow"), progress=False)
    gd = simulate(setup(s, "GD"), progress=False)
    sgd = sweep(lambda seed: setup(s, "SGD", seed), {"seed": range(SEEDS)}, progress=False)
    ways = {
        "flow": flow.data["theta"].values[None],
        "GD": gd.data["theta"].values[None],
        "SGD": sgd["theta"].transpose("seed", "step", ...).values,
    }
    gaps = {
        "GD": gd.data["gap"].values[:, 0],
        "SGD": sgd["gap"].transpose("seed", "step", ...).values[..., 0].mean(axis=0),
    }
    plane = [line("simulated", way[0].T, series=i) for i, way in enumerate(ways.values())]
    plane.append(dots("simulated", ways["SGD"][:, -1].T, f"SGD, {SEEDS} draws", 2))
    times = save_at(s) * s["lr"]
    opening = [
        line("simulated", (times, gaps[how]), series=i) for i, how in enumerate(HOW, start=1)
    ]
    away = [
        dots("simulated", (s["lr"], from_least_norm(way[:, -1].mean(axis=0))), series=i)
        for i, way in enumerate(ways.values())
    ]
    numbers = [number(f"{how} end", "", way[:, -1].mean(axis=0)) for how, way in ways.items()]
    numbers += [number(f"{how} gap", "", gaps[how][-1]) for how in HOW]
    return {"marks": [plane, opening, away], "numbers": numbers}


def asked(s: State) -> dict[str, Setup]:
    """GD and SGD have theorems of their own."""
    return {"rank1.sgd.limit": setup(s, "SGD"), "rank1.gd_gap": setup(s, "GD")}


def code(s: State) -> str:
    """The same picture as a program."""
    return f"""\
# SGD against GD: the gap opens, the end moves.
import numpy as np
import gradbias as gb

a = np.array({lengths().tolist()})
problem = gb.Regression.half_mean(a[:, None] * [0.6, 0.8], a)  # rows of one direction
start = np.array([{s["start1"]!r}, {s["start2"]!r}])
lr, batch, factors = {s["lr"]!r}, {s["batch"]:.0f}, {FACTORS}  # {LAYERS} rank-1 layers
steps = {steps(s)}
net = gb.Rank1(d=2, depth={LAYERS}, width=2)
i = np.arange({SAVES})
saves = np.maximum(i, np.round(steps * (i / i[-1]) ** 2).astype(int))


def setup(how, seed=0):
    noise = gb.Minibatch(batch) if how == "SGD" else None
    dynamics = gb.Flow() if how == "flow" else gb.Descent(lr, noise)
    until = gb.Until(time=steps * lr) if how == "flow" else gb.Until(steps=steps)
    return gb.Setup(
        problem, net, gb.init.balanced(net, start), dynamics, until,
        {{"theta": gb.observe.theta, "gap": gb.observe.gap}},
        saves * lr if how == "flow" else saves, key=seed,
    )


gap = gb.theory.gd_gap(problem, start, factors, lr)
told = {{
    "flow": gb.theory.balanced_limit(problem, start, factors),
    "GD": gb.theory.balanced_limit(problem, start, factors, gap),
    "SGD": gb.theory.sgd_limit(problem, start, factors, lr, batch),
}}
predicted = {{f"{{how}} end": end.theta for how, end in told.items()}}
predicted |= {{f"{{how}} gap": told[how].gap for how in ("GD", "SGD")}}
flow, gd = (gb.simulate(setup(how)) for how in ("flow", "GD"))
sgd = gb.sweep(lambda seed: setup("SGD", seed), {{"seed": range({SEEDS})}})
ways = {{
    "flow": flow.data["theta"].values,
    "GD": gd.data["theta"].values,
    "SGD": sgd["theta"].mean("seed").values,
}}
gaps = {{"GD": gd.data["gap"].values[:, 0], "SGD": sgd["gap"].mean("seed").values[:, 0]}}
simulated = {{f"{{how}} end": way[-1] for how, way in ways.items()}}
simulated |= {{f"{{how}} gap": gap[-1] for how, gap in gaps.items()}}
rings = {{how: np.ravel(end.theta) for how, end in told.items()}}
ax = gb.plot.plane(ways, predicted=rings, problem=problem, xlim={WIDE}, ylim={HIGH})
ax.figure.savefig("sgd_against_gd.png")
"""


SCENE = Scene(
    id="sgd_against_gd",
    title="SGD against GD",
    look=(
        "Steps and noise open a gap between the norms of the layers, which gradient flow would "
        "keep closed; the wider the gap, the nearer the end is to the solution of least norm."
    ),
    controls=(
        Slider("lr", "learning rate", 0.1, 0.005, 0.2, 0.01, log=True),
        Slider("batch", f"batch size (of {ROWS})", 1, 1, ROWS, 1),
        Slider("start1", "start θ₁", 0.6, -0.5, 2, 0.01),
        Slider("start2", "start θ₂", -0.8, -1.2, 1.2, 0.01),
    ),
    predicted=scene,
    simulated=paths,
    setups=asked,
    code=code,
    warm=tuple({"batch": b} for b in range(1, ROWS + 1)),
)
