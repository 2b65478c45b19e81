"""Does a jump to the noise equilibrium replace warm-up? Four ways to train at a large step.

A linear autoencoder with one hidden unit on fresh samples y = vvᵀx + ε in 50 dimensions, from
Kaiming's start, whose second layer is 50 times as large (squared) as its first. At lr = 0.008
SGD diverges from there. Warm-up, a jump along the symmetry to the noise equilibrium, and plain
balancing of norms each make it stable. Run it with `python examples/warmup.py`.
"""

import numpy as np

import gradbias as gb
from gradbias import symmetry

SIZE, BATCH, SAMPLES = 50, 2, 2000
LR, SMALL, WARM, STEPS = 0.008, 0.001, 5000, 15_000
NET = gb.TwoLayer(d=SIZE, k=SIZE, width=1)
RECORD = {"loss": gb.observe.loss, "trace": gb.observe.hessian_trace}
ARMS = ("plain", "warm-up", "jump", "balance")
GRID = LR * 2.0 ** np.arange(-2, 3.5, 0.5)  # of learning rates for `largest`


def problem(key):
    """Fresh samples y = vvᵀx + ε."""
    v = np.random.default_rng(key).standard_normal(SIZE)
    v /= np.linalg.norm(v)
    return gb.Population(np.eye(SIZE), np.outer(v, v), np.eye(SIZE))


def loss(params, x, y):
    """Of one sample."""
    return ((x @ params["W1"] @ params["W2"] - y) ** 2).sum()


def samples(key):
    """What a jump may look at."""
    rng = np.random.default_rng([key, 1])
    X = rng.standard_normal((SAMPLES, SIZE))
    return X, X @ problem(key).V.T + rng.standard_normal((SAMPLES, SIZE))


def start(arm, key, scaled=False):
    """Kaiming's start, or Xavier's, moved along the symmetry or not; outputs are the same."""
    xavier, kaiming = gb.init.xavier(NET, key=key), gb.init.kaiming(NET, key=key, gain=1.0)
    params = xavier if scaled else kaiming
    if arm == "jump":
        return symmetry.equilibrate(params, NET.symmetries(), loss, samples(key)).params
    if arm == "balance":
        return symmetry.balance(params, NET.symmetries()).params
    return params


def setup(arm, key, lr=LR, steps=STEPS, scaled=False):
    """One run; warm-up takes small steps first."""
    rate = gb.dynamics.piecewise({0: SMALL, WARM: lr}) if arm == "warm-up" else lr
    return gb.Setup(
        problem(key),
        NET,
        start(arm, key, scaled),
        gb.Descent(rate, gb.Minibatch(BATCH)),
        gb.Until(steps=steps),
        RECORD,
        np.linspace(0, steps, 4).astype(int),
        key,
    )


def trained(run):
    """Did it stay finite, and does it end below the loss of its start?"""
    loss = run.data["loss"].values
    return bool(np.all(np.isfinite(loss)) and loss[-1] < loss[0])


def largest(arm, key, scaled=False, steps=2000):
    """The largest learning rate of the grid up to which all train; nan if none does."""
    best = float("nan")
    for lr in GRID:
        if not trained(gb.simulate(setup(arm, key, lr, steps, scaled), progress=False)):
            break
        best = float(lr)
    return best


def table(keys=range(3)):
    """All arms: how they ended, and Tr of the Hessian and loss at first and last."""
    found = {}
    for arm in ARMS:
        for key in keys:
            run = gb.simulate(setup(arm, key), progress=False)
            trace, value = (run.data[name].values for name in ("trace", "loss"))
            found[arm, key] = (str(run.status), trained(run), trace[[0, -1]], value[[0, -1]])
    return found


VERDICT = """
Imbalance, not a missing warm-up, is what breaks the plain run: all three remedies remove it, and
all end at the same sharpness, 4 x 50 = 200. The jump is not better than balancing norms, which
needs no data: at this start the misfit is part of the noise, and the jump goes further than it
should. From Xavier's start, which is balanced already, neither allows a larger step.
"""


def main():
    """Print the table, the largest stable learning rates and what follows."""
    print(f"{'arm':9}seed  {'Tr Hessian':>18}  {'loss':>16}  outcome at lr = {LR}")
    for (arm, key), (status, _, trace, value) in table().items():
        numbers = f"{trace[0]:8.0f} to {trace[1]:6.0f}  {value[0]:6.1f} to {value[1]:6.1f}"
        print(f"{arm:9}{key:4}  {numbers}  {status}")
    for name, scaled in (("Kaiming", False), ("Xavier", True)):
        for arm in ("plain", "jump", "balance"):
            rates = ", ".join(f"{largest(arm, key, scaled):.4f}" for key in range(3))
            print(f"largest stable lr, {name}, {arm}: {rates}")
    print(VERDICT)


if __name__ == "__main__":
    main()
