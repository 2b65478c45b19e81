"""Figure 7: nets that do not know their scale grow under SGD, and a little under GD."""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent, Flow
from ...init import gaussian
from ...nets import Net, NormalisedA, NormalisedB
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...numerics.types import PyTree
from ...plot import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY
from ...problems import Problem, Regression
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

LOOKS = {"SGD": (ORANGE, "-"), "GD": (BLUE, "--"), "flow": (GREEN, "-.")}
NETS = {"A": NormalisedA, "B": NormalisedB}


def problem(s: Settings) -> Regression:
    """A noisy linear teacher on a fixed sample."""
    rng = generator(s.key, "figures.normalised")
    X = rng.standard_normal((s.n, s.d))
    V = rng.standard_normal((s.d, s.k)) / np.sqrt(s.d)
    return Regression.mean(X, X @ V + 0.5 * rng.standard_normal((s.n, s.k)))


def norms(problem: Problem, net: Net, params: PyTree) -> jax.Array:
    """‖u‖² and ‖w‖²."""
    return jnp.stack([jnp.sum(params["u"] ** 2), jnp.sum(params["w"] ** 2)])


def saves(s: Settings) -> np.ndarray:
    """The steps to save at."""
    return np.concatenate([[0], np.geomspace(1, s.steps, s.saves)]).astype(int)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    data = problem(s)
    found = {}
    steps = np.unique(saves(s))
    for name, kind in NETS.items():
        net = kind(s.d, s.k, s.width)
        start = gaussian(net, {"u": s.std_u, "w": s.std_w}, key=s.key)
        for how, noise in {"SGD": Minibatch(s.batch), "GD": None}.items():
            record = {"norms": norms, "drift": observe.charge_drift}
            moves = Descent(s.lr, noise)
            until = Until(steps=s.steps)
            run = lab.simulate(Setup(data, net, start, moves, until, record, steps, key=s.key)).data
            moved = [run[v].values for v in run.data_vars if str(v).startswith("drift")]
            found[f"norms_{name}_{how}"] = (("step", "layer"), run["norms"].values)
            found[f"drift_{name}_{how}"] = ("step", np.sum(moved, axis=0))
        early = s.lr * steps[steps <= s.flow_steps]
        flow = Setup(data, net, start, Flow(), Until(time=early[-1]), {"norms": norms}, early)
        values = lab.simulate(flow).data["norms"].values
        found[f"norms_{name}_flow"] = (("early", "layer"), values)
    return xr.Dataset(found, {"step": steps, "early": steps[steps <= s.flow_steps]})


def total(data: xr.Dataset, net: str, how: str) -> np.ndarray:
    """‖θ‖² along the run."""
    return data[f"norms_{net}_{how}"].sum("layer").values


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    panels = figure.subplots(1, 3)
    for ax, net in zip(panels, NETS, strict=False):
        for how, (colour, line) in LOOKS.items():
            ticks = data["early" if how == "flow" else "step"]
            values = total(data, net, how)
            ax.plot(ticks[1:], values[1:], line, color=colour, label=how)
            if how != "flow":
                told = values[0] + data[f"drift_{net}_{how}"]
                words = r"start + $\sum\mathrm{lr}^2\|g\|^2$" if how == "GD" else None
                ax.plot(ticks[1:], told[1:], ":", color=BLACK, lw=0.9, label=words)
        ax.set(title=f"net {net}", xlabel="step", ylabel=r"$\|u\|^2+\|w\|^2$", xscale="log")
    panels[0].legend()
    for net, line in {"A": "-", "B": "--"}.items():
        for layer, colour in ((0, PURPLE), (1, SKY)):
            values = data[f"norms_{net}_SGD"][1:, layer]
            name = rf"$\|{'uw'[layer]}\|^2$, net {net}"
            panels[2].plot(data["step"][1:], values, line, color=colour, label=name)
    panels[2].set(title="SGD, layer by layer", xlabel="step", xscale="log", yscale="log")
    panels[2].legend(fontsize="x-small")


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    found = []
    for net in NETS:
        sgd, gd, flow = (total(data, net, how) for how in LOOKS)
        exact = abs(sgd - sgd[0] - data[f"drift_{net}_SGD"].values).max() / sgd[-1]
        found += [
            Check(f"net {net}, SGD: total norm² at the end ÷ start", sgd[-1] / sgd[0], low=1.5),
            Check(f"net {net}, SGD: growth − Σ lr²‖g‖², relative", exact, high=1e-10),
            Check(f"net {net}, GD: smallest step outward", np.diff(gd).min(), low=-1e-9),
            Check(
                f"net {net}, growth of GD ÷ of SGD", (gd[-1] - gd[0]) / (sgd[-1] - sgd[0]), high=0.2
            ),
            Check(
                f"net {net}, flow: largest relative change",
                abs(flow / flow[0] - 1).max(),
                high=1e-7,
            ),
        ]
    layers = data["norms_B_SGD"].values
    found.append(
        Check("net B, SGD: smallest step of a layer", np.diff(layers, axis=0).min(), low=-1e-9)
    )
    return found


NORMALISED = Figure(
    id="equilibrium.7",
    title="Scale-invariant nets grow under SGD",
    caption=(
        r"Two nets whose outputs do not change when all weights are scaled (A) or each layer by "
        r"itself (B), on a fixed sample. The charge $\|\theta\|^2$ grows by exactly "
        r"$\mathrm{lr}^2\|g\|^2$ a step. SGD never stops growing, since its gradients do not "
        "vanish; net B grows in both layers, in net A one layer may shrink for a while. As we read "
        "it, the norm is unchanged under gradient descent; that is the limit of small steps "
        "(gradient flow, measured to integration error over the part that is drawn). Discrete "
        "gradient descent grows too, by a fraction of what SGD does."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "n": 200,
        "d": 10,
        "k": 5,
        "width": 10,
        "batch": 5,
        "lr": 0.1,
        "steps": 10_000,
        "flow_steps": 200,
        "saves": 101,
        "std_u": 0.3,
        "std_w": 0.3,
    },
    full={"n": 500, "steps": 20_000, "flow_steps": 500},
    wide=True,
    height=0.9,
)
