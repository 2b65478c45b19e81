# %% [markdown]
# # Label noise finds a sparse solution
#
# Fewer samples than unknowns, three of which matter. Gradient descent on u² − v² from a start of
# size one forgets nothing of it and misses the truth; the same net with noise on its labels keeps
# moving after the loss is zero, and finds it. The limiting flow says where it will be, and when.

# %%
import numpy as np

import gradbias as gb

problem = gb.problems.sparse(n=14, d=30, nonzero=3, entries="gaussian", key=0)
truth = gb.problems.sparse_teacher(30, 3, key=0)
net = gb.Diagonal(30)
start = gb.init.constant(net, 1.0)
T, LR, DELTA = 5.0, 0.004, 1.0


def error(theta):
    """Squared distance to the truth."""
    return float(np.sum((np.ravel(theta) - truth) ** 2))


# %% [markdown]
# Without noise: where gradient flow ends, and the least ℓ1 norm.

# %%
plain = gb.theory.diagonal_limit(problem, start)
print(f"gradient flow         {error(plain.theta):.3f}")
print(f"weighted l1 (LP)      {error(gb.theory.diagonal.weighted_l1(problem)):.3f}")

# %% [markdown]
# With noise, in the limit of small steps: integrated in milliseconds.

# %%
u, v = gb.theory.diagonal.limiting_flow(problem, start, [0, 1, 2, T], DELTA**2)
for t, ut, vt in zip([0, 1, 2, T], u, v, strict=True):
    print(f"limiting flow, t = {t:<4} {error(ut**2 - vt**2):.3f}")

# %% [markdown]
# And as people run it: label-noise SGD, batch 1, three hundred thousand steps.

# %%
steps = round(T / LR**2)
noisy = gb.Descent(LR, gb.LabelNoise(DELTA, batch_size=1))
run = gb.simulate(gb.Setup(problem, net, start, noisy, gb.Until(steps=steps), save_at=[0, steps]))
print(f"label-noise SGD       {error(run.theta):.3f}  after {steps} steps")
