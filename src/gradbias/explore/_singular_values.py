"""Whitened data: singular values are learned one after the other."""

import numpy as np

from .._engine.setup import Setup, Until
from .._engine.simulate import simulate
from ..dynamics import Flow
from ..init import orthogonal as orthogonal_init
from ..nets import TwoLayer
from ..observe import singular_values
from ..problems import Regression, orthogonal
from ..theory import activation_time, whitened_trajectory
from ._picture import Json, axis, dots, line, number, panel
from ._scene import Scene, Slider, State

SIZE = 3
WIDTH = 8
SAVES = 241
MARGIN = 1.4  # of the time axis behind the last half time


def stars(s: State) -> np.ndarray:
    """The singular values of the solution."""
    return np.array([s[f"sigma{i}"] for i in (1, 2, 3)])


def times(s: State) -> np.ndarray:
    """Of the axis: until the slowest value is learned."""
    return np.linspace(0, MARGIN * float(np.max(activation_time(stars(s), s["gamma"]))), SAVES)


def setup(s: State) -> Setup:
    """Gradient flow of two layers from a small orthogonal start."""
    data: Regression = orthogonal(SIZE, SIZE, teacher=np.diag(stars(s)))
    net = TwoLayer(SIZE, SIZE, WIDTH)
    start = orthogonal_init(net, s["gamma"])
    until = Until(time=float(times(s)[-1]))
    record = {"values": singular_values("theta")}
    return Setup(data, net, start, Flow(rtol=1e-10, atol=1e-13), until, record, times(s))


def scene(s: State) -> Json:
    """Each value over time, with a ring where half of it is learned."""
    sigma = stars(s)
    told = whitened_trajectory(sigma, s["gamma"], times(s))
    half = activation_time(sigma, s["gamma"])
    marks = [
        line("predicted", (times(s), told[:, i]), f"σ* = {sigma[i]:g}", i) for i in range(SIZE)
    ]
    marks += [dots("predicted", (half[i], sigma[i] / 2), series=i) for i in range(SIZE)]
    axes = (axis("time", 0, times(s)[-1]), axis("singular values", 0, 1.1 * sigma.max()))
    words = (f"time when half of σ* = {value:g} is learned" for value in sigma)
    return {
        "panels": [panel("Singular values of the predictor", *axes, marks)],
        "numbers": [number(f"half{i + 1}", word, half[i]) for i, word in enumerate(words)],
    }


def paths(s: State) -> Json:
    """The same, simulated; it knows values by size alone, not by name."""
    run = simulate(setup(s), progress=False)
    values = run.data["values"].values
    order = np.argsort(-stars(s), kind="stable")
    marks = [
        line("simulated", (times(s), values[:, i]), series=int(n)) for i, n in enumerate(order)
    ]
    numbers = [
        number(f"half{n + 1}", "", crossing(times(s), values[:, i], float(stars(s)[n]) / 2))
        for i, n in enumerate(order)
    ]
    return {"marks": [marks], "numbers": numbers}


def crossing(at: np.ndarray, values: np.ndarray, level: float) -> float:
    """When a value first gets over a level, between saves along a line."""
    after = int(np.argmax(values >= level))
    if values[after] < level or after == 0:
        return float("nan")
    low, high = values[after - 1 : after + 1]
    return float(at[after - 1] + (level - low) / (high - low) * (at[after] - at[after - 1]))


def code(s: State) -> str:
    """The same picture as a program."""
    return f"""\
# Singular values, one after the other.
import matplotlib.pyplot as plt
import numpy as np
import gradbias as gb

sigma = np.array({stars(s).tolist()})
gamma = {s["gamma"]!r}
half = gb.theory.activation_time(sigma, gamma)
times = np.linspace(0, {MARGIN} * half.max(), {SAVES})
told = gb.theory.whitened_trajectory(sigma, gamma, times)
problem = gb.problems.orthogonal({SIZE}, {SIZE}, teacher=np.diag(sigma))
net = gb.TwoLayer({SIZE}, {SIZE}, width={WIDTH})
setup = gb.Setup(
    problem, net, gb.init.orthogonal(net, gamma), gb.Flow(rtol=1e-10, atol=1e-13),
    gb.Until(time=times[-1]), {{"values": gb.observe.singular_values("theta")}}, times,
)
values = gb.simulate(setup).data["values"].values  # the largest first
order = np.argsort(-sigma, kind="stable")
predicted = {{f"half{{i + 1}}": half[i] for i in range({SIZE})}}
simulated = {{
    f"half{{n + 1}}": np.interp(sigma[n] / 2, values[:, i], times) for i, n in enumerate(order)
}}
plt.plot(times, values)
plt.plot(times, told, "k--", lw=1)
plt.plot(half, sigma / 2, "ko", mfc="none")
plt.xlabel("time")
plt.ylabel("singular values")
plt.savefig("singular_values.png")
"""


SCENE = Scene(
    id="singular_values",
    title="One after the other",
    look=(
        "Each singular value waits near zero and then jumps, the largest first; the smaller the "
        "start, the longer the wait and the sharper the jump."
    ),
    controls=(
        Slider("sigma1", "first σ*", 3.0, 0.2, 4, 0.05),
        Slider("sigma2", "second σ*", 2.0, 0.2, 4, 0.05),
        Slider("sigma3", "third σ*", 1.0, 0.2, 4, 0.05),
        Slider("gamma", "scale γ of the start", 1e-6, 1e-12, 1, 0.1, log=True),
    ),
    predicted=scene,
    simulated=paths,
    setups=lambda s: {"spectral.thmC.12": setup(s), "spectral.thmC.11": setup(s)},
    code=code,
)
