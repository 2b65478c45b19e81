"""Figures 6 and 9: what the two layers of a net with an activation see, under SGD and without."""

from collections.abc import Callable

import numpy as np
import xarray as xr

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...init import kaiming
from ...nets import MLP
from ...noise import Minibatch
from ...problems import Population, autoencoding
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

ARMS = ("SGD", "near GD")
NAMES = {
    "linear": "linear",
    "relu": "ReLU",
    "leaky": "leaky ReLU",
    "swish": "swish",
    "tanh": "tanh",
}


def problem(s: Settings) -> Population:
    """Autoencoding where the first label has five times the noise of the others."""
    return autoencoding(s.d, noise=[np.sqrt(5.0)] + [1.0] * (s.d - 1))


def setup(s: Settings, activation: str, arm: str, seed: int) -> Setup:
    """The same fresh data for both arms: they differ in the size of the batch alone."""
    net = MLP([s.d, s.d, s.d], activation, bias=False)
    key = 100 * s.key + seed
    batch, steps = (s.batch, s.steps) if arm == "SGD" else (s.large, s.large_steps)
    return Setup(
        problem(s),
        net,
        kaiming(net, key=key, gain=1.0),
        Descent(s.lr, Minibatch(batch)),
        Until(steps=steps),
        {"params": observe.params},
        [0, steps],
        key=key,
    )


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    data = problem(s)
    found = []
    for activation in s.activations:
        for arm in ARMS:

            def build(seed: int, activation: str = activation, arm: str = arm) -> Setup:
                return setup(s, activation, arm, seed)

            run = lab.sweep(build, {"seed": range(s.seeds)}).isel(step=-1)
            W, U = (run[f"params_{name}"].values for name in ("W1", "W2"))
            found.append([pair_of(data, *weights) for weights in zip(W, U, strict=True)])
    shape = (len(s.activations), len(ARMS), s.seeds, 2, s.d, s.d)
    axes = ("activation", "arm", "seed", "side", "i", "j")
    return xr.Dataset(
        {"matrix": (axes, np.reshape(found, shape))},
        {
            "activation": list(s.activations),
            "arm": list(ARMS),
            "side": ["inputs", "outputs"],
            "i": range(s.d),
            "j": range(s.d),
        },
    )


def pair_of(data: Population, W1: np.ndarray, W2: np.ndarray) -> list[np.ndarray]:
    """WΣxWᵀ/TrΣx and UᵀΣεU/TrΣε, equal at the noise equilibrium of a linear net."""
    inputs = np.asarray(data.sigma_x)
    outputs = np.asarray(data.sigma_eps)
    return [
        W1.T @ inputs @ W1 / np.trace(inputs),
        W2 @ outputs @ W2.T / np.trace(outputs),
    ]


def agreement(data: xr.Dataset) -> xr.Dataset:
    """Correlations of the two matrices, all entries and off the diagonal, and their gap."""
    a = data["matrix"].sel(side="inputs")
    b = data["matrix"].sel(side="outputs")
    ij = ["i", "j"]
    off = data["i"] != data["j"]
    scale = ((a**2).sum(ij) * (b**2).sum(ij)) ** 0.25
    return xr.Dataset(
        {
            "all": xr.corr(a, b, ij),
            "off": xr.corr(a.where(off), b.where(off), ij),
            "gap": np.sqrt(((a - b) ** 2).sum(ij)) / scale,
        }
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    told = agreement(data)
    symbols = (r"$W\bar\Sigma_xW^T$", r"$U^T\bar\Sigma_\varepsilon U$")
    panels = figure.subplots(len(s.activations), 4, squeeze=False)
    for row, activation in zip(panels, s.activations, strict=True):
        for place, arm in enumerate(ARMS):
            one = data["matrix"].sel(activation=activation, arm=arm).isel(seed=0)
            here = told.sel(activation=activation, arm=arm).isel(seed=0)
            top = float(np.quantile(one, 0.99))  # common to the pair: a difference in scale shows
            pair = row[2 * place : 2 * place + 2]
            for ax, side, symbol in zip(pair, one["side"].values, symbols, strict=True):
                ax.imshow(one.sel(side=side), cmap="cividis", vmin=-top / 3, vmax=top)
                ax.set(xticks=[], yticks=[], xlabel=symbol)
            figure.colorbar(pair[0].images[0], ax=pair, shrink=0.8, pad=0.02)
            words = f"{arm}: off-diagonal {float(here['off']):.2f}, gap {float(here['gap']):.2g}"
            row[2 * place].set_title(words, fontsize="small")
        row[0].set_ylabel(NAMES[activation])


def means(data: xr.Dataset) -> Callable[[str, str, str], float]:
    """`means(name, activation, arm)` over seeds."""
    told = agreement(data).mean("seed")
    return lambda name, activation, arm: float(told[name].sel(activation=activation, arm=arm))


def seen_tanh(data: xr.Dataset, s: Settings) -> list[Check]:
    of = means(data)
    sgd, gd = ARMS
    further = of("gap", "tanh", gd) / of("gap", "tanh", sgd)
    return [
        Check("linear: off-diagonal correlation, SGD", of("off", "linear", sgd), low=0.5),
        Check("linear: the same, near GD", of("off", "linear", gd), high=0.0),
        Check("tanh: relative gap, SGD", of("gap", "tanh", sgd), high=1.0),
        Check("tanh: relative gap, near GD ÷ SGD", further, low=3.0),
        Check("tanh: correlation of all entries, near GD", of("all", "tanh", gd), low=0.7),
    ]


def seen_others(data: xr.Dataset, s: Settings) -> list[Check]:
    of = means(data)
    sgd, gd = ARMS
    found = [
        Check(
            f"{NAMES[name]}: relative gap, SGD ÷ near GD",
            of("gap", name, sgd) / of("gap", name, gd),
            *((0.7, 1.6) if name != "swish" else (0.0, 0.33)),
        )
        for name in s.activations
    ]
    off = [np.mean([of("off", name, arm) for name in s.activations]) for arm in ARMS]
    least = min(of("all", name, gd) for name in s.activations)
    return [
        *found,
        Check("off-diagonal correlation, mean, SGD", float(off[0]), low=0.1),
        Check("the same, SGD − near GD", float(off[0] - off[1]), low=0.05),
        Check("least correlation of all entries, near GD", least, low=0.7),
    ]


SIZES = {
    "d": 20,
    "lr": 0.02,
    "batch": 5,
    "steps": 10_000,
    "large": 300,
    "large_steps": 1500,
    "seeds": 3,
}
FULL = {"d": 40, "lr": 0.01, "large": 1000, "large_steps": 3000}

TANH = Figure(
    id="equilibrium.6",
    title="What two layers see: linear and tanh nets",
    caption=(
        r"For a linear net Theorem 5.2 predicts $W\bar\Sigma_xW^T = U^T\bar\Sigma_\varepsilon U$ "
        "under SGD (a bar: divided by its trace). Both arms see the same fresh data; near GD has a "
        "large batch. Linear (top): the pairs agree under SGD, off the diagonal too, and are "
        "opposite near GD. Tanh (bottom), beyond the theorem: SGD brings the two matrices to one "
        "scale, near GD one is many times the other, hence the gap. As we read it, the "
        "representations are similar under SGD and dissimilar under GD; measured, that holds for "
        "their scale: the correlation of all entries is high in both arms."
    ),
    compute=compute,
    draw=draw,
    seen=seen_tanh,
    quick={**SIZES, "activations": ("linear", "tanh")},
    full=FULL,
    wide=True,
    height=0.95,
)
OTHERS = Figure(
    id="equilibrium.9",
    title="The same for ReLU, leaky ReLU and swish",
    caption=(
        r"The matrices $W\bar\Sigma_xW^T$ and $U^T\bar\Sigma_\varepsilon U$ of Figure 6 for three "
        "more activations, with the same fresh data in both arms (near GD: a large batch). As we "
        "read it, their similarity under SGD is striking. Measured: swish behaves as tanh, SGD "
        "ends several times closer to equality; for ReLU and leaky ReLU the relative gap is the "
        "same with little noise as with much, and only the off-diagonal correlation, small in both "
        "arms, is higher under SGD. The theorem is about linear nets: ReLU units have one "
        "symmetry each, which says nothing off the diagonal."
    ),
    compute=compute,
    draw=draw,
    seen=seen_others,
    quick={**SIZES, "activations": ("relu", "leaky", "swish")},
    full=FULL,
    wide=True,
    height=1.4,
)
