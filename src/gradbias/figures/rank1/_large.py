"""Figure 7: rank-1 nets from extremely large starts, where steps are anything but small."""

import numpy as np
import xarray as xr

from ... import observe, theory
from ...plot import BLACK
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab
from . import _common as common
from . import _paths as paths
from ._common import FACTORS


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    build = paths.rank1_builder(s, record={"gap": observe.gap})
    data = paths.trained(s, lab, build, extra=("gap",))
    gaps = data["sgd_gap"].isel(step=-1, pair=0).values
    return data.drop_vars(("gd_gap", "sgd_gap")).assign(
        by_gap=(("scale", "draw"), _by_gap(s, gaps)),
        flow=(("scale", "step"), paths.flows(s, data, FACTORS)),
    )


def _by_gap(s: Settings, gaps: np.ndarray) -> np.ndarray:
    """What theory makes of each final gap; runs that diverged have none."""

    def one(i: int, draw: int) -> float:
        if not np.isfinite(gaps[i, draw]):
            return np.nan
        theta0 = common.start(s, s.scales[i])
        return theory.balanced_limit(common.data(s), theta0, FACTORS, gaps[i, draw]).distance

    return common.grid(gaps.shape, one)[..., 0]


def _fitted(data: xr.Dataset) -> xr.DataArray:
    return data["sgd_loss"] < common.FITTED


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    paths.curves(ax, data, "scale", [f"{scale:g}" for scale in s.scales])
    flow = data["flow"].isel(step=slice(1, None))
    lines = ax.plot(flow["step"], flow.values.T, ":", color=BLACK, lw=0.9, zorder=3)
    lines[0].set_label("gradient flow, theory")
    typical = data["by_gap"].where(_fitted(data)).median("draw")
    last = [s.steps] * len(s.scales)
    ax.plot(last, typical, "s", label=r"SGD, from $\delta_\infty$", **paths.RING)
    ax.set_ylim(0, 1.6 * float(flow.isel(step=-1).max()))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right center")


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    last = data.isel(step=-1)
    fitted = _fitted(data)
    exact = abs(last["by_gap"] / last["sgd"] - 1).where(fitted).max()
    far = float((last["gd"] / last["flow"])[-1])
    words = f"D from the final gap, {int(fitted.sum())} runs of SGD that fit, worst relative error"
    return [
        paths.nearer(data),
        Check(words, float(exact), high=1e-6),
        Check(f"end of GD over that of the flow at scale {s.scales[-1]:g}", far, high=0.8),
    ]


FIGURE_7 = Figure(
    id="rank1.7",
    title="Rank-1 nets: extremely large starts",
    caption=(
        "As Figure 6(a) from starts of norm 16, 24 and 32. At this learning rate the first steps "
        "are violent, and even GD ends far below gradient flow (dotted). SGD's median end is "
        "nearer still, as the paper says. Theory survives: steps may be as large as they like, "
        "and the distance of every run that fits the data follows from its final gap "
        r"$\delta_\infty$ alone (squares: medians over such runs; worst error below a millionth). "
        r"Measured too: at 32 some runs of SGD diverge, others fall to the saddle $\theta = 0$ and "
        r"stay there for thousands of steps at $D = \|\theta^*_{\ell_2}\|$; medians are over what "
        "is finite."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={**paths.QUICK, "scales": (16.0, 24.0, 32.0), "draws": 24},
    wide=True,
)
