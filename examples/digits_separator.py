# %% [markdown]
# # Which separator of two handwritten digits
#
# Gradient flow on a linear predictor, with a proof of how near it is to the best margin.

# %%
import numpy as np

import gradbias as gb

problem = gb.problems.digit_classes(classes=(3, 8))
print(problem.separability.sentence)
best = problem.max_margin()
print(f"largest margin {best.gamma:.4f}, {np.sum(best.alpha > 0)} support vectors")

# %%
net = gb.Deep([problem.d, 1])
run = gb.simulate(
    gb.Setup(
        problem,
        net,
        {"W1": np.zeros((problem.d, 1))},
        gb.Flow(clock="loss"),
        gb.Until(log_time=30),
        record=[gb.observe.theta, gb.observe.certificate(), gb.observe.dual_weights],
        save_at=np.arange(0.0, 31.0, 5.0),
    )
)

# %%
for row, log_time in enumerate(run.data["log_time"].values):
    lower = float(run.data["certificate_lower"][row])
    upper = float(run.data["certificate_upper"][row])
    print(f"log t = {log_time:4.0f}: the best margin is between {lower:.4f} and {upper:.4f}")
weights = np.sort(run.data["dual_weights"].values[-1])[::-1]
few = int(np.sum(np.cumsum(weights) < 0.9)) + 1
print(f"{few} of {problem.n} samples carry 90 % of the gradient")
