"""Diagonal nets between the margins of ℓ2 and ℓ1: a map over the start's scale and the loss."""

import numpy as np
import xarray as xr

from ..._engine.setup import Setup, Until
from ...dynamics import Flow
from ...geometry import L1
from ...nets import Diagonal
from ...observe import log_loss, theta
from ...plot import COLOURS
from ...problems import Classification, separable
from ...theory import margin
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

SHARP = 30.0  # of −log L, from where margins are about the loss
MARKERS = "os^Dv"


def scales(s: Settings) -> np.ndarray:
    """α of u = v = α."""
    return np.geomspace(s.least, s.most, s.rows)


def problem(s: Settings) -> Classification:
    """Random data whose two ends differ, and of which every sample stays a support vector."""
    key = 10_000 * s.key
    while True:
        candidate = separable(s.n, s.d, key=key, loss="exponential")
        key += 1
        apart = ratio(candidate, np.ravel(candidate.max_margin().w)) < 0.85
        if apart and least_share(candidate) > 0.05:
            return candidate


def least_share(known: Classification) -> float:
    """Of a sample in what the multipliers grow by, from level to level; ends at the first < 0."""
    least = 1.0
    last = np.zeros(known.n)
    for level in np.geomspace(0.01, 1e7, 10):
        now = margin.diagonal_margin(known, level).multipliers
        least = min(least, float((now - last).min() / (now - last).sum()))
        if least < 0:
            break
        last = now
    return least


def ratio(known: Classification, w: np.ndarray) -> np.ndarray:
    """The margin of predictors (…, d) in ℓ1, over the largest."""
    least = (w @ known.constraints.T).min(axis=-1)
    return np.asarray(least / np.abs(w).sum(axis=-1) / known.max_margin(L1).gamma)


def setup(s: Settings, known: Classification, alpha: float) -> Setup:
    """The flow on the clock of its loss."""
    params = {name: np.full(s.d, alpha) for name in ("u", "v")}
    saves = np.geomspace(s.first, s.log_time, s.saves)
    record = {"theta": theta, "log_loss": log_loss}
    flow = Flow(clock="loss", rtol=1e-8)
    return Setup(known, Diagonal(s.d), params, flow, Until(log_time=s.log_time), record, saves)


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    known = problem(s)
    runs = lab.sweep(lambda alpha: setup(s, known, alpha), {"alpha": scales(s)})
    path = runs["theta"].values.reshape(s.rows, s.saves, s.d)
    level = -runs["log_loss"].values.reshape(s.rows, s.saves)
    found = level / scales(s)[:, None] ** 2
    curve = np.geomspace(found.min(), found.max(), s.points)
    told = [margin.diagonal_margin(known, mu).w for mu in curve]
    beside = [[margin.diagonal_margin(known, mu).w for mu in row] for row in found]
    limits = np.array(beside)
    off = np.linalg.norm(path / scales(s)[:, None, None] ** 2 - limits, axis=-1)
    return xr.Dataset(
        {
            "distance": (("alpha", "save"), off / np.linalg.norm(limits, axis=-1)),
            "measured": (("alpha", "save"), ratio(known, path)),
            "level": (("alpha", "save"), level),
            "told": (("alpha", "save"), ratio(known, limits)),
            "curve": ("mu", ratio(known, np.array(told))),
            "euclidean": ratio(known, np.ravel(known.max_margin().w)),
        },
        {"alpha": scales(s), "mu": curve},
    )


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    left, right = figure.subplots(1, 2)
    alpha = np.repeat(scales(s)[:, None], s.saves, axis=1)
    level = data["level"].values
    values = data["measured"].values
    shade = left.pcolormesh(
        level, alpha, values, shading="gouraud", cmap="cividis", vmax=1, rasterized=True
    )
    figure.colorbar(shade, ax=left, label="margin in ℓ1 over the largest", pad=0.02)
    x = np.array([level[:, 0].max(), level[:, -1].min()])
    for mu in 10.0 ** np.arange(-2, 9, 2):
        left.plot(x, np.sqrt(x / mu), "--", color="white", lw=0.9)
        if s.least < np.sqrt(x[1] / mu) < s.most:
            text = f"$10^{{{np.log10(mu):.0f}}}$"
            y = np.sqrt(0.6 * x[1] / mu)
            left.text(0.9 * x[1], y, text, color="white", ha="right", va="top")
    left.set(xscale="log", yscale="log", xlim=x, ylim=(s.least, s.most))
    left.set(xlabel="ℓ = −log L", ylabel="α", title="lines: constant ℓ/α²")
    picked = np.linspace(0, s.rows - 1, len(MARKERS)).astype(int)
    for row, marker, color in zip(picked, MARKERS, COLOURS, strict=False):
        late = level[row] >= SHARP
        at = (level[row] / scales(s)[row] ** 2)[late]
        label = f"α = {float(f'{scales(s)[row]:.2g}'):g}"
        right.plot(at, values[row][late], marker, mfc="none", ms=4, color=color, label=label)
    right.plot(data["mu"], data["curve"], color="black", lw=1, label="predicted")
    right.axhline(float(data["euclidean"]), ls=":", color="black", lw=0.8)
    right.text(
        float(data["mu"][-1]), float(data["euclidean"]), "ℓ2 separator", ha="right", va="bottom"
    )
    right.set(xscale="log", xlabel="ℓ/α²", title=f"ℓ ≥ {SHARP:g}", ylim=(None, 1.02))
    right.legend(loc="upper left")


def powers(data: xr.Dataset, s: Settings) -> np.ndarray:
    """Of ℓ, with which w comes to its limit on a line of constant ℓ/α²: from row to row."""
    levels = np.log(data["level"].values)
    sizes = np.log(data["distance"].values)
    apart = 2 * np.log(scales(s)[1:] / scales(s)[:-1])
    rows = range(s.rows - 1)
    before = [np.interp(levels[i + 1, -1] - apart[i], levels[i], sizes[i]) for i in rows]
    return (sizes[1:, -1] - before) / apart


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    off = np.abs(data["measured"].values - data["told"].values)
    distance = data["distance"].values
    power = float(np.median(powers(data, s)))  # the constant of 1/ℓ may pass zero
    end = data["measured"].isel(save=-1).values
    return [
        Check("largest distance to the prediction at the end", float(off[:, -1].max()), high=0.01),
        Check("of w, relative, at the end", float(distance[:, -1].max()), high=0.03),
        Check("power of ℓ on lines of constant ℓ/α², median", power, -1.1, -0.9),
        Check("ratio at the end from the smallest start", float(end[0]), low=0.97),
        Check(
            "at the end from the largest, over the ℓ2 separator's",
            float(end[-1] / data["euclidean"]),
            0.98,
            1.02,
        ),
    ]


SCALE = Figure(
    id="margin.scale",
    title="The loss over the start's scale picks the norm",
    caption=(
        r"Gradient flow of the net $w = u^2 - v^2$ from $u = v = \alpha$. Left: simulated, the "
        r"margin of $w$ in $\ell_1$ over the largest one, by the scale of the start and the "
        r"loss that is reached; dashed lines are those of constant $\ell/\alpha^2$. Right: the "
        r"same values over $\ell/\alpha^2$ alone. The black line is predicted, without a step: the "
        r"minimiser of the hyperbolic entropy with margins of at least $\ell/\alpha^2$. It goes "
        r"from the $\ell_2$ separator (dotted) to the $\ell_1$ separator, at ratio 1, and "
        r"points come to it as $1/\ell$."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "n": 4,
        "d": 10,
        "least": 0.01,
        "most": 30.0,
        "rows": 13,
        "first": 4.0,
        "log_time": 3000.0,
        "saves": 24,
        "points": 80,
    },
    wide=True,
)
