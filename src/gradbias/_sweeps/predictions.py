"""What the theorems say of every member of a sweep, what was measured, and whether they agree."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
import xarray as xr

from .._engine.setup import Setup
from ..numerics.progress import CountProgress
from .grid import Grid

if TYPE_CHECKING:  # most sweeps ask no theorem
    from .._verdicts.predict import Prediction
    from .._verdicts.verdict import Verdict
    from ..observe import Observable

KEPT_BYTES = 2**29  # of setups that wait for their runs, to be compared with them
FIELDS = ("predicted", "measured", "error", "verdict")


class Said(NamedTuple):
    """What a theorem says of a member.

    Attributes:
        values: quantity → predicted value.
        prediction: to compare with the run; None where there was no room for the setup.
    """

    values: dict[str, np.ndarray]
    prediction: "Prediction | None"


class Questions:
    """The theorems that a sweep asks.

    Args:
        pattern: of theorem ids.
        grid: the points.
        extend: may the sweep record what they need, beside what it was asked for?
    """

    def __init__(self, pattern: str, grid: Grid, extend: bool):
        from ..theorems import find

        found = find(pattern)
        self.theorems = [theorem for theorem in found if not theorem.given]
        if not self.theorems:
            raise ValueError(f"predict={pattern!r}: these theorems take something from the run")
        self.grid = grid
        self.extend = extend
        self.extra: dict[str, Observable] | None = None
        self.own: set[str] = set()
        self.said: list[dict[str, Said]] = []
        self.free = KEPT_BYTES

    def recording(self, setup: Setup) -> Setup:
        """A member that records what the theorems need; all members record the same."""
        if not self.extend:
            return setup
        if self.extra is None:
            from .._verdicts.members import needs

            self.own = set(setup.record)
            self.extra = needs(setup, self.theorems, self.grid.size)
        return setup.replace(record={**setup.record, **self.extra}) if self.extra else setup

    def ask(self, setup: Setup) -> None:
        """What the theorems that apply say of the next member."""
        from .._verdicts.predict import predict

        found = [p for t in self.theorems for p in predict(setup, t, progress=False)]
        self.free -= sum(8 * np.size(leaf) for leaf in jax.tree.leaves(setup.params))
        self.said.append(
            {
                p.theorem.id: Said(
                    {name: np.asarray(value) for name, value in p.value.items()},
                    p if self.free > 0 else None,
                )
                for p in found
            }
        )

    def answers(self, data: xr.Dataset, progress: bool | None) -> xr.Dataset:
        """The Dataset with predictions, measurements and verdicts, without what only they need."""
        verdicts: list[dict[tuple[str, str], Verdict]] = []
        with CountProgress("comparing members", self.grid.size, progress) as count:
            for member, row in enumerate(self.said):
                count.step(member, str(self.grid.point(member)))
                verdicts.append(self._verdicts(row, data, member))
        kept = data.drop_vars([n for n in map(str, data) if self._is_extra(n)])
        kept = kept.drop_dims([d for d in kept.dims if not _used(str(d), kept)])
        return kept.assign(self._variables(verdicts, kept))

    def _is_extra(self, variable: str) -> bool:
        """Was it recorded for the theorems alone?"""
        extra = self.extra or {}
        belongs = [n for n in [*extra, *self.own] if variable == n or variable.startswith(f"{n}_")]
        return bool(belongs) and max(belongs, key=len) in extra

    def _verdicts(
        self, row: Mapping[str, Said], data: xr.Dataset, member: int
    ) -> "dict[tuple[str, str], Verdict]":
        """Of one member, by theorem and quantity."""
        from .._verdicts.members import verdicts_on_member

        if not row:
            return {}
        place = np.unravel_index(member, self.grid.shape)
        one = data.isel(dict(zip(self.grid.names, map(int, place), strict=True)))
        found: dict[tuple[str, str], Verdict] = {}
        for theorem, said in row.items():
            if said.prediction is None:
                continue
            for verdict in verdicts_on_member(said.prediction, one):
                names = [verdict.quantity] if verdict.quantity else list(said.values)
                found |= {(theorem, name): verdict for name in names}
        return found

    def _variables(
        self, verdicts: "list[dict[tuple[str, str], Verdict]]", data: xr.Dataset
    ) -> dict[str, Any]:
        shapes = {
            (theorem, name): value.shape
            for row in self.said
            for theorem, said in row.items()
            for name, value in said.values.items()
        }
        names = [name for _, name in shapes]
        variables: dict[str, Any] = {}
        for (theorem, quantity), shape in shapes.items():
            end = f"_{theorem}" if names.count(quantity) > 1 else ""
            columns = self._columns(theorem, quantity, shape, verdicts)
            for field, values in columns.items():
                own = _dims(quantity, shape, self.grid, data) if values.ndim > 1 else ()
                whole = values.reshape(*self.grid.shape, *values.shape[1:])
                variables[f"{quantity}_{field}{end}"] = ((*self.grid.names, *own), whole)
        return variables | self._applies()

    def _columns(
        self,
        theorem: str,
        quantity: str,
        shape: tuple[int, ...],
        verdicts: "list[dict[tuple[str, str], Verdict]]",
    ) -> dict[str, np.ndarray]:
        """One quantity at all points; members where it has another shape are refused."""
        size = self.grid.size
        predicted = np.full((size, *shape), np.nan)
        measured = predicted.copy()
        error = np.full(size, np.nan)
        words = ["not applicable"] * size
        for i, row in enumerate(self.said):
            if theorem not in row or quantity not in row[theorem].values:
                continue
            value = row[theorem].values[quantity]
            if value.shape != shape:
                raise ValueError(
                    f"predict: {theorem} gives {quantity!r} of shape {shape} at one point and "
                    f"{value.shape} at {self.grid.point(i)}"
                )
            predicted[i] = value
            words[i] = "inconclusive"
            verdict = verdicts[i].get((theorem, quantity))
            if verdict is not None:
                error[i] = verdict.error
                words[i] = verdict.verdict
                if verdict.measured is not None and np.size(verdict.measured) == value.size:
                    measured[i] = np.reshape(verdict.measured, shape)
        return dict(zip(FIELDS, (predicted, measured, error, np.asarray(words)), strict=True))

    def _applies(self) -> dict[str, Any]:
        ids = [theorem.id for theorem in self.theorems]
        applies = np.asarray([[name in row for name in ids] for row in self.said])
        if len(ids) == 1:
            return {"applies": (self.grid.names, applies[:, 0].reshape(self.grid.shape))}
        whole = applies.reshape(*self.grid.shape, len(ids))
        return {"applies": ((*self.grid.names, "theorem"), whole), "theorem": ("theorem", ids)}


def _used(dim: str, data: xr.Dataset) -> bool:
    return any(dim in variable.dims for variable in data.data_vars.values())


def _dims(quantity: str, shape: tuple[int, ...], grid: Grid, data: xr.Dataset) -> tuple[str, ...]:
    """The names that the measured quantity gives to its axes, so that the two can be compared."""
    measured = data.get(f"{quantity}_end")
    own = () if measured is None else tuple(str(d) for d in measured.dims if d not in grid.names)
    if measured is not None and tuple(measured.sizes[d] for d in own) == shape:
        return own
    return tuple(f"{quantity}_predicted_axis{i}" for i in range(len(shape)))
