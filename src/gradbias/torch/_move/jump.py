"""Function-preserving jumps: done to a model and its optimiser, measured, and undone."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .._find.family import Family
from .._find.parameters import Call
from .._find.results import outputs
from .._measure.batches import B, LossFn
from .._measure.curvature import TopEigenpair, sharpness
from .._measure.noise import GradientNoise, gradient_noise
from .._measure.repeatable import watching_precision
from .._measure.undisturbed import Named, autocast_off, undisturbed
from .._measure.unwrap import OptimizerWrapper, unwrap_optimizer
from .moves import Move, known_states, move_all, move_optimizer
from .solve import BalancePoint

# The largest change of outputs, relative to the largest output, that is rounding.
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4}
HALF = 0.1  # of models that compute in half precision, whatever their parameters are


@dataclasses.dataclass(frozen=True, eq=False)
class Snapshot:
    """What was measured at one point.

    Attributes:
        ratio: for each family, (units,) the norm of what goes in over that of what comes out.
        norm: ‖θ‖² of the parameters that can be moved.
        noise: the gradient noise, by family; empty without data.
        sharpness: None without data.
    """

    ratio: dict[str, np.ndarray]
    norm: float
    noise: dict[str, GradientNoise]
    sharpness: TopEigenpair | None


@dataclasses.dataclass(frozen=True, eq=False)
class ModelJump:
    """What a jump did. The function of the model is what it was; `undo()` takes the way back.

    Convention: κ = lr/S, C = θᵀAθ, objective L + γ‖θ‖² (weight decay 2γ of torch's SGD).

    Attributes:
        lam: for each family, (units,) how far it went: exp(λ) multiplies what goes into a unit.
        before: measured before.
        after: measured after.
        difference: the largest change of any output, relative to the largest output.
        rounding: what rounding may do to outputs in the precision that the model computes in.
        skipped: families that were not moved, with the reason.
        sweeps: how often all families were visited.
        left: the largest λ of the last visit: 0 at the balance.
    """

    lam: dict[str, np.ndarray]
    before: Snapshot
    after: Snapshot
    difference: float
    rounding: float
    skipped: dict[str, str]
    sweeps: int
    left: float
    _undo: "Undo" = dataclasses.field(repr=False)

    def undo(self) -> None:
        """Take the way back: bit by bit if nothing has been trained since, else by the inverse."""
        self._undo()

    def __repr__(self) -> str:
        lines = [_change(name, self.before, self.after) for name in self.lam]
        lines += [f"{name}: not moved, {why}" for name, why in self.skipped.items()]
        if self.before.sharpness and self.after.sharpness:
            one = self.before.sharpness
            two = self.after.sharpness
            lines.append(
                f"sharpness {one.value:.4g} -> {two.value:.4g}, "
                f"largest stable lr {one.lr:.3g} -> {two.lr:.3g}"
            )
        lines.append(
            f"outputs changed by {self.difference:.1e} (relative; rounding is up to "
            f"{self.rounding:.0e})"
        )
        return "\n".join(lines)


def _change(name: str, before: Snapshot, after: Snapshot) -> str:
    line = f"{name}: in/out norm {span(before.ratio[name])} -> {span(after.ratio[name])}"
    if name in before.noise and name in after.noise:
        one, two = (point.noise[name].ratio for point in (before, after))
        line += f", noise in/out {span(one)} -> {span(two)}"
    return line


def span(values: np.ndarray) -> str:
    """The smallest and largest, or one number where they agree to two digits."""
    known = values[np.isfinite(values)]
    if not len(known):
        return "–"
    low = f"{known.min():.2g}"
    high = f"{known.max():.2g}"
    return low if low == high else f"{low}…{high}"


class Undo:
    """The way back."""

    def __init__(self, model: nn.Module, optimizer: Optimizer | None, moves: list[Move]):
        self.named: Named = dict(model.named_parameters())
        self.optimizer = optimizer
        self.moves = moves
        names = {name for move in moves for name in move.family.parameters}
        self.before = {name: self.named[name].detach().clone() for name in names}
        self.after: Named = {}
        self.memory: list[tuple[Tensor, Tensor]] = []
        self.done = False

    def __call__(self) -> None:
        """Once only."""
        if self.done:
            raise ValueError("this jump has been undone before")
        self.done = True
        same = all(torch.equal(self.named[n], t) for n, t in self.after.items())
        back = [move.inverse() for move in reversed(self.moves)]
        with torch.no_grad():
            current = {n: self.named[n].detach().double() for n in self.before}
            moved = self.before if same else move_all(back, current)
            for name, value in moved.items():
                self.named[name].copy_(value)
            torch.clear_autocast_cache()
            if same:
                for tensor, value in self.memory:
                    tensor.copy_(value)
            elif self.optimizer is not None:
                move_optimizer(self.optimizer, self.named, back)


def leap(
    model: nn.Module,
    call: Call,
    families: Sequence[Family],
    solved: BalancePoint,
    optimizer: Optimizer | OptimizerWrapper | None,
) -> tuple[float, float, "Undo"]:
    """Write the new parameters; refuse, with everything as it was, where outputs change."""
    inner = None if optimizer is None else unwrap_optimizer(optimizer)
    if inner is not None:
        known_states(inner)
    moves = [move for move in solved.moves if bool(move.lam.any()) or move.turn is not None]
    undo = Undo(model, inner, moves)
    for name in undo.before:
        if not bool(torch.isfinite(solved.params[name].to(undo.named[name].dtype)).all()):
            raise ValueError(f"model: {name} would leave the range of {undo.named[name].dtype}")
    with watching_precision(model) as half:
        first = _outputs(model, call)
    with torch.no_grad():
        for name in undo.before:
            undo.named[name].copy_(solved.params[name])
        torch.clear_autocast_cache()  # it holds halves of the old weights
        undo.after = {name: undo.named[name].detach().clone() for name in undo.before}
        if inner is not None:
            undo.memory = move_optimizer(inner, undo.named, moves)
    change = _difference(first, _outputs(model, call))
    allowed = max((ROUNDING.get(p.dtype, HALF) for p in undo.named.values()), default=0.0)
    allowed = HALF if half else allowed
    if not change <= allowed:
        undo()
        raise ValueError(
            f"families: the outputs changed by {change:.1e} (relative; rounding is at most "
            f"{allowed:.0e}), so that some of them do not hold. Nothing was changed; look at "
            "gradbias.torch.symmetries, or leave out those that you declared"
        )
    return change, allowed, undo


def _outputs(model: nn.Module, call: Call) -> list[Tensor]:
    with undisturbed(model), autocast_off(), torch.no_grad():
        return [t.detach().double().clone() for t in outputs(model(*call[0], **call[1]))]


def _difference(first: list[Tensor], second: list[Tensor]) -> float:
    off = [float((a - b).abs().max()) for a, b in zip(first, second, strict=True) if a.numel()]
    size = [float(a.abs().max()) for a in first if a.numel()]
    return max(off, default=0.0) / (max(size, default=0.0) or 1.0)


def snapshot(
    model: nn.Module,
    families: Sequence[Family],
    loss_fn: LossFn[B] | None,
    batch: B | None,
    peak: TopEigenpair | None = None,
) -> Snapshot:
    """Norms, and noise and sharpness (unless it is known) where there are data."""
    params = {name: p.detach().double() for name, p in model.named_parameters()}
    ratio = {}
    for family in families:
        into, out = family.halves(params, params)
        ratio[family.name] = (into.sqrt() / out.sqrt()).cpu().numpy()
    names = {name for family in families for name in family.parameters}
    norm = float(sum(params[name].square().sum() for name in names))
    if loss_fn is None or batch is None:
        return Snapshot(ratio, norm, {}, None)
    with undisturbed(model):
        noise = gradient_noise(model, loss_fn, batch, families) if families else {}
        return Snapshot(ratio, norm, noise, peak or sharpness(model, loss_fn, batch))
