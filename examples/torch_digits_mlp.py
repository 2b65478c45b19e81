"""A ReLU net on scikit-learn's digits, watched while SGD and AdamW train it.

Run it: `python examples/torch_digits_mlp.py` (seconds, offline). It prints what moved the
imbalance of the neurons under each optimiser, and writes a page of curves for each.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

import gradbias.torch as gbt


def digits():
    """Images as rows in [0, 1], and their labels."""
    data = load_digits()
    x = torch.tensor(data.data, dtype=torch.float32) / 16
    return x, torch.tensor(data.target)


def loss_fn(model, batch):
    """The mean loss of a batch."""
    x, y = batch
    return nn.functional.cross_entropy(model(x), y)


def train(name, steps, budget):
    """One run with the monitor on; returns the monitor."""
    torch.manual_seed(0)
    x, y = digits()
    model = nn.Sequential(
        *(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    )
    if name == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    probe = (x[:256], y[:256])  # of the training data: the noise is that of training
    with gbt.Monitor(
        model, optimizer, loss_fn, probe, every=100, budget=budget, batch_size=32
    ) as monitor:
        for _ in range(steps):
            chosen = torch.randint(0, len(x), (32,))
            optimizer.zero_grad()
            loss_fn(model, (x[chosen], y[chosen])).backward()
            optimizer.step()
    return monitor


def main():
    """Both optimisers, one after the other."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=4000)
    # A small net trains in a second: measuring it often takes a larger share than the default.
    options.add_argument("--budget", type=float, default=0.3)
    given = options.parse_args()
    for name in ("sgd", "adamw"):
        print(f"\n{name}")
        monitor = train(name, given.steps, given.budget)
        print("written:", monitor.report(f"digits_mlp_{name}.html"))


if __name__ == "__main__":
    main()
