"""SGD against its limit: how the difference falls with the learning rate."""

import copy
import warnings
from collections.abc import Iterable

import jax
import numpy as np
import xarray as xr
from jax.flatten_util import ravel_pytree

from .._engine.setup import Setup, Until
from .._engine.status import Ending
from .._sweeps.sweep import sweep
from ..dynamics import Descent
from ..limit import Limit
from ..limit._observe_at_limit import AtLimit
from ..nets import LinearNet
from ..noise import Noise
from ..numerics import checks
from ..numerics.precision import host
from ..observe import Observable, as_observable, theta
from ..observe.base import Measurement
from ..theory.manifold import limit_to_steps
from .weak_error_fit import EnsemblePair, WeakError, summary

NAME = "at_limit"


@host
def weak_error(
    setup: Setup,
    lrs: Iterable[float],
    T: float,
    along: str = "end",
    *,
    observable: Observable | Measurement | None = None,
    members: int = 200,
    points: int = 10,
    dt: float | None = None,
    progress: bool | None = None,
) -> WeakError:
    """Compare Φ(x_k) of SGD with its limit after the time T = k·lr².

    x_k itself is a distance of order √lr away from the manifold, Φ(x_k) is on it. Both start from
    the parameters of the setup. Members have the keys `setup.key`, `setup.key + 1`, …

    Args:
        setup: with `Descent(lr, noise)`, of which lr is replaced; its until, record and save_at
            do not count.
        lrs: the learning rates, at least two.
        T: time of the limit; a run takes T/lr² steps.
        along: "end" compares at T; "path" on a grid of times up to T, and needs a limit that does
            not diffuse, because two diffusions are not near each other path by path.
        observable: f(problem, net, params) → array, or one of `gb.observe`; by default theta of a
            linear net, else all parameters.
        members: the number of runs with each learning rate, and of a limit that diffuses.
        points: of the grid.
        dt: the step of a limit that diffuses; see `Limit`.
        progress: show a line while it runs.
    """
    descent = _descent(setup)
    rates = _rates(lrs)
    T = checks.number("T", T, above=0)
    path = checks.one_of("along", along, ("end", "path")) == "path"
    members = checks.integer("members", members, at_least=2)
    count = checks.integer("points", points, at_least=1) if path else 1
    times = T * np.arange(1, count + 1) / count
    steps = _whole(rates, times)
    assert descent.noise is not None
    limit = _limit(descent.noise, dt, times[0])
    if path and limit.counts_steps:
        raise ValueError(
            "along='path' needs a limit that does not diffuse, got noise "
            f"{descent.noise!r:.80} with dt = {float(limit.dt):g}: use along='end'"
        )
    measure = _observable(setup, observable)
    base = setup.replace(record={NAME: measure}, until=None, save_at=None)
    limits = _of_limit(base, limit, rates, times, steps, members, progress)
    base = base.replace(record={NAME: AtLimit(measure)})  # the limit itself is there already
    samples = []
    for lr, row, at_limit in zip(rates, steps, limits, strict=True):
        samples.append(EnsemblePair(_of_descent(base, lr, row, members, progress), at_limit))
        _warn_of_lost(lr, samples[-1].ours)
    result = summary(rates, steps, samples, path, members)
    _warn_of_unseen(result)
    return result


def _all_parameters(problem, net, params) -> jax.Array:
    return ravel_pytree(params)[0]


def _observable(setup: Setup, observable: Observable | Measurement | None) -> Observable:
    if observable is None:
        observable = theta if isinstance(setup.net, LinearNet) else _all_parameters
    return as_observable("observable", observable)


def _descent(setup: Setup) -> Descent:
    if not isinstance(setup, Setup):
        raise ValueError(f"setup must be a gb.Setup, got {type(setup).__name__}")
    dynamics = setup.dynamics
    if not isinstance(dynamics, Descent) or dynamics.noise is None:
        raise ValueError(
            f"setup must have the dynamics gb.Descent(lr, noise), got {dynamics!r:.80}"
        )
    if dynamics.momentum != 0 or dynamics.weight_decay != 0:
        raise ValueError(
            "setup must have plain SGD, got momentum or weight decay: the limit is another there"
        )
    return dynamics


def _rates(lrs: Iterable[float]) -> np.ndarray:
    rates = checks.array("lrs", list(lrs), ndim=(1,))
    if len(np.unique(rates)) < 2 or np.any(rates <= 0):
        raise ValueError(f"lrs must be at least two different positive numbers, got {rates}")
    return rates


def _whole(rates: np.ndarray, times: np.ndarray) -> np.ndarray:
    """(L, points) the steps of each time."""
    steps = np.stack([np.atleast_1d(limit_to_steps(times, float(lr))) for lr in rates])
    if np.any(np.diff(steps, axis=1, prepend=0) < 1):
        raise ValueError(
            f"T/lr² must be at least one step for each of the {len(times)} points, got "
            f"T = {times[-1]:g} with lr = {rates.max():g}"
        )
    return steps


def _limit(noise: Noise, dt: float | None, first: float) -> Limit:
    """The limit; where its steps are fixed, some of them end at the first time."""
    limit = Limit(noise, dt)
    if not limit.counts_steps:
        return limit
    return Limit(noise, first / np.ceil(first / float(limit.dt)))


def _of_limit(
    base: Setup,
    limit: Limit,
    rates: np.ndarray,
    times: np.ndarray,
    steps: np.ndarray,
    members: int,
    progress: bool | None,
) -> list[np.ndarray]:
    """For every learning rate f(Y), (members or 1, points, …), at the time of its steps."""
    exact = steps * rates[:, None] ** 2
    if limit.counts_steps:
        at = times
        count = members
    else:
        at = np.unique(exact)
        count = 1

    first = base.replace(dynamics=limit, until=Until(time=float(at[-1])), save_at=at)
    data = _ensemble(first, count, progress)
    if NAME not in data:
        raise ValueError("observable must return one array, got a dict of them")
    if (data["status"].values != Ending.REACHED_TIME).any() or data[NAME].isnull().any():
        raise ValueError(
            "setup: its limit cannot be computed; probable causes: (1) gradient flow from the "
            "parameters does not converge, or not to a fit of the data, (2) the rank of the "
            "Jacobian is not clear, (3) dt is too large, (4) the net is not smooth"
        )
    values = data[NAME].values
    if limit.counts_steps:
        return [values] * len(rates)
    return [values[:, np.searchsorted(at, row)] for row in exact]


def _of_descent(
    base: Setup, lr: float, steps: np.ndarray, members: int, progress: bool | None
) -> np.ndarray:
    """f(Φ(x_k)), (members, points, …)."""
    until = Until(steps=int(steps[-1]))
    first = base.replace(
        dynamics=Descent(float(lr), _descent(base).noise), until=until, save_at=steps
    )
    return _ensemble(first, members, progress)[NAME].values


def _ensemble(first: Setup, members: int, progress: bool | None) -> xr.Dataset:
    """A setup with consecutive keys; it is checked once, which traces the net, and then copied."""

    def build(member: int) -> Setup:
        setup = copy.copy(first)
        vars(setup).update(key=first.key + member)
        return setup

    return sweep(build, {"member": range(members)}, progress=progress)


def _warn_of_lost(lr: float, values: np.ndarray) -> None:
    lost = int(np.isnan(values).reshape(len(values), -1).any(axis=1).sum())
    if lost:
        warnings.warn(
            f"lrs: with lr = {lr:g}, {lost} of {len(values)} members diverged or left the "
            "manifold's neighbourhood, and its error is NaN: single samples are stable below "
            "2/max‖∇f_i‖²",
            stacklevel=4,
        )


def _warn_of_unseen(result: WeakError) -> None:
    unseen = result.lrs[result.error == 0]
    if len(unseen):
        warnings.warn(
            f"members: the difference is not told from zero with {result.members} members at lr = "
            f"{', '.join(f'{lr:g}' for lr in unseen)}, which the order leaves out: give more "
            "members or larger lrs",
            stacklevel=4,
        )
