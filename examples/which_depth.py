# %% [markdown]
# # Which depth for which bias
#
# The same start, other numbers of layers: how far from the min-norm solution does gradient flow
# end, and how sparse is it? Everything here is computed from potentials; nothing is trained.

# %%
import numpy as np

import gradbias as gb

problem = gb.problems.gaussian(n=20, d=60, informative=4, key=2)
direction = np.random.default_rng(1).normal(size=60)
direction /= np.linalg.norm(direction)

# %%
print(f"distance to the min-norm solution (norm of that: {np.linalg.norm(problem.min_norm):.3f})")
print("start     1 layer  2 layers  3 layers  5 layers  infinitely many")
for scale in (0.001, 0.01, 0.1, 1.0, 10.0):
    ends = [
        gb.theory.balanced_limit(problem, scale * direction, depth).distance
        for depth in (1, 2, 3, 5, float("inf"))
    ]
    print(f"{scale:<8g}" + "".join(f"{end:10.4f}" for end in ends))

# %% [markdown]
# A diagonal net turns the knob between ℓ1 and ℓ2 with the size of its start.

# %%
print("\ndiagonal net, u = v = alpha: l1 norm, entries above 1 % of the largest")
for alpha in (0.001, 0.01, 0.1, 1.0):
    theta = gb.theory.diagonal_limit(
        problem, {"u": np.full(60, alpha), "v": np.full(60, alpha)}
    ).theta
    size = np.abs(theta)
    print(f"{alpha:<8g}{size.sum():10.4f}{np.sum(size > 0.01 * size.max()):8d}")
