"""How far to move: every family to its own balance, one after the other until nothing moves."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...numerics.psd import power, rank, riccati
from ...theory.symmetry import fixed_points
from .._find.family import Family
from .._find.pairs import sides
from .._measure.undisturbed import Named
from .moves import Move

SWEEPS = 1000  # deep chains need about the square of their depth
CLOSE = 1e-10  # the largest λ of a sweep after which it ends


class Swept(NamedTuple):
    """Where the sweeps ended.

    Attributes:
        params: the new parameters.
        moves: how far each family went.
        sweeps: how many it took.
        left: the largest λ of the last one.
    """

    params: Named
    moves: list[Move]
    sweeps: int
    left: float


def swept(
    families: Sequence[Family],
    params: Named,
    noise: Named | None = None,
    kappa: float = 0.0,
    gamma: float = 0.25,
) -> Swept:
    """The least κ Tr Σ + 4γ‖θ‖² that the families can reach; a convex problem.

    Convention: κ = lr/S, objective L + γ‖θ‖². Without noise it is the least ‖θ‖².

    Args:
        families: two-sided ones.
        params: float64, by name.
        noise: the diagonal of Σ, shaped like the parameters; pairs are then moved unit by unit.
        kappa: lr/S.
        gamma: γ.
    """
    params, noise = dict(params), None if noise is None else dict(noise)
    total = {f.name: Move(f, torch.zeros(f.units, dtype=torch.float64)) for f in families}
    left, count = math.inf, 0
    while left > CLOSE and count < SWEEPS:
        left, count = 0.0, count + 1
        for family in families:
            move, size = _step(family, params, noise, kappa, gamma)
            if size == 0:
                continue
            left = max(left, size)
            params |= move.apply(params)
            if noise is not None:
                noise |= move.apply(noise, -2)
            total[family.name] = total[family.name].then(move)
    return Swept(params, list(total.values()), count, left)


def _step(
    family: Family, params: Named, noise: Named | None, kappa: float, gamma: float
) -> tuple[Move, float]:
    """The move of one family to its balance, and its size."""
    if noise is None and family.kind == "pair":
        turn = _turn(family, params)
        if turn is not None:
            off = turn - torch.eye(turn.shape[-1], dtype=turn.dtype)
            lam = torch.diagonal(turn, dim1=1, dim2=2).log().reshape(-1)
            return Move(family, lam, turn), float(off.abs().max())
    lam = lam_star(family, params, noise, kappa, gamma)
    return Move(family, lam), float(lam.abs().max()) if len(lam) else 0.0


def lam_star(
    family: Family, params: Named, noise: Named | None, kappa: float, gamma: float
) -> Tensor:
    """λ* of every unit by itself; 0 where there is none, as for dead units."""
    mu = np.array(sorted({part.mu for part in family.parts}))
    sizes = _sizes(family, params, mu)
    if not np.isfinite(sizes).all():
        return torch.zeros(family.units, dtype=torch.float64)
    theta2 = _by_eigenvalue(family, params, mu, sizes)
    sigma2 = np.zeros_like(theta2) if noise is None else _by_eigenvalue(family, noise, mu)
    # From where both sides are of one size: squares of 1e-200 and 1e200 are no numbers.
    start = _meeting(mu, sizes)
    logs = np.log(sizes) + mu * start
    shared = logs.max()
    gamma = gamma * float(np.exp(2 * shared)) if kappa else gamma
    near = fixed_points(
        mu, sigma2 * np.exp(-2 * mu * start), theta2 * np.exp(2 * (logs - shared)), kappa, gamma
    ).value
    return torch.from_numpy(np.where(np.isfinite(near), near + start, 0.0))


def _sizes(family: Family, params: Named, mu: np.ndarray) -> np.ndarray:
    """The largest entry with each eigenvalue; 1 where all are zero."""
    found = []
    for m in mu:
        own = [params[part.parameter] for part in family.parts if part.mu == m]
        found.append(max((float(t.abs().max()) for t in own if t.numel()), default=0.0) or 1.0)
    return np.array(found)


def _meeting(mu: np.ndarray, sizes: np.ndarray) -> float:
    """The λ at which the largest entries of both sides are equal."""
    up, down = (np.flatnonzero(side) for side in (mu > 0, mu < 0))
    i, j = up[np.argmax(sizes[up])], down[np.argmax(sizes[down])]
    return float((np.log(sizes[j]) - np.log(sizes[i])) / (mu[i] - mu[j]))


def _by_eigenvalue(
    family: Family, values: Named, mu: np.ndarray, sizes: np.ndarray | None = None
) -> np.ndarray:
    """(units, m): sums over the entries with each eigenvalue; of squares over `sizes`² if given."""
    columns = []
    for i, m in enumerate(mu):
        total = torch.zeros(family.units, dtype=torch.float64)
        for part in (part for part in family.parts if part.mu == m):
            value = values[part.parameter]
            value = value if sizes is None else (value / float(sizes[i])).square()
            total = total + part.sums(value, family.units).to("cpu", torch.float64)
        columns.append(total)
    return torch.stack(columns, dim=1).numpy()


def _turn(family: Family, params: Named) -> Tensor | None:
    """The matrices that make what goes into each block equal to what comes out.

    None where a side does not fill its block: the balance is then only a limit.
    """
    found = sides(family, params)
    if found is None:
        return None
    turns = []
    for into, out in zip(*(side.cpu().numpy() for side in found), strict=True):
        scale = [float(np.abs(side).max()) for side in (into, out)]
        if min(scale) == 0 or not np.isfinite(scale).all():
            return None
        left, right = (side @ side.T / s**2 for side, s in zip((into, out), scale, strict=True))
        if min(rank(left), rank(right)) < len(left):
            return None
        turns.append(power(riccati(left, right), 0.5) * math.sqrt(scale[1] / scale[0]))
    return torch.from_numpy(np.stack(turns))
