"""What recurrent layers do to exponents: which of their units can be rescaled, and which cannot.

Gates are sigmoids and tanh: units of an LSTM, a GRU and a tanh RNN keep nothing but their order and
signs, which are no scales. What is free is what feeds the layer, units of a ReLU RNN, and the
projection of an LSTM, which is linear and meets the recurrent and the next weights.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .ledger import ZERO, constant
from .rules import rule
from .walk import GraphWalk, Operation, Weight

GATED = "its gates are sigmoids or tanh, which do not scale"


class _Cell(NamedTuple):
    """The parameters of one layer in one direction."""

    into: Weight | Tensor
    again: Weight | Tensor
    biases: Sequence[Weight | Tensor]
    projection: Weight | Tensor | None


@rule("lstm", "gru", "rnn_tanh", "rnn_relu")
def recurrent(walk: GraphWalk, op: Operation) -> tuple[Tensor, ...]:
    """Layer after layer, direction after direction: the outputs, then the last states."""
    x, states, params, biased, layers, _, _, both = op.args[:8]
    if not isinstance(biased, bool):
        raise ValueError("packed sequences are not understood")
    hidden, *cells = states if isinstance(states, (list, tuple)) else [states]
    for state in cells:
        walk.ledger.zero(walk.ids(state))
    if op.word != "rnn_relu":
        walk.still.setdefault(f"units of the {op.word} in {walk.place or 'the model'}: {GATED}")
    each = _cells(params, layers * (1 + both), biased)
    before = walk.ids(hidden)
    last: list[Tensor] = []
    ids = walk.ledger.along(walk.ids(x), [0, 1])
    for _ in range(layers):
        outs = [_run(walk, op.word, next(each), ids) for _ in range(1 + both)]
        last += outs
        ids = torch.cat(outs)
    walk.ledger.merge(before, torch.stack(last)[:, None])
    shape, *others = (part for part in op.rest if isinstance(part, torch.Size))
    return (
        ids.expand(op.size),
        torch.stack(last)[:, None].expand(shape),
        *(constant(ZERO, other) for other in others),
    )


def _cells(params: Sequence[Any], count: int, biased: bool) -> Iterator[_Cell]:
    """Torch lists them one cell after the other: two weights, two biases, a projection."""
    each = len(params) // count
    for start in range(0, len(params), each):
        into, again, *rest = params[start : start + each]
        biases = rest[:2] if biased else []
        projection = rest[-1] if len(rest) > len(biases) else None
        yield _Cell(into, again, biases, projection)


def _run(walk: GraphWalk, word: str, cell: _Cell, ids: Tensor) -> Tensor:
    """The exponents of a cell's state, from those of its input."""
    gates = constant(ZERO, (cell.into.shape[0],))
    state = constant(ZERO, (cell.again.shape[1],))
    if word == "rnn_relu":
        gates = state = walk.ledger.fresh(cell.into.shape[0])
        walk.ledger.mark(state, "relu")
    if cell.projection is not None:
        state = walk.ledger.fresh(cell.projection.shape[0])
        inner = constant(ZERO, (cell.projection.shape[1],))
        walk.makes(cell.projection, ((0,), state), ((1,), inner))
    walk.makes(cell.into, ((0,), gates), ((1,), ids))
    walk.makes(cell.again, ((0,), gates), ((1,), state))
    for bias in cell.biases:
        walk.adds(bias, gates)
    return state
