"""A small equinox net on handwritten digits, after zero loss.

Once the digits are fitted, label-noise SGD still moves: along the manifold of minimisers, slowly.
Where to is computed without taking a step, and then compared with an ensemble that takes them.

    python examples/digits_after_zero_loss.py
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gradbias as gb
from gradbias.theory import manifold

NOISE = gb.LabelNoise(1.0, batch_size=1)
T = 0.02  # in the time k·lr² of the limit: 200 steps with lr = 0.01
MEMBERS = 64


class Row(NamedTuple):
    """What an ensemble did, measured along the prediction."""

    lr: float
    steps: int
    cosine: float
    cosine_error: float
    speed: float
    standard_error: float


def fitted(digits: int = 8) -> tuple[gb.Regression, gb.Net, Any]:
    """Even digits against odd ones: the data, a 64-6-1 net, and where gradient flow ends."""
    data = gb.problems.digits(digits, loss="half_mean")
    even = np.where(data.Y.argmax(axis=1) % 2 == 0, 1.0, -1.0)
    problem = gb.Regression.half_mean(data.X, even)
    with gb.float64():  # equinox draws its parameters in double precision here
        model = eqx.nn.MLP(64, "scalar", 6, 1, activation=jnp.tanh, key=jax.random.key(0))
        params, static = eqx.partition(model, eqx.is_inexact_array)
    net = gb.nets.general(lambda p, X: jax.vmap(eqx.combine(p, static))(X))
    landed = manifold.limit_point(params, residual=manifold.residuals(problem, net))
    assert landed.info.converged, landed.info.message
    return problem, net, landed.x


def flat(params: Any) -> np.ndarray:
    """All parameters as one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(params)])


def ensemble(problem: gb.Regression, net: gb.Net, start: Any, lr: float) -> np.ndarray:
    """(members, D) how far SGD has moved along the manifold after the time T: Φ(x_k) − x_0."""
    steps = int(manifold.limit_to_steps(T, lr))
    residual, moved = manifold.residuals(problem, net), []
    for member in range(MEMBERS):
        dynamics, until = gb.Descent(lr, NOISE), gb.Until(steps=steps)
        setup = gb.Setup(problem, net, start, dynamics, until, save_at=[steps], key=member)
        end = gb.simulate(setup, progress=False).final
        # x_k itself is a distance of order √lr away from the manifold, and Φ(x_k) is on it.
        moved.append(flat(manifold.limit_point(end, residual=residual).x) - flat(start))
    return np.stack(moved)


def along(moved: np.ndarray, predicted: np.ndarray, lr: float) -> Row:
    """The direction of the mean, and its length along the prediction, with standard errors."""
    length = np.linalg.norm(predicted)
    speeds = moved @ predicted / length**2
    across = moved / length - speeds[:, None] * predicted / length
    mean, count = across.mean(axis=0), len(moved)
    # The scatter of the mean is across the prediction, too: taken off, or it would look like it.
    scatter = across.var(axis=0, ddof=1).sum() / count
    tangent = np.sqrt(max(mean @ mean - scatter, 0.0)) / speeds.mean()
    error = np.sqrt(scatter) / speeds.mean()
    cosine = 1 / np.hypot(1, tangent)
    return Row(
        lr,
        int(manifold.limit_to_steps(T, lr)),
        cosine,
        error**2 / 2 + tangent * error,
        speeds.mean(),
        speeds.std(ddof=1) / count**0.5,
    )


def main() -> list[Row]:
    """Print the prediction and what SGD did."""
    problem, net, start = fitted()
    residual = manifold.residuals(problem, net)
    drift = flat(manifold.label_noise_drift(start, NOISE, residual=residual))
    limit = gb.Setup(problem, net, start, gb.Limit(NOISE), gb.Until(time=T), save_at=[T])
    predicted = flat(gb.simulate(limit, progress=False).final) - flat(start)
    turn = predicted @ drift / np.linalg.norm(predicted) / np.linalg.norm(drift)
    print(f"{problem.n} digits, {drift.size} parameters, loss 0; |drift| = "
          f"{np.linalg.norm(drift):.3f} per unit of k lr^2")  # fmt: skip
    print(f"after T = {T}: moved by {np.linalg.norm(predicted):.4f}, cosine with the first drift "
          f"{turn:.4f}")  # fmt: skip
    print(f"\n{'lr':>6}{'steps':>8}{'cosine':>18}{'speed / predicted':>22}")
    rows = [along(ensemble(problem, net, start, lr), predicted, lr) for lr in (0.01, 0.005)]
    for row in rows:
        print(f"{row.lr:>6}{row.steps:>8}{row.cosine:>10.4f} ± {row.cosine_error:.4f}"
              f"{row.speed:>13.3f} ± {row.standard_error:.3f}")  # fmt: skip
    return rows


if __name__ == "__main__":
    main()
