"""A move along a symmetry: what it does to parameters, gradients and their squares."""

import dataclasses

import torch
from torch import Tensor

from .._find.family import Family
from .._find.pairs import mixed
from .._measure.undisturbed import Named

# How optimisers' memories move, by their names in `optimizer.state`: 1 like parameters, −1 like
# gradients, −2 like their squares, 0 not at all.
STATES: dict[str, dict[str, int]] = {
    "SGD": {"momentum_buffer": -1},
    "Adam": {"exp_avg": -1, "exp_avg_sq": -2, "max_exp_avg_sq": -2},
    "Adamax": {"exp_avg": -1, "exp_inf": -1},
    "RMSprop": {"square_avg": -2, "grad_avg": -1, "momentum_buffer": 0},
    "Adagrad": {"sum": -2},
    "Adadelta": {"square_avg": -2, "acc_delta": 2},
}
STATES |= dict.fromkeys(("AdamW", "NAdam", "RAdam"), STATES["Adam"])


@dataclasses.dataclass(frozen=True, eq=False)
class Move:
    """How far one family was moved.

    Attributes:
        family: which.
        lam: (units,) λ of every unit; 0 where it has no balance.
        turn: of a pair, (blocks, block, block): what goes into a block is multiplied by it.
    """

    family: Family
    lam: Tensor
    turn: Tensor | None = None

    def apply(self, values: Named, power: int = 1) -> Named:
        """New tensors for the family's parameters.

        Args:
            values: tensors shaped like the parameters, by name.
            power: 1 for parameters, −1 for gradients, ±2 for squares of them.
        """
        if power == 0:
            return {name: values[name] for name in self.family.parameters}
        if self.turn is None:
            return self.family.move(values, power * self.lam)
        there = self.turn
        back = torch.linalg.inv(self.turn).mT
        into, out = (there, back) if power > 0 else (back, there)
        if abs(power) == 2:  # of entries that are not correlated
            into = into.square()
            out = out.square()
        return mixed(self.family, values, into, out)

    def then(self, other: "Move") -> "Move":
        """Both, this one first."""
        turns = [move.turn for move in (self, other)]
        if turns[0] is None and turns[1] is None:
            return Move(self.family, self.lam + other.lam)
        one, two = (_as_turn(move) for move in (self, other))
        return Move(self.family, self.lam + other.lam, two @ one)

    def inverse(self) -> "Move":
        """The way back."""
        turn = None if self.turn is None else torch.linalg.inv(self.turn)
        return Move(self.family, -self.lam, turn)


def _as_turn(move: Move) -> Tensor:
    if move.turn is not None:
        return move.turn
    return torch.diag_embed(torch.exp(move.lam).reshape(-1, move.family.block or 1))


def move_all(moves: list[Move], values: Named, power: int = 1) -> Named:
    """All moves, one after the other; tensors that none of them touches stay."""
    values = dict(values)
    for move in moves:
        values |= move.apply(values, power)
    return values


def move_optimizer(
    optimizer: torch.optim.Optimizer, named: Named, moves: list[Move]
) -> list[tuple[Tensor, Tensor]]:
    """Transform momentum and second moments as if the run had always been at the new point.

    Args:
        optimizer: of torch.optim.
        named: the model's parameters.
        moves: what was done to them.

    Returns:
        Every tensor that changed, with a copy of what it was.
    """
    known = known_states(optimizer)
    moved = {name for move in moves for name in move.family.parameters}
    kept: list[tuple[Tensor, Tensor]] = []
    for key, power in known.items():
        held = {n: optimizer.state[p].get(key) for n, p in named.items() if p in optimizer.state}
        present = {n: t for n, t in held.items() if isinstance(t, Tensor)}
        full = {n: present.get(n, torch.zeros_like(p)).double() for n, p in named.items()}
        after = move_all(moves, full, power)
        for name, tensor in present.items():
            if name in moved:
                kept.append((tensor, tensor.clone()))
                tensor.copy_(after[name])
    return kept


def known_states(optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """How each of an optimiser's memories moves, or a ValueError that says which does not."""
    known = STATES.get(type(optimizer).__name__)
    for memory in optimizer.state.values():
        for key, value in memory.items():
            unknown = known is None or key not in known
            if unknown and isinstance(value, Tensor) and value.numel() > 1:
                raise ValueError(
                    f"optimizer: it is not known how {key!r} of {type(optimizer).__name__} moves "
                    f"with the parameters; known are {', '.join(STATES)}. Jump before training, "
                    "or start a new optimiser afterwards"
                )
    return known or {}
