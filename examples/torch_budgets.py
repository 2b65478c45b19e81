"""What decides the size of each layer of a small transformer, under Muon and AdamW.

Run it: `python examples/torch_budgets.py` (a minute, offline). Muon trains the matrices of the
block and AdamW all the rest, as people do. Two tables say of every tensor how much of the ball of
its weight decay it uses, where its noise floor is, and how much of its gradient is signal.
"""

import argparse

import torch
from torch_char_transformer import BATCH, Characters, loss_fn, text, windows

import gradbias.torch as gbt


def optimizers(model, decay):
    """Muon for the matrices of the blocks, AdamW for embeddings, gains, biases and head."""
    inner = [p for p in model.blocks.parameters() if p.ndim == 2]
    chosen = {id(p) for p in inner}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return (
        torch.optim.Muon(inner, lr=0.02, weight_decay=decay),
        torch.optim.AdamW(rest, lr=5e-3, weight_decay=decay),
    )


def main():
    """Train, and look at the budgets after the last step."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=600)
    options.add_argument("--decay", type=float, default=0.5)
    given = options.parse_args()
    torch.manual_seed(0)
    data, letters = text()
    draw = torch.Generator().manual_seed(0)
    model = Characters(letters, width=32, blocks=1)
    both = optimizers(model, given.decay)
    before = {}
    loss = torch.zeros(())
    for step in range(given.steps):
        model.zero_grad()
        loss = loss_fn(model, windows(data, BATCH, draw))
        loss.backward()
        if step == given.steps - 1:  # for the update of Muon, which has no record of it
            before = {name: p.detach().clone() for name, p in model.named_parameters()}
        for optimizer in both:
            optimizer.step()
    print(f"loss {loss:.3f} after {given.steps} steps\n")
    for optimizer in both:
        budget = gbt.budget(model, optimizer, before)
        print(f"{type(optimizer).__name__}\n{budget}\n")
        print("\n".join(budget.sentences()), "\n")


if __name__ == "__main__":
    main()
