# %% [markdown]
# # Predict and check on your own data
#
# Give it a table of numbers; it says which minimum gradient descent will pick, for which nets, and
# then runs them to see.

# %%
import numpy as np
from sklearn.datasets import load_diabetes

import gradbias as gb

# %% [markdown]
# Ten features and their products, forty patients: more unknowns than equations.

# %%
table = load_diabetes()
features = table.data[:40]
products = np.stack([features[:, i] * features[:, j] for i in range(10) for j in range(i)], axis=1)
X = np.hstack([features / features.std(0), products / products.std(0)])
y = (table.target[:40] - table.target[:40].mean()) / table.target[:40].std()
problem = gb.Regression.half_mean(X, y)
print(f"{problem.n} samples, {problem.d} features, rank {problem.rank}")

# %% [markdown]
# Where would nets of different depth end, from starts of different size? No training needed.

# %%
direction = np.random.default_rng(0).normal(size=problem.d)
direction /= np.linalg.norm(direction)
print("distance of the end point to the min-norm solution")
for scale in (0.01, 0.1, 1.0):
    ends = [gb.theory.balanced_limit(problem, scale * direction, depth) for depth in (1, 2, 3)]
    print(f"  start of norm {scale:4}: " + "  ".join(f"{end.distance:.4f}" for end in ends))

# %% [markdown]
# And now with gradient descent, a finite step, and every theorem that applies.

# %%
net = gb.Deep([problem.d, problem.d, 1])
start = gb.init.balanced(net, 0.1 * direction)
setup = gb.Setup(problem, net, start, gb.Descent(lr=0.02), gb.Until(gap=1e-10, steps=200_000))
study = gb.check(setup, only="rank1.*")
print(study)
