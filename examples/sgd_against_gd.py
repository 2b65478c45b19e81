# %% [markdown]
# # SGD against GD at many scales, with the theory line
#
# From a balanced start a rank-1 net ends farther from the min-norm solution the larger its start;
# SGD ends nearer than GD. Both lines are predicted without a step.

# %%
from pathlib import Path

import numpy as np

import gradbias as gb

problem = gb.problems.gaussian(n=10, d=30, informative=6, key=0)
net = gb.Rank1(d=30, depth=3, width=10)
direction = np.random.default_rng(0).normal(size=30)
direction /= np.linalg.norm(direction)
LR, BATCH = 1e-3, 2


def build(scale, how, seed):
    """One member: GD, or SGD with its own draws."""
    noise = gb.Minibatch(BATCH) if how == "SGD" else None
    return gb.Setup(
        problem,
        net,
        gb.init.balanced(net, scale * direction),
        gb.Descent(LR, noise),
        gb.Until(gap=1e-16, steps=60_000),
        record={"far": gb.observe.distance_to(problem.min_norm)},
        save_at=[0, 60_000],
        key=seed,
    )


# %%
scales = np.geomspace(0.1, 4, 6)
runs = gb.sweep(build, {"scale": scales, "how": ["GD", "SGD"], "seed": range(8)})
flow = [gb.theory.balanced_limit(problem, s * direction, depth=5).distance for s in scales]
told = [
    np.linalg.norm(
        gb.theory.sgd_limit(problem, s * direction, 5, LR, BATCH).theta - problem.min_norm
    )
    for s in scales
]

# %%
with gb.plot.style("paper"):
    ax = None
    for how, colour in {"GD": gb.plot.BLUE, "SGD": gb.plot.ORANGE}.items():
        one = runs.sel(how=how)
        ax = gb.plot.sweep(one, y="far_end", ax=ax, label=how, color=colour, ls="")
    ax.plot(scales, flow, color=gb.plot.BLACK, label="predicted, gradient flow")
    ax.plot(scales, told, "--", color=gb.plot.BLACK, label="predicted, SGD")
    ax.set(xlabel="norm of the start", ylabel="distance to the min-norm solution")
    ax.legend()
    Path("out").mkdir(exist_ok=True)
    ax.figure.savefig("out/sgd_against_gd.png")
print("SGD, simulated:", runs["far_end"].sel(how="SGD").mean("seed").values.round(4))
print("SGD, predicted:", np.round(told, 4))
