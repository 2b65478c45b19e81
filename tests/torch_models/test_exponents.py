"""Exponents are compared by slices: the same classes as entry by entry, at a smaller price."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gradbias.torch._find.ledger import ANY, Ledger  # noqa: E402
from gradbias.torch._find.solve import Solved  # noqa: E402
from gradbias.torch._find.symmetries import _walked  # noqa: E402


def classes_by_hand(count, pairs):
    """Which numbers are equal, by painting over."""
    colour = list(range(count))
    for a, b in pairs:
        old, new = colour[a], colour[b]
        colour = [new if c == old else c for c in colour]
    return colour


def partition(labels):
    groups = {}
    for number, label in enumerate(labels):
        groups.setdefault(int(label), []).append(number)
    return sorted(groups.values())


@pytest.mark.parametrize("key", range(12))
def test_slices_give_the_classes_of_all_entries(key):
    rng = np.random.default_rng(key)
    ledger = Ledger()
    ledger.fresh(30)
    pairs = []
    for _ in range(3):
        sides = []
        for _ in range(2):
            kept = rng.random(4) < 0.5
            shape = np.where(kept, (3, 2, 4, 2), 1)
            ids = rng.integers(1, 31, shape)
            if rng.random() < 0.4:
                ids[rng.random(shape) < 0.3] = ANY
            sides.append(torch.from_numpy(ids).expand(3, 2, 4, 2))
        ledger.merge(*sides)
        flat = zip(*(side.reshape(-1).tolist() for side in sides), strict=True)
        pairs += [(a, b) for a, b in flat if ANY not in (a, b)]
    assert partition(Solved(ledger).of) == partition(classes_by_hand(31, pairs))


@pytest.mark.parametrize("key", range(6))
def test_equal_combinations_have_one_number(key):
    rng = np.random.default_rng(key)
    ledger = Ledger()
    ledger.fresh(4)
    a, b = (torch.from_numpy(rng.integers(-1, 4, shape)) for shape in ((5, 1, 3), (5, 4, 1)))
    whole = [t.expand(5, 4, 3) for t in (a, b)]
    total = ledger.combined([(a, 1.0), (b, -1.0)])
    assert total.shape == (5, 4, 3)
    entries = list(zip(*(t.reshape(-1).tolist() for t in whole), strict=True))
    numbers = total.reshape(-1).tolist()
    one_each = dict(zip(entries, numbers, strict=True))
    assert [one_each[e] for e in entries] == numbers
    assert all((number == ANY) == (ANY in entry) for entry, number in one_each.items())
    told = [n for n in one_each.values() if n != ANY]
    assert len(set(told)) == len(told)


class Words(nn.Module):
    """Words in and out, with one table for both or with two."""

    def __init__(self, count, tied):
        super().__init__()
        self.words, self.inner = nn.Embedding(count, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, count, bias=False)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, ids):
        return self.head(torch.relu(self.inner(self.words(ids))))


@pytest.mark.parametrize("tied", [True, False])
def test_equalities_grow_with_the_sum_of_the_sizes_of_a_weight(tied):
    """A table of 20 000 words has 160 000 entries: each use notes words and dimensions only."""
    model = Words(20_000, tied)
    fixed = {"words.weight", "head.weight"} if tied else set()
    ledger = _walked(model, ((torch.zeros(2, 3, dtype=torch.long),), {}), fixed).ledger
    assert sum(pairs.shape[1] for pairs in ledger.equal) < 2 * 20_000 + 1_000
    assert ledger.count < 20_000 + 1_000
