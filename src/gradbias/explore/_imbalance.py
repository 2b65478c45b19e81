"""Imbalance and speed: the same predictor, learned fast or slowly by how its layers share it."""

import numpy as np

from .._engine.setup import Setup, Until
from .._engine.simulate import simulate
from ..dynamics import Flow
from ..init import gaussian, imbalanced
from ..nets import TwoLayer
from ..observe import loss
from ..problems import Regression, whitened
from ..theory import balanced_two_layer, balanced_whitened, certificate, rate_bound
from ._picture import Json, axis, line, number, panel
from ._scene import Scene, Slider, State

SIZE = 3
WIDTH = 8
SAVES = 121
LEAST = 1e-10  # loss over that of the start, where the axis ends
NET = TwoLayer(SIZE, 1, WIDTH)


def problem(s: State) -> Regression:
    """Inputs whose singular values are all one."""
    teacher = np.array([[1.0], [-2.0], [2.0]]) / 3
    return whitened(SIZE, SIZE, 1, noise=0.0, teacher=teacher, loss="half_sum")


def start(s: State) -> dict[str, np.ndarray]:
    """Gaussian layers, whose scale is moved from one to the other."""
    drawn = gaussian(NET, s["std"], key=int(s["key"]))
    return imbalanced(NET, drawn, s["factor"])


def balanced(s: State) -> dict[str, np.ndarray]:
    """The same predictor without imbalance."""
    first = start(s)
    return balanced_two_layer(problem(s), first["W1"] @ first["W2"], WIDTH)


def save_at(s: State) -> np.ndarray:
    """Times of the axis."""
    return np.linspace(0, s["time"], SAVES)


def setup(s: State, params: dict[str, np.ndarray]) -> Setup:
    """Gradient flow; it goes on to the end of the axis."""
    until = Until(time=s["time"])
    return Setup(problem(s), NET, params, Flow(), until, {"loss": loss}, save_at(s))


def scene(s: State) -> Json:
    """What is guaranteed from the start alone, and the balanced net in closed form."""
    data = problem(s)
    sure = certificate(data, start(s))
    at = save_at(s)
    bound = rate_bound(data, start(s), at)
    envelope = sure.envelope(at)
    way = balanced_whitened(data, balanced(s)["W1"] @ balanced(s)["W2"], at)
    closed = np.array([float(data.loss(theta)) for theta in way])
    marks = [
        line("bound", (at, bound), "bound of Theorem 1, from the imbalance alone"),
        line("bound", (at, envelope), "best certified bound", 2),
        line("predicted", (at, closed), "balanced net, closed form", 1),
    ]
    top = 2 * float(bound[0])
    axes = (axis("time", 0, s["time"]), axis("loss", LEAST * top, top, log=True))
    return {
        "panels": [panel("Loss above its minimum", *axes, marks)],
        "numbers": [
            number("level", "imbalance level c", sure.c),
            number("imbalanced", "loss at the end: at most (Theorem 1)", bound[-1]),
            number("certified", "loss at the end: at most (certified)", envelope[-1]),
            number("balanced", "loss at the end, balanced net", closed[-1]),
        ],
    }


def paths(s: State) -> Json:
    """Both nets."""
    losses = {
        name: simulate(setup(s, params), progress=False).data["loss"].values
        for name, params in (("imbalanced", start(s)), ("balanced", balanced(s)))
    }
    marks = [
        line("simulated", (save_at(s), losses["imbalanced"]), "this net"),
        line("simulated", (save_at(s), losses["balanced"]), series=1),
    ]
    ends = {**losses, "certified": losses["imbalanced"]}
    return {"marks": [marks], "numbers": [number(n, "", v[-1]) for n, v in ends.items()]}


def code(s: State) -> str:
    """The same picture as a program."""
    return f"""\
# Imbalance is speed.
import matplotlib.pyplot as plt
import numpy as np
import gradbias as gb

teacher = np.array([[1.0], [-2.0], [2.0]]) / 3
problem = gb.problems.whitened({SIZE}, {SIZE}, 1, noise=0.0, teacher=teacher, loss="half_sum")
net = gb.TwoLayer({SIZE}, 1, width={WIDTH})
drawn = gb.init.gaussian(net, {s["std"]!r}, key={s["key"]:.0f})
start = gb.init.imbalanced(net, drawn, {s["factor"]!r})
predictor = start["W1"] @ start["W2"]
balanced = gb.theory.balanced_two_layer(problem, predictor, {WIDTH})
times = np.linspace(0, {s["time"]!r}, {SAVES})
sure = gb.theory.certificate(problem, start)
bound = gb.theory.rate_bound(problem, start, times)
envelope = sure.envelope(times)
path = gb.theory.balanced_whitened(problem, predictor, times)
closed = [float(problem.loss(theta)) for theta in path]
losses = {{}}
for name, params in (("imbalanced", start), ("balanced", balanced)):
    until = gb.Until(time=times[-1])
    record = {{"loss": gb.observe.loss}}
    run = gb.simulate(gb.Setup(problem, net, params, gb.Flow(), until, record, times))
    losses[name] = run.data["loss"].values
    plt.semilogy(times, losses[name], label=name)
predicted = {{
    "level": sure.c, "imbalanced": bound[-1], "certified": envelope[-1], "balanced": closed[-1],
}}
simulated = {{name: values[-1] for name, values in losses.items()}}
simulated["certified"] = simulated["imbalanced"]
plt.semilogy(times, bound, "k--", label="Theorem 1")
plt.semilogy(times, envelope, "k-.", label="certified")
plt.semilogy(times, closed, "k:", label="balanced, closed form")
plt.ylim({LEAST} * 2 * bound[0], 2 * bound[0])
plt.xlabel("time")
plt.ylabel("loss")
plt.legend()
plt.savefig("imbalance.png")
"""


SCENE = Scene(
    id="imbalance",
    title="Imbalance is speed",
    look=(
        "Move scale from one layer to the other: the predictor stays the same, its loss falls "
        "faster, and what is guaranteed from the start alone comes near to the run."
    ),
    controls=(
        Slider("factor", "scale moved to the first layer", 3.0, 0.1, 10, 0.02, log=True),
        Slider("std", "standard deviation of the layers", 0.3, 0.05, 1, 0.01, log=True),
        Slider("time", "time of the axis", 10.0, 2, 40, 1),
        Slider("key", "draw of the start", 0, 0, 9, 1),
    ),
    predicted=scene,
    simulated=paths,
    setups=lambda s: {
        "imbalance.thm1": setup(s, start(s)),
        "imbalance.envelope": setup(s, start(s)),
        "imbalance.balanced": setup(s, balanced(s)),
    },
    code=code,
)
