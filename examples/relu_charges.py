# %% [markdown]
# # Charges of a ReLU network during training
#
# Every hidden ReLU neuron has a charge: the squared norm of its incoming weights minus that of its
# outgoing ones. Gradient flow keeps it, a step moves it by exactly lr²·gᵀAg.

# %%
from pathlib import Path

import numpy as np

import gradbias as gb

problem = gb.problems.digits(n=60)
net = gb.MLP([64, 16, 10], "relu")
params = gb.init.kaiming(net, key=0)
record = {"loss": gb.observe.loss, "charges": gb.observe.charges, "drift": gb.observe.charge_drift}


def run(noise):
    """Two thousand steps, with the charges and the exact sum that moves them."""
    return gb.simulate(
        gb.Setup(
            problem,
            net,
            params,
            gb.Descent(0.05, noise),
            gb.Until(steps=2000),
            record,
            save_at=np.arange(0, 2001, 50),
        )
    )


# %%
runs = {"GD": run(None), "SGD, batch 4": run(gb.Minibatch(4))}
for name, one in runs.items():
    charge = one.data[next(v for v in one.data if v.startswith("charges_"))].values
    drift = one.data[next(v for v in one.data if v.startswith("drift_"))].values
    moved = charge[-1] - charge[0]
    print(
        f"{name:13} loss {float(one.data['loss'][-1]):.4f}, "
        f"largest change of a charge {abs(moved).max():.4f}, "
        f"not explained by lr²gᵀAg {abs(moved - drift[-1]).max():.0e}"
    )

# %%
with gb.plot.style("paper"):
    ax = gb.plot.charges(runs["SGD, batch 4"], change=True)
    Path("out").mkdir(exist_ok=True)
    ax.figure.savefig("out/relu_charges.png")
