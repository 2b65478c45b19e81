"""A mis-scaled net on scikit-learn's digits: nothing, warm-up, balance or equilibrate?

Every arm gets its best learning rate of one grid, for SGD and for AdamW, from two kinds of start:
torch's own initialisation and He's, both with the layers' weights multiplied by 4, 1 and ¼. The
answer depends on the start, which is why both are here. Runs offline, in a minute or two.
"""

import argparse
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import gradbias.torch as gbt

STARTS = ("default", "he")
ARMS = ("none", "warm-up", "balance", "equilibrate")
SCALES = (4.0, 1.0, 0.25)
RATES = {"SGD": 0.02 * 2.0 ** np.arange(6), "AdamW": 0.002 * 2.0 ** np.arange(5)}
BATCH = 32

Data = tuple[torch.Tensor, torch.Tensor]


class Row(NamedTuple):
    """One arm at its best learning rate."""

    optimizer: str
    arm: str
    lr: float
    loss: float  # on all data, mean over seeds
    error: float  # its standard error
    sharpness: float  # at the start


def digits() -> Data:
    """1797 images of 8 × 8 pixels, between −1 and 1."""
    X, y = load_digits(return_X_y=True)
    return torch.tensor(X / 8 - 1, dtype=torch.float32), torch.tensor(y)


def net(start: str, seed: int) -> nn.Sequential:
    """A ReLU net whose layers have the wrong scales."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        *(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    )
    with torch.no_grad():
        for layer, scale in zip((0, 2, 4), SCALES, strict=True):
            if start == "he":
                nn.init.kaiming_normal_(model[layer].weight, nonlinearity="relu")
                model[layer].bias.zero_()
            model[layer].weight *= scale
    return model


def loss_fn(model: nn.Module, batch: Data) -> torch.Tensor:
    """The mean cross-entropy."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def prepared(start: str, arm: str, seed: int, probe: Data) -> nn.Sequential:
    """Where an arm begins: the same function for all of them."""
    model = net(start, seed)
    if arm == "balance":
        gbt.balance(model)
    if arm == "equilibrate":
        gbt.equilibrate(model, loss_fn, probe)
    return model


def trained(model: nn.Module, data: Data, name: str, lr: float, steps: int, warm: int) -> float:
    """The loss on all data after training; infinite where it blew up."""
    kind = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW}[name]
    optimizer = kind(model.parameters(), lr=lr)
    draw = torch.Generator().manual_seed(0)
    for k in range(steps):
        optimizer.param_groups[0]["lr"] = lr * min(1.0, (k + 1) / max(warm, 1))
        chosen = torch.randint(0, len(data[0]), (BATCH,), generator=draw)
        optimizer.zero_grad()
        loss_fn(model, (data[0][chosen], data[1][chosen])).backward()
        optimizer.step()
    with torch.no_grad():
        final = float(loss_fn(model, data))
    return final if np.isfinite(final) else np.inf


def compare(start: str, steps: int, seeds: int) -> list[Row]:
    """All arms with both optimisers, from one kind of start."""
    data = digits()
    probe = (data[0][:256], data[1][:256])
    rows = []
    for arm in ARMS:
        begin = [prepared(start, arm, seed, probe) for seed in range(seeds)]
        sharp = float(np.mean([gbt.sharpness(m, loss_fn, probe).value for m in begin]))
        warm = steps // 4 if arm == "warm-up" else 0
        for name, rates in RATES.items():
            losses = np.array(
                [[_copy_trained(m, data, name, lr, steps, warm) for m in begin] for lr in rates]
            )
            best = int(np.argmin(losses.mean(1)))
            error = float(losses[best].std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else np.nan
            loss = float(losses[best].mean())
            rows.append(Row(name, arm, float(rates[best]), loss, error, sharp))
    return sorted(rows, key=lambda row: row.optimizer, reverse=True)


def _copy_trained(
    begin: nn.Module, data: Data, name: str, lr: float, steps: int, warm: int
) -> float:
    model = net("default", 0)
    model.load_state_dict(begin.state_dict())
    return trained(model, data, name, lr, steps, warm)


def main() -> None:
    """Print a table for each kind of start."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--start", choices=STARTS, action="append")
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    for start in given.start or STARTS:
        print(f"\n{start} initialisation, layers times {SCALES}")
        print("optimiser  start of the arm  best lr      train loss  sharpness")
        for row in compare(start, given.steps, given.seeds):
            loss = f"{row.loss:.3f} ± {row.error:.3f}"
            print(
                f"{row.optimizer:<10} {row.arm:<16} {row.lr:>8.3g} {loss:>15} "
                f"{row.sharpness:>10.3g}"
            )


if __name__ == "__main__":
    main()
