"""The constant of 1/log t, of many data sets."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Flow
from ...nets import Deep
from ...observe import theta
from ...plot import COLOURS
from ...problems import Classification, separable
from ...theory import margin
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

EARLIER = np.array([0.25, 0.5, 1.0])


def problems(s: Settings) -> list[Classification]:
    """Those of random data whose offset settles in time."""
    found: list[Classification] = []
    key = 10_000 * s.key
    while len(found) < s.sets:
        candidate = separable(s.n, s.d, key=key)
        key += 1
        try:
            if margin.offset(candidate).exponent > s.least:
                found.append(candidate)
        except ValueError:  # degenerate
            continue
    return found


def setup(s: Settings, problem: Classification) -> Setup:
    """The flow from zero."""
    start = {"W1": np.zeros((s.d, 1))}
    flow = Flow(clock="loss", rtol=1e-11)
    until = Until(log_time=s.log_time)
    return Setup(problem, Deep([s.d, 1]), start, flow, until, [theta], s.log_time * EARLIER)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    chosen = problems(s)
    runs = lab.sweep(lambda data: setup(s, chosen[data]), {"data": range(len(chosen))})
    paths = runs["theta"].values.reshape(len(chosen), len(EARLIER), s.d)
    rows = zip(chosen, paths, strict=True)
    return xr.Dataset(
        {
            "measured": (("data", "save"), [missing(problem, path) for problem, path in rows]),
            "predicted": ("data", [margin.rate_constants(problem).margin for problem in chosen]),
        }
    )


def missing(problem: Classification, path: np.ndarray) -> np.ndarray:
    """(γ − γ_t)‖w‖."""
    least = (path @ problem.constraints.T).min(axis=1)
    return problem.max_margin().gamma * np.linalg.norm(path, axis=1) - least


def at_infinity(data: xr.Dataset, s: Settings) -> np.ndarray:
    """By a polynomial in 1/log t."""
    powers = np.vander(1 / (s.log_time * EARLIER), increasing=True)
    return np.linalg.solve(powers, data["measured"].values.T)[0]


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    top = 1.1 * float(data["predicted"].max())
    ax.plot([0, top], [0, top], color="black", lw=1, label="predicted")
    first = data["measured"][:, 0]
    label = f"at log t = {s.log_time * EARLIER[0]:g}"
    ax.plot(data["predicted"], first, "x", color=COLOURS[1], ms=4, label=label)
    ends = at_infinity(data, s)
    ax.plot(data["predicted"], ends, "o", mfc="none", color=COLOURS[0], ms=5, label="at t = ∞")
    ax.set(
        xlabel="Shannon's less min-entropy of the dual weights",
        ylabel="(γ − margin)·‖w‖",
        xlim=(0, top),
        ylim=(0, 1.2 * top),
    )
    ax.legend()


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    error = np.abs(at_infinity(data, s) - data["predicted"].values)
    spread = float(np.ptp(data["predicted"].values))
    return [
        Check("largest distance to the law", float(error.max()), high=0.01),
        Check("range of the constants", spread, low=0.3),
    ]


ENTROPY_LAW = Figure(
    id="margin.entropy",
    title="The constant of 1/log t is an entropy",
    caption=(
        "The margin of gradient flow on a linear classifier approaches the largest one as slowly "
        "as $1/\\log t$. The constant, $(\\gamma - \\gamma_t)\\|w\\|$, is told without a step: "
        "Shannon's entropy of the dual weights of the support vectors less their min-entropy; "
        "it is zero where all of them weigh the same. Each point is one random data set, simulated "
        "on the clock of its loss; crosses are still on their way, circles are continued to "
        "infinite time by a polynomial in $1/\\log t$. They lie on the diagonal."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={"n": 5, "d": 8, "sets": 40, "least": 0.15, "log_time": 400.0},
    full={"sets": 200},
    default=True,
)
