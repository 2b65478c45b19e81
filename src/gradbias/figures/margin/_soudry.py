"""Loss, angle and margin of a linear classifier, up to times that no run reaches."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Flow
from ...nets import Deep
from ...observe import log_loss, theta
from ...plot import BLUE, ORANGE
from ...problems import Classification
from ...theory import margin
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from ._data import first_with

STARTS = ("zero", "random")
LOOKS = {"zero": (BLUE, "-", "from zero"), "random": (ORANGE, "-.", "from a random start")}
LABELS = {"loss": "loss · t", "angle": "angle · log t", "margin": r"$(\gamma - \gamma_t)$ · log t"}
TENTH = np.log(10)


def problem(s: Settings) -> Classification:
    """Random data whose offset settles in time, with all constants known before the run."""

    def good(law: margin.Offset) -> bool:
        unequal = law.entropy_gap > s.unequal
        return bool(law.spanning and law.exponent > s.least and unequal)

    return first_with(s, good)


def first(s: Settings, start: str) -> np.ndarray:
    """w(0)."""
    rng = np.random.default_rng(s.key)
    return rng.standard_normal(s.d) if start == "random" else np.zeros(s.d)


def setup(s: Settings, known: Classification, start: str) -> Setup:
    """The flow on the clock of its loss."""
    saves = TENTH * np.linspace(s.decades / s.saves, s.decades, s.saves)
    params = {"W1": first(s, start)[:, None]}
    flow = Flow(clock="loss", rtol=1e-11)
    record = {"theta": theta, "log_loss": log_loss}
    return Setup(known, Deep([s.d, 1]), params, flow, Until(log_time=saves[-1]), record, saves)


def measured(s: Settings, lab: Lab, known: Classification, start: str) -> np.ndarray:
    """The three products along the run."""
    data = lab.simulate(setup(s, known, start)).data
    hard = known.max_margin()
    times = data["log_time"].values
    path = data["theta"].values.reshape(len(times), s.d)
    units = path / np.linalg.norm(path, axis=1)[:, None]
    turned = 2 * np.arcsin(np.linalg.norm(units - hard.gamma * np.ravel(hard.w), axis=1) / 2)
    missing = hard.gamma - (units @ known.constraints.T).min(axis=1)
    return np.stack([np.exp(data["log_loss"].values + times), turned * times, missing * times])


def told(s: Settings, known: Classification, start: str) -> list[float]:
    """Their limits, from the data and the start alone."""
    law = margin.offset(known)
    rates = margin.rate_constants(known)
    frozen = first(s, start) - law.basis @ (law.basis.T @ first(s, start))
    constant = np.ravel(law.w_tilde) + frozen
    unit = law.gamma * np.ravel(law.w_hat)
    across = constant - unit * (unit @ constant)
    return [rates.loss, law.gamma * float(np.linalg.norm(across)), law.gamma * rates.margin]


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    known = problem(s)
    curves = [measured(s, lab, known, start) for start in STARTS]
    return xr.Dataset(
        {
            "product": (("start", "what", "tenths"), curves),
            "told": (("start", "what"), [told(s, known, start) for start in STARTS]),
        },
        {
            "start": list(STARTS),
            "what": list(LABELS),
            "tenths": np.linspace(s.decades / s.saves, s.decades, s.saves),
        },
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    axes = figure.subplots(1, len(LABELS), squeeze=False)[0]
    for ax, (what, label) in zip(axes, LABELS.items(), strict=True):
        for start, (color, style, _) in LOOKS.items():
            one = data.sel(start=start, what=what)
            ax.plot(10 ** data["tenths"], one["product"], style, color=color)
            ax.axhline(float(one["told"]), ls="--", lw=1, color="black")
        one = data.sel(what=what)
        top = 1.1 * max(float(one["told"].max()), float(one["product"].max()))
        ax.set(xscale="log", xlabel="t", title=label, ylim=(0, top))
        ax.set_xticks([10.0**k for k in range(0, s.decades + 1, 5)])
    for color, style, label in LOOKS.values():
        axes[0].plot([], [], style, color=color, label=label)
    axes[0].plot([], [], "--", color="black", lw=1, label="predicted limit")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def at_infinity(data: xr.Dataset, s: Settings) -> np.ndarray:
    """Of angle and margin, by a polynomial in 1/log t through the last half; start × what."""
    late = data.isel(tenths=slice(s.saves // 2, None))
    powers = np.vander(1 / late["tenths"].values, 4, increasing=True)
    curves = late["product"].sel(what=["angle", "margin"]).values
    return np.linalg.lstsq(powers, curves.reshape(-1, len(powers)).T)[0][0].reshape(-1, 2)


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    limits = data["told"].sel(what=["angle", "margin"]).values
    off = np.abs(at_infinity(data, s) / limits - 1)
    loss = data.sel(what="loss")
    last = np.abs(loss["product"][:, -1] / loss["told"] - 1)
    angle = data["told"].sel(what="angle").values
    return [
        Check("loss · t at the end, relative to its limit", float(last.max()), high=1e-3),
        Check("angle · log t at infinity, relative", float(off[:, 0].max()), high=0.02),
        Check("margin gap · log t at infinity, relative", float(off[:, 1].max()), high=0.02),
        Check("the two starts' limits of the angle, apart", float(np.ptp(angle)), low=0.1),
    ]


SOUDRY = Figure(
    id="margin.soudry",
    title="The loss falls as 1/t, the angle as 1/log t",
    caption=(
        "Gradient flow of a linear classifier with exponential loss, on the clock of its loss, to "
        "$t = 10^{25}$. Curves are simulated from two starts; dashed lines are predicted from the "
        "data and the start, without a step. $L\\,t$ is soon at $1/\\gamma^2$, from any start. "
        "The angle to the best separator and the gap of the margin close only as $1/\\log t$: "
        "their products with $\\log t$ are still on their way at the end, to constants that the "
        "offset $\\tilde w$ and the entropy gap of the dual weights decide. What the start has "
        "outside the data stays, and changes the angle alone."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"n": 4, "d": 6, "least": 0.3, "unequal": 0.1, "decades": 25, "saves": 200},
    wide=True,
)
