"""The SDE of label-noise SGD: 1000 diagonal nets × 10 000 steps, against a scan written by hand."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gradbias as gb
from gradbias.numerics import counter_rng

from .protocol import Arm, Part, Workload

NET, N = gb.Diagonal(20), 10
LR, DT, STD = 1e-3, 1e-4, 1.0
SAVES = 100


@functools.cache
def problem() -> gb.Regression:
    """Ten Gaussian samples of a sparse teacher."""
    return gb.problems.sparse(n=N, d=20, nonzero=3, key=0, loss="half_mean")


def setup(seed: int, steps: int = 10_000) -> gb.Setup:
    """One member."""
    moves = gb.Diffusion(LR, gb.LabelNoise(STD), DT)
    saves = DT * np.round(np.linspace(0, steps, SAVES + 1))
    until = gb.Until(time=steps * DT)
    start = gb.init.constant(NET, 1.0)
    return gb.Setup(problem(), NET, start, moves, until, save_at=saves, key=seed)


class HandWritten:
    """Euler and Maruyama in a scan: one product with the Jacobian for drift and noise together.

    Normal numbers are drawn for all steps between two saves at once. Label noise moves the
    residual, so that a step needs no square root of a covariance.
    """

    def __init__(self, members: int, vmap: bool, normals: np.ndarray | None = None):
        self.normals, self.members = normals, members
        X, y = problem().X, problem().labels[:, 0]
        start = {"u": np.ones(20), "v": np.ones(20)}
        outputs = lambda p: X @ (p["u"] ** 2 - p["v"] ** 2)  # noqa: E731

        def step(p: Any, z: Any) -> tuple[Any, Any]:
            f, back = jax.vjp(outputs, p)
            move = back(((f - y) * DT + STD * np.sqrt(LR * DT) * z) / len(X))[0]
            p = jax.tree.map(lambda a, m: a - m, p, move)
            return p, None

        def saved(p: Any, zs: Any) -> tuple[Any, Any]:
            p, _ = jax.lax.scan(step, p, zs)
            return p, (jnp.sum((outputs(p) - y) ** 2) / (2 * len(X)), p["u"] ** 2 - p["v"] ** 2)

        def given(zs: Any) -> Any:
            return jax.lax.scan(saved, start, zs)[1]

        def drawn(key: Any, length: int) -> Any:
            def stretch(p: Any, key: Any) -> tuple[Any, Any]:
                return saved(p, jax.random.normal(key, (length, N)))

            return jax.lax.scan(stretch, start, jax.random.split(key, SAVES))[1]

        def program(keys: Any, length: int) -> Any:
            one = functools.partial(drawn, length=length)
            return jax.vmap(one)(keys) if vmap else jax.lax.map(one, keys)

        self.given, self.program = jax.jit(jax.vmap(given)), jax.jit(program, static_argnums=1)

    def run(self, steps: int) -> None:
        """Take some steps with every member, from the start."""
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(0), self.members)
            self.recorded = jax.device_get(self.program(keys, steps // SAVES))

    def path(self, steps: int) -> np.ndarray:
        """The predictors after each step along given numbers."""
        assert self.normals is not None, "a path needs normal numbers"
        with jax.enable_x64(True):
            return np.asarray(self.given(self.normals[:, :steps, None])[1])


def workloads(quick: bool) -> list[Workload]:
    """All members as one sweep."""
    members, steps = (100, 1000) if quick else (1000, 10_000)

    def job() -> None:
        gb.sweep(functools.partial(setup, steps=steps), {"seed": range(members)}, progress=False)

    def parts() -> list[Part]:
        ways = {"vmap": True, "one by one": False}
        arms = {
            f"a scan by hand, {name}": Arm(
                functools.partial(HandWritten, members, vmap), steps, 1000
            )
            for name, vmap in ways.items()
        }
        return [Part("steps", arms)]

    return [Workload("Diffusion", 3, job, parts, difference, 3)]


def difference(steps: int = 200) -> float:
    """Along the normal numbers of gradbias, for two members."""
    apart = []
    for seed in (0, 1):
        key = counter_rng.seed(seed)
        normals = [
            np.ravel(counter_rng.normal(counter_rng.stream(key, k, "Diffusion"), (N, 1)))
            for k in range(steps)
        ]
        short = setup(seed).replace(
            until=gb.Until(time=steps * DT),
            record=[gb.observe.theta],
            save_at=DT * np.arange(steps + 1),
        )
        ours = gb.simulate(short, progress=False).data["theta"].values[1:]
        theirs = HandWritten(1, True, np.array([normals])).path(steps)[0]
        apart.append(float(np.abs(ours - theirs).max()))
    return max(apart)
