"""How far to move: sweeps over the families, and Newton's method for all of them at once."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from ...numerics.balance_roots import LARGEST, orbit_balance
from ...numerics.psd import power, rank, riccati
from ...theory.symmetry import fixed_points
from .._find.family import Family
from .._find.pairs import sides
from .._measure.undisturbed import Named
from .moves import Move

SWEEPS = 1000  # pairs alone, in deep chains, need about the square of their depth
CLOSE = 1e-10  # the largest λ of a sweep after which it ends
FEW = 3  # sweeps before it is asked whether they are slow: the first ones always move far
TERMS = 4_000_000  # entries of parameters, above which sweeps go on alone


class BalancePoint(NamedTuple):
    """The balance of all families.

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


class _Path:
    """Where the families have been moved so far."""

    def __init__(self, families: Sequence[Family], params: Named, noise: Named | None):
        self.params = dict(params)
        self.noise = None if noise is None else dict(noise)
        self.moves = {f.name: Move(f, torch.zeros(f.units, dtype=torch.float64)) for f in families}

    def follow(self, move: Move) -> None:
        self.params |= move.apply(self.params)
        if self.noise is not None:
            self.noise |= move.apply(self.noise, -2)
        self.moves[move.family.name] = self.moves[move.family.name].then(move)


def balance_point(
    families: Sequence[Family],
    params: Named,
    noise: Named | None = None,
    kappa: float = 0.0,
    gamma: float = 0.25,
) -> BalancePoint:
    """The least κ Tr Σ + 4γ‖θ‖² that the families can reach; a convex problem.

    Families are balanced one after the other until nothing moves. Where that is slow, as in deep
    chains, those that are diagonal are solved together by Newton's method, which ends the chain
    at once; pairs, which are balanced by matrices, are not.

    Convention: κ = lr/S, objective L + γ‖θ‖². Without noise it is the least ‖θ‖².

    Args:
        families: two-sided ones.
        params: float64, by name.
        noise: the diagonal of Σ, shaped like the parameters; pairs are then moved unit by unit.
        kappa: lr/S.
        gamma: γ.
    """
    path = _Path(families, params, noise)
    left = math.inf
    count = 0
    together = False
    while left > CLOSE and count < SWEEPS:
        before = left
        left, moving = _sweep(families, path, kappa, gamma)
        count = count + 1
        if not together and count >= FEW and left > max(CLOSE, before / 2):
            together = True
            _solve_together(moving, path, kappa, gamma)
    return BalancePoint(path.params, list(path.moves.values()), count, left)


def _sweep(
    families: Sequence[Family], path: _Path, kappa: float, gamma: float
) -> tuple[float, list[Family]]:
    """Move one family after the other: the largest λ, and which diagonal ones were not at rest."""
    largest = 0.0
    moving = []
    for family in families:
        move, size = _step(family, path.params, path.noise, kappa, gamma)
        if size == 0:
            continue
        largest = max(largest, size)
        path.follow(move)
        if size > CLOSE and move.turn is None:
            moving.append(family)
    return largest, moving


def _solve_together(families: Sequence[Family], path: _Path, kappa: float, gamma: float) -> None:
    """Move diagonal families to their joint balance, if they are not too large and have one."""
    axes = _axes(families)
    sizes = {name: tuple(path.params[name].shape[d] for d in dims) for name, dims in axes.items()}
    units = [family.units for family in families]
    if not 0 < sum(units) <= LARGEST or sum(map(math.prod, sizes.values())) > TERMS:
        return
    decay = [_log_sums(path.params[n].abs().log() * 2, dims) for n, dims in axes.items()]
    noise = [np.full_like(logs, -np.inf) for logs in decay]
    if path.noise is not None:
        noise = [_log_sums(path.noise[n].log(), dims) for n, dims in axes.items()]
    with np.errstate(divide="ignore"):
        logs = [np.log(kappa) + np.concatenate(noise), np.log(4 * gamma) + np.concatenate(decay)]
    solved = orbit_balance(_generators(families, axes, sizes), *logs)
    if solved.reached:
        for family, lam in zip(families, np.split(solved.x, np.cumsum(units)[:-1]), strict=True):
            path.follow(Move(family, torch.from_numpy(lam)))


def _axes(families: Sequence[Family]) -> dict[str, tuple[int, ...]]:
    """The axes of every parameter along which units vary; entries along the others move alike."""
    axes: dict[str, set[int]] = {}
    for part in (part for family in families for part in family.parts):
        axes.setdefault(part.parameter, set()).update(part.dims)
    return {name: tuple(sorted(dims)) for name, dims in axes.items()}


def _log_sums(logs: Tensor, kept: tuple[int, ...]) -> np.ndarray:
    """The logarithms of sums of exponentials over all axes but some, flat."""
    others = [d for d in range(logs.ndim) if d not in kept]
    summed = torch.logsumexp(logs, others) if others else logs
    return summed.reshape(-1).cpu().numpy()


def _generators(
    families: Sequence[Family],
    axes: dict[str, tuple[int, ...]],
    sizes: dict[str, tuple[int, ...]],
) -> scipy.sparse.csc_array:
    """(entries, units): the eigenvalues of all units' generators, parameter after parameter."""
    counts = [math.prod(size) for size in sizes.values()]
    start = dict(zip(sizes, np.cumsum([0, *counts[:-1]]).tolist(), strict=True))
    pieces = []
    first = 0
    for family in families:
        for part in family.parts:
            size = sizes[part.parameter]
            along = [
                n if d in part.dims else 1 for d, n in zip(axes[part.parameter], size, strict=True)
            ]
            unit = np.broadcast_to(part.unit.numpy().reshape(along), size).reshape(-1)
            rows = np.flatnonzero(unit >= 0)
            values = np.full(len(rows), part.mu)
            pieces.append((values, start[part.parameter] + rows, first + unit[rows]))
        first += family.units
    mu, rows, columns = (np.concatenate(side) for side in zip(*pieces, strict=True))
    return scipy.sparse.csc_array((mu, (rows, columns)), shape=(sum(counts), first))


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
    sizes = []
    for m in mu:
        values = [params[part.parameter] for part in family.parts if part.mu == m]
        sizes.append(max((float(t.abs().max()) for t in values if t.numel()), default=0.0) or 1.0)
    return np.array(sizes)


def _meeting(mu: np.ndarray, sizes: np.ndarray) -> float:
    """The λ at which the largest entries of both sides are equal."""
    up, down = (np.flatnonzero(side) for side in (mu > 0, mu < 0))
    i = up[np.argmax(sizes[up])]
    j = down[np.argmax(sizes[down])]
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
    blocks = sides(family, params)
    if blocks is None:
        return None
    turns = []
    for into, out in zip(*(side.cpu().numpy() for side in blocks), strict=True):
        scale = [float(np.abs(side).max()) for side in (into, out)]
        if min(scale) == 0 or not np.isfinite(scale).all():
            return None
        left, right = (side @ side.T / s**2 for side, s in zip((into, out), scale, strict=True))
        if min(rank(left), rank(right)) < len(left):
            return None
        turns.append(power(riccati(left, right), 0.5) * math.sqrt(scale[1] / scale[0]))
    return torch.from_numpy(np.stack(turns))
