"""Which separator: steepest descent in a norm finds the largest margin in that norm."""

import numpy as np

from .._engine.setup import Setup, Until
from .._engine.simulate import simulate
from ..dynamics import Steepest
from ..geometry import L1, L2, Geometry, Linf
from ..nets import Deep
from ..observe import certificate, theta
from ..problems import Classification, MaxMargin
from ._picture import Json, axis, dots, handle, line, number, panel
from ._scene import Scene, Slider, State

NORMS: dict[str, type[Geometry]] = {"L1": L1, "L2": L2, "Linf": Linf}
WORDS = {
    "L1": "ℓ1: coordinate descent",
    "L2": "ℓ2: gradient descent",
    "Linf": "ℓ∞: sign descent",
}
OTHERS = np.array([[1.6, 1.3], [-1.7, -1.1], [-1.2, -1.6]])
SIGNS = np.array([1.0, -1.0, 1.0, -1.0, -1.0])
WIDE = (-2.2, 2.2)
STEPS = 4000
SAVES = 100


def problem(s: State) -> Classification:
    """Five points of two classes; two of them can be moved."""
    moved = [[s["x1"], s["x2"]], [s["z1"], s["z2"]]]
    return Classification(np.concatenate([moved, OTHERS]), SIGNS)


def best(s: State) -> dict[str, MaxMargin]:
    """The separator of largest margin in each norm."""
    data = problem(s)
    return {name: data.max_margin(norm) for name, norm in NORMS.items()}


def save_at() -> np.ndarray:
    """Steps at which runs are looked at; the first makes a separator."""
    return np.unique(np.geomspace(1, STEPS, SAVES).astype(int))


def setup(s: State, name: str) -> Setup:
    """Steepest descent in a norm, a linear model."""
    norm = NORMS[name]
    record = {"theta": theta, "margin": certificate(norm)}
    start = {"W1": np.zeros((2, 1))}
    dynamics = Steepest(s["lr"], norm)
    until = Until(steps=STEPS)
    return Setup(problem(s), Deep([2, 1]), start, dynamics, until, record, save_at())


def direction(w: np.ndarray) -> np.ndarray:
    """Of a predictor, as a unit vector."""
    flat = np.ravel(w)
    return flat / np.linalg.norm(flat)


def boundary(w: np.ndarray) -> np.ndarray:
    """The line that a predictor separates by, its two ends."""
    x, y = direction(w)
    return 4 * np.array([[-y, y], [x, -x]])


def scene(s: State) -> Json:
    """The lines that separate, and the margins that will be reached."""
    told = best(s)
    X = problem(s).X
    lines = [
        line("predicted", boundary(end.w), WORDS[name], i)
        for i, (name, end) in enumerate(told.items())
    ]
    classes = [
        dots("data", X[sign == SIGNS].T, f"class {sign:+.0f}".replace("-", "−"), i)
        for i, sign in enumerate((1.0, -1.0))
    ]
    handles = [
        handle("point +1", (s["x1"], s["x2"]), ["x1", "x2"]),
        handle("point −1", (s["z1"], s["z2"]), ["z1", "z2"]),
    ]
    return {
        "panels": [
            panel(
                "Data, and the lines that separate them",
                axis("x₁", *WIDE),
                axis("x₂", *WIDE),
                [*classes, *lines, *handles],
                square=True,
            ),
            panel(
                "Missing to the largest margin (exact: no line)",
                axis("step", 1, STEPS, log=True),
                axis("relative, each in its own norm", 1e-5, 1.5, log=True),
                [],
            ),
        ],
        "numbers": [
            *(number(f"{n} margin", f"margin, {WORDS[n]}", end.gamma) for n, end in told.items()),
            *(
                number(f"{n} residual", f"proof of it, relative gap, {n}", e.residual)
                for n, e in told.items()
            ),
            *(number(n, f"direction, {WORDS[n]}", direction(end.w)) for n, end in told.items()),
        ],
    }


def paths(s: State) -> Json:
    """One run in each norm."""
    lines: list[Json] = []
    missing: list[Json] = []
    numbers: list[Json] = []
    for i, (name, end) in enumerate(best(s).items()):
        run = simulate(setup(s, name), progress=False)
        margins = run.data["margin_lower"].values
        last = np.ravel(np.asarray(run.theta))
        lines.append(line("simulated", boundary(last), series=i))
        missing.append(line("simulated", (save_at(), 1 - margins / end.gamma), series=i))
        numbers.append(number(f"{name} margin", "", margins[-1]))
        numbers.append(number(name, "", direction(last)))
    return {"marks": [lines, missing], "numbers": numbers}


def code(s: State) -> str:
    """The same picture as a program."""
    return f"""\
# One separator for each norm.
import matplotlib.pyplot as plt
import numpy as np
import gradbias as gb

X = np.array({problem(s).X.tolist()})
y = np.array({SIGNS.tolist()})
problem = gb.Classification(X, y)
norms = {{"L1": gb.geometry.L1, "L2": gb.geometry.L2, "Linf": gb.geometry.Linf}}
saves = np.unique(np.geomspace(1, {STEPS}, {SAVES}).astype(int))
predicted, simulated = {{}}, {{}}
for name, norm in norms.items():
    best = problem.max_margin(norm)
    setup = gb.Setup(
        problem, gb.Deep([2, 1]), {{"W1": np.zeros((2, 1))}}, gb.Steepest({s["lr"]!r}, norm),
        gb.Until(steps={STEPS}), {{"margin": gb.observe.certificate(norm)}}, saves,
    )
    run = gb.simulate(setup)
    margin = run.data["margin_lower"].values
    w = np.ravel(run.theta)
    predicted |= {{f"{{name}} margin": best.gamma, name: best.w / np.linalg.norm(best.w)}}
    predicted[f"{{name}} residual"] = best.residual
    simulated |= {{f"{{name}} margin": margin[-1], name: w / np.linalg.norm(w)}}
    plt.loglog(saves, 1 - margin / best.gamma, label=name)
plt.xlabel("step")
plt.ylabel("missing to the largest margin, relative")
plt.legend()
plt.savefig("separators.png")
"""


SCENE = Scene(
    id="separators",
    title="Which separator?",
    look=(
        "Three optimisers separate the same points without error, by three lines: each finds the "
        "largest margin in the norm in which its steps are steepest."
    ),
    controls=(
        Slider("x1", "point of class +1, x₁", 0.8, -2, 2, 0.01),
        Slider("x2", "point of class +1, x₂", 0.35, -2, 2, 0.01),
        Slider("z1", "point of class −1, x₁", -1.5, -2, 2, 0.01),
        Slider("z2", "point of class −1, x₂", -0.2, -2, 2, 0.01),
        Slider("lr", "step size", 0.05, 0.01, 0.1, 0.02, log=True),
    ),
    predicted=scene,
    simulated=paths,
    setups=lambda s: {},
    note=(
        "No theorem of the list is asked here. Each margin comes with a proof: multipliers of the "
        "samples bound it from above, and the table shows how far the two bounds are apart."
    ),
    code=code,
)
