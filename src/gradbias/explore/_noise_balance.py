"""Noise equilibrium: SGD moves scale from one layer to the other until their noise balances."""

import numpy as np
import scipy.integrate

from .._engine.setup import Setup, Until
from .._engine.simulate import simulate
from .._sweeps.sweep import sweep
from ..dynamics import Descent
from ..nets import TwoLayer
from ..noise import Minibatch
from ..observe import params
from ..problems import Population
from ..theory.symmetry import (
    factorisation_equilibrium,
    factorisation_noise,
    orbit_charge,
    orbit_flow,
)
from ._picture import Json, axis, dots, line, number, panel
from ._scene import Scene, Slider, State

SEEDS = 16
STEPS = 12_000
SAVES = 120
MOST = 2.6  # norm of a layer on the axes
UNITS = np.array([1.0, -1.0])  # of the charge: the second layer's scale grows, the first's shrinks


def problem(s: State) -> Population:
    """Fresh samples y = e₁e₁ᵀx + ε; the second input and the second label are what can be moved."""
    teacher = np.diag([1.0, 0.0])
    return Population(np.diag([1.0, s["inputs"]]), teacher, np.diag([1.0, s["labels"]]))


def factors(s: State) -> tuple[np.ndarray, np.ndarray]:
    """U and W of the start, in column form: at a minimum, out of balance."""
    e = np.array([[1.0], [0.0]])
    return s["stretch"] * e, e.T / s["stretch"]


def setup(s: State, how: str = "SGD", seed: int = 0) -> Setup:
    """One run of SGD, or of gradient descent, which the noise of batches does not move."""
    U, W = factors(s)
    noise = Minibatch(int(s["batch"])) if how == "SGD" else None
    record = {"params": params}
    net = TwoLayer(2, 2, 1)
    start = {"W1": W.T, "W2": U.T}
    dynamics = Descent(s["lr"], noise)
    until = Until(steps=STEPS)
    return Setup(problem(s), net, start, dynamics, until, record, save_at(), seed)


def save_at() -> np.ndarray:
    """Steps at which runs are looked at."""
    return np.unique(np.linspace(0, STEPS, SAVES).astype(int))


def orbit(s: State) -> np.ndarray:
    """How far SGD is along the symmetry U → e^λU, W → e^−λW, at every save."""
    U, W = factors(s)
    noise_U, noise_W = factorisation_noise(problem(s), U, W)
    sigma2 = np.array([noise_U[0, 0], noise_W[0, 0]])
    theta2 = np.array([np.sum(U * U), np.sum(W * W)])
    kappa = s["lr"] / s["batch"]

    def velocity(_: float, lam: np.ndarray) -> np.ndarray:
        slope = 2 * (np.exp(2 * lam) * theta2[0] + np.exp(-2 * lam) * theta2[1])
        return np.asarray(orbit_flow(lam, UNITS, sigma2, theta2, kappa)) / slope

    at = save_at() * s["lr"]
    ends = (0.0, float(at[-1]))
    found = scipy.integrate.solve_ivp(velocity, ends, [0.0], t_eval=at, method="LSODA", rtol=1e-8)
    return found.y[0]


def scene(s: State) -> Json:
    """The norms of both layers: the curve of minima, and where on it the noise balances."""
    U, W = factors(s)
    lam = orbit(s)
    end = factorisation_equilibrium(problem(s), 1)
    rest = [float(np.linalg.norm(end.W)), float(np.linalg.norm(end.U))]
    start = [float(np.linalg.norm(W)), float(np.linalg.norm(U))]
    curve = np.geomspace(1 / MOST / 2, 2 * MOST, 200)
    way = np.exp([-lam, lam]) * np.array(start)[:, None]
    theta2 = np.square(start[::-1])
    charge = np.asarray(orbit_charge(lam, UNITS, theta2))
    final = rest[1] ** 2 - rest[0] ** 2
    reach = np.array([*charge, final, 0.0])
    room = 0.1 * float(np.ptp(reach)) + 0.1
    plane = [
        line("minima", (curve, 1 / curve), "minima"),
        line("guide", ([0, MOST], [0, MOST]), "equal norms"),
        line("predicted", way, "flow of the charge"),
        dots("predicted", rest, "noise equilibrium", 1),
        dots("guide", start, "start"),
    ]
    over = [
        line("predicted", (save_at(), charge), "predicted"),
        line("bound", ([0, STEPS], [final, final]), "equilibrium", 1),
    ]
    return {
        "panels": [
            panel(
                "Norms of the layers",
                axis("first layer, ‖W₁‖", 0, MOST),
                axis("second layer, ‖W₂‖", 0, MOST),
                plane,
                square=True,
            ),
            panel(
                "Charge ‖W₂‖² − ‖W₁‖²",
                axis("step", 0, STEPS),
                axis("charge", reach.min() - room, reach.max() + room),
                over,
            ),
        ],
        "numbers": [
            number("charge", f"charge of SGD after {STEPS} steps", charge[-1]),
            number("gd", "charge of gradient descent, which keeps it", charge[0]),
            number("rest", "charge at noise equilibrium", final),
            number("norms", "norms at noise equilibrium", rest),
        ],
    }


def paths(s: State) -> Json:
    """SGD in the mean over its draws, and gradient descent."""
    runs = sweep(lambda seed: setup(s, seed=seed), {"seed": range(SEEDS)}, progress=False)
    gd = simulate(setup(s, "GD"), progress=False).data
    first, second = (norms(runs[f"params_W{i}"].transpose("seed", ...).values) for i in (1, 2))
    charge = (second**2 - first**2).mean(axis=0)
    kept = norms(gd["params_W2"].values) ** 2 - norms(gd["params_W1"].values) ** 2
    plane = [
        line("simulated", (first[0], second[0]), "one run of SGD"),
        dots("simulated", (first[:, -1], second[:, -1]), f"ends of {SEEDS} runs"),
    ]
    over = [
        line("simulated", (save_at(), charge), f"SGD, mean of {SEEDS}"),
        line("simulated", (save_at(), kept), "gradient descent", 2),
    ]
    numbers = [number("charge", "", charge[-1]), number("gd", "", kept[-1])]
    return {"marks": [plane, over], "numbers": numbers}


def norms(matrices: np.ndarray) -> np.ndarray:
    """Of Frobenius, over the last two axes."""
    return np.linalg.norm(matrices, axis=(-2, -1))


def code(s: State) -> str:
    """The same picture as a program."""
    return f"""\
# Noise equilibrium of two layers.
import matplotlib.pyplot as plt
import numpy as np
import scipy.integrate
import gradbias as gb

inputs, labels, stretch = {s["inputs"]!r}, {s["labels"]!r}, {s["stretch"]!r}
lr, batch, steps = {s["lr"]!r}, {s["batch"]:.0f}, {STEPS}
teacher = np.diag([1.0, 0.0])
problem = gb.Population(np.diag([1.0, inputs]), teacher, np.diag([1.0, labels]))
U, W = stretch * np.eye(2)[:, :1], np.eye(2)[:1] / stretch  # column form, y = UWx
saves = np.unique(np.linspace(0, steps, {SAVES}).astype(int))

symmetry = gb.theory.symmetry  # U → e^λ U, W → e^−λ W
noise = np.ravel(symmetry.factorisation_noise(problem, U, W))
units, squares = np.array([1.0, -1.0]), np.array([np.sum(U * U), np.sum(W * W)])


def velocity(_, lam):
    slope = 2 * (np.exp(2 * lam) * squares[0] + np.exp(-2 * lam) * squares[1])
    return symmetry.orbit_flow(lam, units, noise, squares, lr / batch) / slope


lam = scipy.integrate.solve_ivp(
    velocity, (0, steps * lr), [0.0], t_eval=saves * lr, method="LSODA", rtol=1e-8
).y[0]
told = symmetry.orbit_charge(lam, units, squares)
end = symmetry.factorisation_equilibrium(problem, 1)
rest = np.array([np.linalg.norm(end.W), np.linalg.norm(end.U)])


def setup(seed, how="SGD"):
    dynamics = gb.Descent(lr, gb.Minibatch(batch) if how == "SGD" else None)
    return gb.Setup(
        problem, gb.TwoLayer(2, 2, 1), {{"W1": W.T, "W2": U.T}}, dynamics,
        gb.Until(steps=steps), {{"params": gb.observe.params}}, saves, key=seed,
    )


def charge(data):
    first, second = ((data[f"params_W{{i}}"] ** 2).values.sum(axis=(-2, -1)) for i in (1, 2))
    return second - first


sgd = charge(gb.sweep(setup, {{"seed": range({SEEDS})}})).mean(axis=0)
gd = charge(gb.simulate(setup(0, "GD")).data)
predicted = {{
    "charge": told[-1], "gd": told[0], "rest": rest[1] ** 2 - rest[0] ** 2, "norms": rest,
}}
simulated = {{"charge": sgd[-1], "gd": gd[-1]}}
plt.plot(saves, sgd, label="SGD")
plt.plot(saves, gd, label="gradient descent")
plt.plot(saves, told, "k--", label="predicted")
plt.axhline(predicted["rest"], color="k", ls=":", label="noise equilibrium")
plt.xlabel("step")
plt.ylabel("charge")
plt.legend()
plt.savefig("noise_balance.png")
"""


SCENE = Scene(
    id="noise_balance",
    title="Noise equilibrium",
    look=(
        "Along the curve all points have the same loss; gradient descent stays where it is, SGD "
        "slides to the one point where both layers are equally noisy."
    ),
    controls=(
        Slider("lr", "learning rate", 0.007, 0.002, 0.02, 0.02, log=True),
        Slider("batch", "batch size S", 1, 1, 8, 1),
        Slider("stretch", "stretch of the start", 2.0, 0.5, 2.2, 0.01, log=True),
        Slider("labels", "noise of the second label", 3.0, 0.1, 4, 0.05),
        Slider("inputs", "variance of the second input", 1.0, 0.1, 4, 0.05),
    ),
    predicted=scene,
    simulated=paths,
    setups=lambda s: {"equilibrium.eq14": setup(s), "equilibrium.eq7": setup(s)},
    code=code,
    warm=tuple({"batch": b} for b in range(1, 9)),
)
