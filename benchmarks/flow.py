"""Gradient flow: 100 two-layer nets to a gap of 1e-12, against diffrax at equal tolerances."""

import functools
from collections.abc import Callable
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import gradbias as gb

from .protocol import Arm, Part, Workload

NET = gb.TwoLayer(20, 3, 100)
GAP, END, RTOL, ATOL = 1e-12, 1e4, 1e-10, 1e-12
TIMES = np.concatenate([[0.0], np.geomspace(1e-2, END, 199)])


@functools.cache
def problem() -> gb.Regression:
    """15 samples of 20 inputs and 3 outputs: labels can be fitted."""
    rng = np.random.default_rng(0)
    return gb.Regression.half_mean(rng.normal(size=(15, 20)), rng.normal(size=(15, 3)))


def balanced(seed: int) -> dict[str, Any]:
    """Layers of equal Gram matrices."""
    theta = 0.1 * np.random.default_rng(seed).normal(size=(20, 3))
    return gb.init.balanced(NET, theta, key=seed)


def gaussian(seed: int) -> dict[str, Any]:
    """Entries N(0, 0.01)."""
    return gb.init.gaussian(NET, 0.1, key=seed)


def setup(init: Callable[[int], dict[str, Any]], seed: int) -> gb.Setup:
    """One member."""
    until = gb.Until(gap=GAP, time=END)
    return gb.Setup(problem(), NET, init(seed), gb.Flow(), until, save_at=TIMES, key=seed)


class PlainDiffrax:
    """`diffeqsolve` of all parameters with an event at the gap, one by one or under vmap."""

    def __init__(self, starts: list[dict[str, Any]], solver: Any, vmap: bool):
        self.starts = {name: np.stack([s[name] for s in starts]) for name in starts[0]}
        X, Y = problem().X, problem().labels

        def loss(p: Any) -> Any:
            return jnp.sum((X @ (p["W1"] @ p["W2"]) - Y) ** 2) / (2 * len(X))

        def solve(start: Any) -> Any:
            return diffrax.diffeqsolve(
                diffrax.ODETerm(lambda t, p, _: jax.tree.map(jnp.negative, jax.grad(loss)(p))),
                solver,
                t0=0.0,
                t1=END,
                dt0=None,
                y0=start,
                saveat=diffrax.SaveAt(ts=TIMES, fn=lambda t, p, _: (loss(p), p["W1"] @ p["W2"])),
                stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
                event=diffrax.Event(lambda t, p, args, **_: loss(p) <= GAP),
                max_steps=1_000_000,
                adjoint=diffrax.ForwardMode(),
            ).ys

        self.program = jax.jit(jax.vmap(solve) if vmap else lambda all: jax.lax.map(solve, all))

    def run(self, steps: int) -> None:
        """The whole job."""
        self.path(steps)

    def path(self, steps: int) -> np.ndarray:
        """The predictors at the saves; not finite after the end."""
        with jax.enable_x64(True):
            self.loss, thetas = jax.device_get(self.program(self.starts))
        return thetas


def workloads(quick: bool) -> list[Workload]:
    """Both inits."""
    members = 10 if quick else 100

    def workload(init: Callable[[int], dict[str, Any]]) -> Workload:
        starts = [init(seed) for seed in range(members)]

        def job() -> None:
            build = functools.partial(setup, init)
            gb.sweep(build, {"seed": range(members)}, progress=False)

        def parts() -> list[Part]:
            arms = {
                f"diffrax, {name}, {way}": Arm(
                    functools.partial(PlainDiffrax, starts, solver, way == "vmap"), 1, 1
                )
                for name, solver in (("Tsit5", diffrax.Tsit5()), ("Dopri8", diffrax.Dopri8()))
                for way in ("vmap", "one by one")
            }
            return [Part("flow", arms)]

        def difference() -> float:
            theirs = PlainDiffrax(starts[:2], diffrax.Dopri8(), False).path(1)
            apart = []
            for seed, thetas in enumerate(theirs):
                run = gb.simulate(setup(init, seed), progress=False).data
                common = np.isfinite(thetas).all((1, 2)) & np.isin(TIMES, run["time"])
                ours = run["theta"].sel(time=TIMES[common]).values
                apart.append(float(np.abs(ours - thetas[common]).max()))
            return max(apart)

        return Workload(f"Flow {init.__name__}", 10, job, parts, difference, 3)

    return [workload(balanced), workload(gaussian)]
