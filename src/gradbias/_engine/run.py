"""What a simulation returns: a labelled dataset, where it ended, and how it was computed."""

import dataclasses
import functools
import importlib.metadata
import json
import os
from typing import Any

import jax
import numpy as np
import xarray as xr

from .. import __version__
from ..dynamics import Dynamics
from ..numerics.pytrees import named_leaves
from ..numerics.types import PyTree
from ..problems import QuadraticProblem
from .serialise import NotPlain, encode
from .setup import Setup
from .status import Ending, Status

CONVENTION = (
    "data row-wise: X (n, d), Y (n, k); predictor theta (d, k) or (d,), outputs X theta; time is "
    "gradient-flow time, for descent the sum of the learning rates; rows after a stop are NaN, "
    "for a converged flow the final state; weight_decay g means the objective L + g |params|^2"
)


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """The result of `simulate`.

    Attributes:
        setup: what was run; None if it was loaded from a file and uses code of its own (an own
            net, loss, schedule or observable), which files do not hold.
        data: the observables, by name, over `step` or `time`.
        final: the parameters at the end.
        theta: the predictor at the end; None for non-linear nets.
        status: how it ended.
        stats: reduction and its certificate, compilations, seconds.
        end: the observables where it stopped, which need not be a save; None if it was loaded
            from a file.
    """

    setup: Setup | None
    data: xr.Dataset
    final: Any
    theta: np.ndarray | None
    status: Status
    stats: dict[str, Any]
    end: dict[str, Any] | None = None

    @classmethod
    def of(
        cls,
        setup: Setup,
        values: dict[str, Any],
        final: PyTree,
        theta: np.ndarray | None,
        status: Status,
        stats: dict[str, Any],
        end: dict[str, Any] | None = None,
    ) -> "Run":
        """Assemble a run from what the engine measured."""
        return cls(setup, dataset(setup, values, status), final, theta, status, stats, end)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a NetCDF file; `gb.load` reads it back.

        Args:
            path: the file; it appears only once it is complete.
        """
        from .run_file import write

        write(self, path)

    def __str__(self) -> str:
        lines = [
            self._title(),
            f"  {self.status} ({self.status.axis} {self.status.where}): {self.status.sentence}",
        ]
        lines += [f"  {line}" for line in (self._loss_line(), self._distance_line()) if line]
        how = self.stats.get("reduction", "none")
        reduced = (
            f"computed in full ({self.stats.get('reason')})"
            if how == "none"
            else f"reduced from {how}, certificate {self.stats['certificate']:.0e}"
        )
        lines.append(
            f"  {reduced}; {self.stats['compilations']} compilations, {self.stats['seconds']:.2f} s"
        )
        return "\n".join(lines)

    __repr__ = __str__

    def _title(self) -> str:
        if self.setup is None:
            return "Run, loaded from a file, of code that the file does not hold"
        return f"{self.setup.net!r}, {describe_dynamics(self.setup)}"

    def _loss_line(self) -> str:
        if "loss" not in self.data or self.data["loss"].ndim != 1:
            return ""
        seen = self.data["loss"].values
        seen = seen[np.isfinite(seen)]
        return f"loss {seen[0]:.3e} to {seen[-1]:.3e} at the last save" if len(seen) else ""

    def _distance_line(self) -> str:
        problem = None if self.setup is None else self.setup.problem
        if self.theta is None or not isinstance(problem, QuadraticProblem):
            return ""
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.linalg.norm(self.theta - problem.min_norm)
        return (
            f"distance to the min-norm solution {distance:.6g}, whose norm is "
            f"{np.linalg.norm(problem.min_norm):.6g}"
        )


def describe_dynamics(setup: Setup) -> str:
    """The dynamics in a few words: `Descent(lr=0.02)`."""
    return _describe(setup.dynamics)


def _describe(dynamics: Dynamics) -> str:
    shown = []
    for field in dataclasses.fields(dynamics):
        value = getattr(dynamics, field.name)
        nothing = value is None or value is False or value == "auto"
        if isinstance(value, np.ndarray):
            nothing = value.ndim == 0 and value == 0
        if field.repr and not nothing:
            shown.append(f"{field.name}={_words(value)}")
    return f"{type(dynamics).__name__}({', '.join(shown)})"


def _words(value: object) -> str:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return f"{float(value):g}"
    if isinstance(value, np.ndarray):
        return f"({', '.join(f'{x:g}' for x in np.ravel(value).tolist())})"
    if isinstance(value, (str, bool)):
        return repr(value)
    if isinstance(value, Dynamics):
        return _describe(value)
    return getattr(value, "__name__", type(value).__name__)


@functools.cache
def versions() -> dict[str, str]:
    """The versions that a result depends on."""
    names = ("jax", "jaxlib", "equinox", "diffrax", "numpy", "scipy", "xarray")
    return {"gradbias": __version__, **{name: importlib.metadata.version(name) for name in names}}


def dataset(setup: Setup, values: dict[str, Any], status: Status) -> xr.Dataset:
    """The observables (saves, …) as variables over the saves of a setup."""
    axis = setup.dynamics.axis
    coords: dict[str, Any] = {axis: setup.save_at}
    if axis == "step":
        coords["time"] = ("step", setup.dynamics.time(setup.save_at))
    measured = jax.tree.map(lambda v: v[:, None], values)
    variables = {
        name: ((axis, *dims), array[:, 0])
        for name, (dims, array) in variables_of(setup, measured).items()
    }
    attrs = {
        "configuration": json.dumps(_configuration(setup)),
        "convention": json.dumps(CONVENTION),
        "versions": json.dumps(versions()),
        "seed": json.dumps(setup.key),
        "status": json.dumps(str(status)),
    }
    return xr.Dataset(variables, coords, attrs)


def variables_of(
    setup: Setup, values: dict[str, Any]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The variables of measured values (rows, members, …), with the names of their own axes.

    A dict of arrays becomes a variable for each. Names must tell variables from each other and
    from axes.
    """
    found: list[tuple[str, tuple[str, ...], np.ndarray]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            leaves = [(f"{name}_{leaf}", array) for leaf, array in named_leaves(value)]
            found += [(full, _dims(full, None, array), array) for full, array in leaves]
        else:
            dims = setup.record[name].dims(setup.problem, setup.net)
            found.append((name, _dims(name, dims, value), value))
    axes = {dim for _, dims, _ in found for dim in dims} | {"step", "time"}
    names = [name for name, _, _ in found]
    for name in names:
        if names.count(name) > 1 or name in axes:
            taken = "an axis" if name in axes else "another variable"
            raise ValueError(f"record: {name!r} is also the name of {taken}; choose another")
        if "/" in name:
            raise ValueError(f"record: {name!r} must not contain '/'")
    return {name: (dims, array) for name, dims, array in found}


def _dims(name: str, dims: tuple[str, ...] | None, array: np.ndarray) -> tuple[str, ...]:
    rest = array.ndim - 2
    if dims is None or len(dims) != rest:
        return tuple(f"{name}_axis{i}" for i in range(rest))
    return dims


def _configuration(setup: Setup) -> dict[str, Any]:
    """What was run, in words and numbers; arrays by their shape."""

    def shown(value: object) -> object:
        try:
            return encode(value, arrays=None)
        except NotPlain:
            return repr(value)

    parts = ("problem", "net", "dynamics", "until", "record", "key")
    return {name: shown(getattr(setup, name)) for name in parts}


def load(path: str | os.PathLike[str]) -> Run:
    """Read a run that `Run.save` wrote; no code from the file is executed.

    Args:
        path: the file.
    """
    from .run_file import read

    return read(path)


__all__ = ["Ending", "Run", "Status", "load"]
