"""Two parameters, one line of minima: the picture in which the bias can be seen."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._common import axes
from ._style import BLACK, COLOURS, GREY

CONTOURS = 12
SAMPLES = 160


def plane(
    result: Any,
    *,
    ax: Any = None,
    predicted: Any = None,
    problem: Any = None,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
) -> Any:
    """Draw paths of a predictor with two entries over the loss and its line of minima.

    Args:
        result: a Run that recorded theta, or a dict {label: Run}; a path may also be an array
            (saves, 2), and then `problem` must be given.
        ax: where to draw; new Axes if None.
        predicted: the predicted end point, or a dict of them with the same labels; drawn as rings.
        problem: the Regression; by default the first run's.
        xlim: limits of the first entry of theta; by default what the paths need.
        ylim: limits of the second.
    """
    ax = axes(ax)
    runs: dict[str, Any] = dict(result) if isinstance(result, Mapping) else {"": result}
    told = predicted if isinstance(predicted, Mapping) else dict.fromkeys(runs, predicted)
    problem = _problem(next(iter(runs.values()))) if problem is None else problem
    paths = {label: _path(run) for label, run in runs.items()}
    limits = _limits(paths, told, xlim, ylim)
    _ground(ax, problem, *limits)
    for number, (label, path) in enumerate(paths.items()):
        colour = COLOURS[number % len(COLOURS)]
        ax.plot(*path.T, color=colour, label=label or None, zorder=2)
        if told.get(label) is not None:
            point = np.asarray(told[label], float).ravel()
            ax.plot(*point, "o", mfc="none", mec=colour, mew=1.4, ms=9, zorder=3)
    start = next(iter(paths.values()))[0]
    ax.plot(*start, "o", color=BLACK, ms=4, zorder=4)
    ax.set(xlim=limits[0], ylim=limits[1], xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")
    ax.set_aspect("equal", adjustable="box")
    return ax


def _problem(run: Any) -> Any:
    if getattr(run, "setup", None) is None:
        raise ValueError("problem must be given where result is no Run with its setup")
    return run.setup.problem


def _path(run: Any) -> np.ndarray:
    if isinstance(run, np.ndarray):
        return _two(run)
    if "theta" not in run.data:
        raise ValueError("theta was not recorded: put gb.observe.theta into the Setup's record=")
    values = _two(run.data["theta"].values)
    return np.vstack([values, np.asarray(run.theta, float).reshape(1, 2)])


def _two(values: np.ndarray) -> np.ndarray:
    """Saves that were reached, (saves, 2)."""
    values = values.reshape(len(values), -1)
    if values.shape[1] != 2:
        raise ValueError(f"plane needs a predictor with 2 entries, got {values.shape[1]}")
    return values[np.isfinite(values).all(axis=1)]


def _limits(paths: Any, told: Any, xlim: Any, ylim: Any) -> list[tuple[float, float]]:
    points = np.vstack(
        [
            *paths.values(),
            *(np.reshape(point, (1, 2)) for point in told.values() if point is not None),
        ]
    )
    low, high = points.min(axis=0), points.max(axis=0)
    margin = 0.12 * max(high - low)
    own = [(low[i] - margin, high[i] + margin) for i in (0, 1)]
    return [own[0] if xlim is None else xlim, own[1] if ylim is None else ylim]


def _ground(ax: Any, problem: Any, xlim: tuple[float, float], ylim: tuple[float, float]) -> None:
    """The loss as contours of its square root (evenly spaced), and where it is least."""
    x, y = np.linspace(*xlim, SAMPLES), np.linspace(*ylim, SAMPLES)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    outputs = grid @ np.asarray(problem.X, float).T - np.asarray(problem.Y, float).reshape(-1)
    height = np.linalg.norm(outputs, axis=1).reshape(SAMPLES, SAMPLES)
    ax.contour(x, y, height, CONTOURS, colors=GREY, linewidths=0.4, alpha=0.6, zorder=0)
    if np.linalg.matrix_rank(problem.X) == 1:
        point = np.asarray(problem.min_norm, float).ravel()
        normal = np.linalg.svd(np.asarray(problem.X, float))[2][0]
        other = point + np.array([-normal[1], normal[0]])
        ax.axline(point, other, color=GREY, lw=2.2, alpha=0.8, zorder=1, label="minima")
