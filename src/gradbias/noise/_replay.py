"""Recorded draws, replayed exactly."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.types import Integer
from ..problems import Batch, Population, Problem
from ..problems.base import LossOfOutputs
from ._data import DataNoise
from ._sampling import refuse_classes


class Replay(DataNoise):
    """The draws of an earlier run, or of another program, step by step.

    Args:
        indices: (steps, b) rows that each step sees; all rows if None.
        label_noise: added to the labels: (steps, n, k) without indices, (steps, b, k) with; the
            last axis may be left out when there is one output.
        samples: fresh data (x (steps, b, d), y (steps, b, k)), instead of rows.
    """

    indices: Any
    label_noise: Any
    x: Any
    y: Any

    def __init__(
        self,
        indices: ArrayLike | None = None,
        label_noise: ArrayLike | None = None,
        samples: tuple[ArrayLike, ArrayLike] | None = None,
    ):
        if indices is None and label_noise is None and samples is None:
            raise ValueError("Replay needs indices, label_noise or samples, got none of them")
        if samples is not None and indices is not None:
            raise ValueError("Replay takes indices or samples, got both")
        self.indices = None if indices is None else _rows(indices)
        self.label_noise = None if label_noise is None else _columns("label_noise", label_noise)
        self.x, self.y = (None, None) if samples is None else _pair(samples)
        lengths = {name: len(value) for name, value in self._given().items()}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"the parts of Replay must have the same number of steps: {lengths}")

    @property
    def samples(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The fresh data, as given."""
        return None if self.x is None else (self.x, self.y)

    @property
    def steps(self) -> int:
        """How many steps were recorded."""
        return len(next(iter(self._given().values())))

    def check(self, problem: Problem, steps: int | None) -> None:
        if steps is None or steps > self.steps:
            wanted = "with no limit of steps" if steps is None else f"of {steps} steps"
            raise ValueError(
                f"noise: Replay holds {self.steps} steps, shorter than a run {wanted}: record "
                f"more, or set until=Until(steps={self.steps})"
            )
        if self.x is None and isinstance(problem, Population):
            raise ValueError(
                "noise: on Population, Replay needs samples=(x, y), got rows or labels"
            )
        if self.indices is not None:
            self._check_rows(problem.n)  # pyright: ignore[reportAttributeAccessIssue]
        self._check_shapes(problem)

    def draw(self, key: Integer, n: int, k: int = 1) -> tuple[Any, Any]:
        raise NotImplementedError(
            "Replay draws nothing: what a step saw was recorded, and batch(problem, key, step) "
            "gives it back"
        )

    def moments(self, n: int) -> tuple[Any, Any]:
        raise NotImplementedError(
            "Replay has no covariance: it is one sequence of draws, not a law. Use the law that "
            "they were drawn from, such as gb.Minibatch or gb.LabelNoise"
        )

    def batch(self, problem: Problem | LossOfOutputs, key: Integer, step: Integer) -> Batch:
        def at(value):
            return None if value is None else value[step]

        return Batch(at(self.indices), at(self.label_noise), at(self.x), at(self.y))

    def in_basis(self, basis: np.ndarray) -> "Replay | None":
        if self.x is None:
            return self
        coordinates = self.x @ basis
        left = np.linalg.norm(self.x - coordinates @ basis.T)
        if left > 1e-13 * np.linalg.norm(self.x):
            return None
        return Replay(label_noise=self.label_noise, samples=(coordinates, self.y))

    def _given(self) -> dict[str, np.ndarray]:
        parts = {
            "indices": self.indices,
            "label_noise": self.label_noise,
            "samples x": self.x,
            "samples y": self.y,
        }
        return {name: value for name, value in parts.items() if value is not None}

    def _check_rows(self, n: int) -> None:
        low = self.indices.min(initial=0)
        high = self.indices.max(initial=0)
        if low < 0 or high >= n:
            raise ValueError(f"Replay indices must be rows 0 … {n - 1}, got {low} … {high}")

    def _check_shapes(self, problem: Problem) -> None:
        if self.samples is not None:
            x, y = self.samples
            if x.shape[2] != problem.d:
                raise ValueError(f"samples: x must have {problem.d} columns, got {x.shape}")
            if y.shape != (*x.shape[:2], problem.k):
                need = (*x.shape[:2], problem.k)
                raise ValueError(f"samples: y must have shape {need}, got {y.shape}")
        if self.label_noise is None:
            return
        refuse_classes(problem, "Replay with label_noise")
        rows = self._rows_seen(problem)
        if self.label_noise.shape[1:] != (rows, problem.k):
            raise ValueError(
                f"label_noise must have shape (steps, {rows}, {problem.k}), "
                f"got {self.label_noise.shape}"
            )

    def _rows_seen(self, problem: Problem) -> int:
        if self.x is not None:
            return self.x.shape[1]
        if self.indices is not None:
            return self.indices.shape[1]
        return problem.n  # pyright: ignore[reportAttributeAccessIssue]


def _rows(indices: ArrayLike) -> np.ndarray:
    checks.refuse_tracer("indices", indices)
    rows = np.asarray(indices)
    if rows.dtype.kind not in "iu" or rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"indices must be whole numbers of shape (steps, b), got {rows.dtype} {rows.shape}"
        )
    return rows.astype(np.int64)


def _columns(name: str, value: ArrayLike) -> np.ndarray:
    result = checks.array(name, value, ndim=(2, 3))
    if 0 in result.shape:
        raise ValueError(f"{name} must not be empty, got shape {result.shape}")
    return result if result.ndim == 3 else result[:, :, None]


def _pair(samples: tuple[ArrayLike, ArrayLike]) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(samples, tuple) or len(samples) != 2:
        raise ValueError(f"samples must be a pair (x, y), got {samples!r:.80}")
    x = checks.array("samples x", samples[0], ndim=(3,))
    return x, _columns("samples y", samples[1])
