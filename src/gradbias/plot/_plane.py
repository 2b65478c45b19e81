"""Two parameters, one line of minima: the picture in which the bias can be seen."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ._common import RunLike, axes
from ._style import BLACK, COLOURS, GREY

if TYPE_CHECKING:
    import matplotlib.axes

CONTOURS = 12
SAMPLES = 160
Limits: TypeAlias = tuple[float, float]


@runtime_checkable
class LinearProblem(Protocol):
    """What the ground is drawn from, such as a `gb.Regression`."""

    @property
    def X(self) -> ArrayLike: ...
    @property
    def Y(self) -> ArrayLike: ...
    @property
    def min_norm(self) -> ArrayLike: ...


# A run with its setup, or the saves of a path.
Path: TypeAlias = RunLike | np.ndarray


def plane(
    result: Path | Mapping[str, Path],
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    predicted: ArrayLike | Mapping[str, ArrayLike | None] | None = None,
    problem: LinearProblem | None = None,
    xlim: Limits | None = None,
    ylim: Limits | None = None,
) -> "matplotlib.axes.Axes":
    """Draw paths of a predictor with two entries over the loss and its line of minima.

    Args:
        result: a Run that recorded theta, or a dict {label: Run}; a path may also be an array
            (saves, 2), and then `problem` must be given.
        ax: where to draw; the current Axes of pyplot if None.
        predicted: the predicted end point, or a dict of them with the same labels; drawn as rings.
        problem: the Regression; by default the first run's.
        xlim: limits of the first entry of theta; by default what the paths need.
        ylim: limits of the second.
    """
    runs = dict(result) if isinstance(result, Mapping) else {"": result}
    given = predicted if isinstance(predicted, Mapping) else dict.fromkeys(runs, predicted)
    ends = {
        label: np.asarray(end, float).ravel() for label, end in given.items() if end is not None
    }
    problem = _problem(next(iter(runs.values()))) if problem is None else problem
    paths = {label: _path(run) for label, run in runs.items()}
    across, up = _limits([*paths.values(), *(end.reshape(1, 2) for end in ends.values())])
    xlim = across if xlim is None else xlim
    ylim = up if ylim is None else ylim
    ax = axes(ax)
    _ground(ax, problem, xlim, ylim)
    for number, (label, path) in enumerate(paths.items()):
        colour = COLOURS[number % len(COLOURS)]
        ax.plot(*path.T, color=colour, label=label or None, zorder=2)
        if label in ends:
            ax.plot(*ends[label], "o", mfc="none", mec=colour, mew=1.4, ms=9, zorder=3)
    start = next(iter(paths.values()))[0]
    ax.plot(*start, "o", color=BLACK, ms=4, zorder=4)
    ax.set(xlim=xlim, ylim=ylim, xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")
    ax.set_aspect("equal", adjustable="box")
    return ax


def _problem(run: Path) -> LinearProblem:
    setup = getattr(run, "setup", None)
    if setup is None:
        raise ValueError("problem must be given where result is no Run with its setup")
    return setup.problem


def _path(run: Path) -> np.ndarray:
    if isinstance(run, np.ndarray):
        return _two(run)
    if "theta" not in run.data:
        raise ValueError("theta was not recorded: put gb.observe.theta into the Setup's record=")
    assert run.theta is not None  # it was recorded
    values = _two(run.data["theta"].values)
    return np.vstack([values, np.asarray(run.theta, float).reshape(1, 2)])


def _two(values: np.ndarray) -> np.ndarray:
    """Saves that were reached, (saves, 2)."""
    values = values.reshape(len(values), -1)
    if values.shape[1] != 2:
        raise ValueError(f"plane needs a predictor with 2 entries, got {values.shape[1]}")
    return values[np.isfinite(values).all(axis=1)]


def _limits(points: Sequence[np.ndarray]) -> list[Limits]:
    """What holds all points, with a margin, in both directions."""
    together = np.vstack(points)
    low = together.min(axis=0)
    high = together.max(axis=0)
    margin = 0.12 * max(high - low)
    return [(low[i] - margin, high[i] + margin) for i in (0, 1)]


def _ground(ax: "matplotlib.axes.Axes", problem: LinearProblem, xlim: Limits, ylim: Limits) -> None:
    """The loss as contours of its square root (evenly spaced), and where it is least."""
    x = np.linspace(*xlim, SAMPLES)
    y = np.linspace(*ylim, SAMPLES)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    X = np.asarray(problem.X, float)
    outputs = grid @ X.T - np.asarray(problem.Y, float).reshape(-1)
    height = np.linalg.norm(outputs, axis=1).reshape(SAMPLES, SAMPLES)
    ax.contour(x, y, height, CONTOURS, colors=GREY, linewidths=0.4, alpha=0.6, zorder=0)
    if np.linalg.matrix_rank(X) == 1:
        x0, y0 = np.asarray(problem.min_norm, float).ravel()
        normal = np.linalg.svd(X)[2][0]
        beside = (x0 - normal[1], y0 + normal[0])
        ax.axline((x0, y0), beside, color=GREY, lw=2.2, alpha=0.8, zorder=1, label="minima")
