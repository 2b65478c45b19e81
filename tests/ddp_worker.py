"""A small training run under a monitor, alone or as one of several processes (DDP)."""

import torch
from torch import nn

EXTRAS = ("equilibrium", "spectrum", "ranks", "trace")
STEPS = 12


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(1).mean()


def case():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    return model.double(), (torch.randn(64, 4).double(), torch.randn(64, 2).double())


def chosen(step):
    """The samples of a step, of all processes together."""
    return torch.randint(0, 64, (8,), generator=torch.Generator().manual_seed(step))


def run(rank, world, folder):
    """Every process takes its share of each batch; what rank 0 saw goes into a file."""
    import gradbias.torch as gbt

    torch.set_num_threads(1)
    plain, batch = case()
    model = plain
    if world > 1:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world
        )
        model = nn.parallel.DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5, weight_decay=0.01)
    monitor = gbt.Monitor(
        *(model, optimizer, squared, batch),
        **{"every": 3, "budget": 1e9, "exact": True, "extras": EXTRAS},
        batch_size=8 // world,
    )
    for step in range(STEPS):
        mine = chosen(step)[rank::world]
        optimizer.zero_grad()
        squared(model, (batch[0][mine], batch[1][mine])).backward()
        optimizer.step()
    monitor.finish()
    seen = {
        "history": monitor.history,
        "charge": {name: torch.from_numpy(c) for name, c in monitor.charge.items()},
        "arrays": {n: torch.from_numpy(a) for n, a in monitor.readings.arrays.items()}
        if rank == 0
        else {},
        "state": monitor.state_dict(),
        "theta": [p.detach() for p in plain.parameters()],
    }
    torch.save(seen, f"{folder}/{world}-{rank}.pt")
    if world > 1:
        torch.distributed.destroy_process_group()
