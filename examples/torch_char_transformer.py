"""A small character transformer on text that ships with Python, watched while AdamW trains it.

Run it: `python examples/torch_char_transformer.py` (minutes, offline). It lists the symmetries of
attention and of the gated units, prints what moved them, and writes `char_transformer.html`.
"""

import argparse
import pydoc_data.topics

import torch
from torch import nn

import gradbias.torch as gbt

LENGTH, BATCH = 32, 32


def text():
    """The language reference that `help()` prints, as numbers, and the size of its alphabet."""
    words = "\n".join(pydoc_data.topics.topics.values())
    alphabet = {c: k for k, c in enumerate(sorted(set(words)))}
    return torch.tensor([alphabet[c] for c in words]), len(alphabet)


class Block(nn.Module):
    """Attention and a gated unit, each behind a normalisation."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.v, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        """Add what both parts say."""
        h = self.norm1(x)
        q, k, v = (
            part(h).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Characters(nn.Module):
    """Predicts the next character."""

    def __init__(self, letters, width=64, blocks=2, heads=4):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, letters)

    def forward(self, x):
        """Logits of the next character at every place."""
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.norm(self.blocks(self.letter(x) + self.place(places))))


def loss_fn(model, batch):
    """The mean loss over all places; `batch` has one character more than the model sees."""
    logits = model(batch[:, :-1])
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def windows(data, count, draw):
    """Random stretches of text."""
    starts = torch.randint(0, len(data) - LENGTH - 1, (count, 1), generator=draw)
    return data[starts + torch.arange(LENGTH + 1)]


def main():
    """Train with the monitor on."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=1500)
    given = options.parse_args()
    torch.manual_seed(0)
    data, letters = text()
    draw = torch.Generator().manual_seed(0)
    model = Characters(letters)
    print(gbt.symmetries(model, windows(data, 2, draw)[:, :-1]), "\n")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    probe = windows(data, 16, draw)
    with gbt.Monitor(model, optimizer, loss_fn, probe, budget=0.1, batch_size=BATCH) as monitor:
        for _ in range(given.steps):
            optimizer.zero_grad()
            loss_fn(model, windows(data, BATCH, draw)).backward()
            optimizer.step()
    print("written:", monitor.report("char_transformer.html"))


if __name__ == "__main__":
    main()
