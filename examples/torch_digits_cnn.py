"""A small convolutional net on scikit-learn's digits, watched within the default budget of 3 %.

Run it: `python examples/torch_digits_cnn.py` (a minute or two, offline). It prints what the monitor
saw and what it cost, and writes `digits_cnn.html`.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

import gradbias.torch as gbt

BATCH = 64


def digits():
    """Images of one channel in [0, 1], and their labels."""
    data = load_digits()
    x = torch.tensor(data.images, dtype=torch.float32)[:, None] / 16
    return x, torch.tensor(data.target)


def network():
    """Three convolutions and a linear layer, 66 thousand weights."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, 10)),
    )


def loss_fn(model, batch):
    """The mean loss of a batch."""
    x, y = batch
    return nn.functional.cross_entropy(model(x), y)


def steps(model, optimizer, x, y, count, key=0):
    """Plain training: nothing here knows of the monitor."""
    draw = torch.Generator().manual_seed(key)
    for _ in range(count):
        chosen = torch.randint(0, len(x), (BATCH,), generator=draw)
        optimizer.zero_grad()
        loss_fn(model, (x[chosen], y[chosen])).backward()
        optimizer.step()


def main():
    """Train with the monitor on."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=3000)
    given = options.parse_args()
    x, y = digits()
    probe = (x[:64], y[:64])  # of the training data: the noise is that of training
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    with gbt.Monitor(model, optimizer, loss_fn, probe, batch_size=BATCH) as monitor:
        steps(model, optimizer, x, y, given.steps)
    print("written:", monitor.report("digits_cnn.html"))


if __name__ == "__main__":
    main()
