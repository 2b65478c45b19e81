"""The rival in plain jax: `jit`, `grad`, `scan`, and `vmap` or `lax.map` over the members.

Written as a good engineer writes it: the predictor is formed first and from its narrow end, which
is several times faster than data through the layers; batches are drawn beforehand, which costs
nothing; steps between two saves are one loop. The width is not reduced.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gradbias as gb
from gradbias.numerics import counter_rng

from .draws import batches, dynamics_of

Batch = Callable[[Any, Any], tuple[Any, Any]]  # (what a member has, step) → X and Y


class PlainJax:
    """Descent of weight·‖Xθ − Y‖² for several members; loss and θ are recorded.

    Args:
        setups: what gradbias runs, a member each; one data set and learning rate for all.
        batch: X and Y of a step; all data if None.
        own: arrays that differ from member to member, for `batch`.
        weight: the factor in front of the sum of squares of a step.
        vmap: members side by side, or one after the other.
    """

    def __init__(
        self,
        setups: Sequence[gb.Setup],
        vmap: bool,
        batch: Batch | None = None,
        own: Any = (),
        weight: float | None = None,
    ):
        problem: Any = setups[0].problem
        full = None if not hasattr(problem, "X") else data_of(setups[0])
        form = FORMS[type(setups[0].net)]
        lr, whole = float(dynamics_of(setups[0]).lr), float(problem.weight)
        seen = batch or (lambda own, k: full)
        factor = whole if weight is None else weight

        def loss(params: Any, X: Any, Y: Any, weight: float) -> Any:
            return weight * jnp.sum((X @ form(params) - Y) ** 2)

        def step(own: Any, k: Any, params: Any) -> Any:
            slope = jax.grad(loss)(params, *seen(own, k), factor)
            return jax.tree.map(lambda p, g: p - lr * g, params, slope)

        def member(own: Any, params: Any, first: Any, length: Any, saves: int) -> Any:
            def save(carry: Any, _: Any) -> Any:
                k, params = carry
                params = jax.lax.fori_loop(k, k + length, functools.partial(step, own), params)
                kept = () if full is None else (loss(params, *full, whole), form(params))
                return (k + length, params), kept

            (_, params), kept = jax.lax.scan(save, (first, params), None, length=saves)
            return params, kept

        def members(own: Any, params: Any, first: Any, length: Any, saves: int) -> Any:
            one = lambda own, params: member(own, params, first, length, saves)  # noqa: E731
            if vmap:
                return jax.vmap(one)(own, params)
            return jax.lax.map(lambda both: one(*both), (own, params))

        self.program = jax.jit(members, static_argnums=4)
        self.form = form
        self.own, self.k, self.vector = own, 0, problem.vector
        self.params = {n: np.stack([s.params[n] for s in setups]) for n in setups[0].params}

    def run(self, steps: int, saves: int | None = None) -> None:
        """Take some steps with every member; a save every hundred steps."""
        count = max(1, steps // 100) if saves is None else saves
        with jax.enable_x64(True):
            params, kept = self.program(self.own, self.params, self.k, steps // count, count)
            self.params, self.recorded = jax.device_get((params, kept))
        self.k += steps

    def path(self, steps: int) -> np.ndarray:
        """The predictors of all members, at the start and after each step."""
        thetas = [self.thetas()]
        for _ in range(steps):
            self.run(1)
            thetas.append(self.thetas())
        return np.stack(thetas, axis=1)

    def thetas(self) -> np.ndarray:
        """The predictors, in the shape that gradbias gives them."""
        with jax.enable_x64(True):
            thetas = np.asarray(jax.vmap(self.form)(self.params))
        return thetas[..., 0] if thetas.ndim == 3 and self.vector else thetas


def full_batch(setups: Sequence[gb.Setup], vmap: bool) -> PlainJax:
    """Gradient descent."""
    return PlainJax(setups, vmap)


def minibatch(setups: Sequence[gb.Setup], vmap: bool, steps: int = 200) -> PlainJax:
    """SGD on the batches, and the label noise, that gradbias draws; from `steps` on they repeat."""
    X, Y = data_of(setups[0])
    rows, noise = batches(setups, steps)

    def batch(own: Any, k: Any) -> tuple[Any, Any]:
        rows, noise = own
        chosen = rows[k % steps]
        labels = jnp.asarray(Y)[chosen]
        if noise is not None:
            labels = labels + noise[k % steps].reshape(labels.shape)
        return jnp.asarray(X)[chosen], labels

    weight = float(setups[0].problem.weight)  # pyright: ignore[reportAttributeAccessIssue]
    return PlainJax(setups, vmap, batch, (rows, noise), weight * len(X) / rows.shape[-1])


def fresh(setup: gb.Setup, drawn_by_jax: bool) -> PlainJax:
    """SGD of one member on samples that are new at every step."""
    problem: Any = setup.problem
    noise = dynamics_of(setup).noise
    size, (inputs, outputs) = noise.batch_size, problem.latent
    roots = problem.root, problem.root_eps, problem.theta_star

    def own_draws(own: Any, k: Any) -> tuple[Any, Any]:
        first, second = jax.random.split(jax.random.fold_in(jax.random.key(0), k))
        x = jax.random.normal(first, (size, inputs)) @ roots[0]
        return x, x @ roots[2] + jax.random.normal(second, (size, outputs)) @ roots[1]

    weight = float(problem.weight) / size
    if drawn_by_jax:
        return PlainJax([setup], False, own_draws, np.zeros(1), weight)
    drawn = [noise.batch(problem, counter_rng.seed(setup.key), k) for k in range(200)]
    same = np.stack([b.x for b in drawn])[None], np.stack([b.y for b in drawn])[None]
    return PlainJax([setup], False, lambda own, k: (own[0][k], own[1][k]), same, weight)


def data_of(setup: gb.Setup) -> tuple[np.ndarray, np.ndarray]:
    """X and Y; one label a row is a vector where the predictor is one."""
    problem: Any = setup.problem
    chain = not isinstance(setup.net, (gb.Rank1, gb.Diagonal))
    return problem.X, np.ascontiguousarray(problem.labels if chain else problem.labels[:, 0])


def _chain(params: dict[str, Any]) -> Any:
    layers = [params[f"W{i}"] for i in range(1, len(params) + 1)]
    theta = layers.pop()
    while layers:
        theta = layers.pop() @ theta
    return theta


def _rank1(params: dict[str, Any]) -> Any:
    return jnp.prod(jnp.sum(params["u"] * params["v"], axis=-1)) * params["v1"]


def _diagonal(params: dict[str, Any]) -> Any:
    return params["u"] ** 2 - params["v"] ** 2


FORMS: dict[type, Callable[[dict[str, Any]], Any]] = {
    gb.Rank1: _rank1,
    gb.Deep: _chain,
    gb.TwoLayer: _chain,
    gb.Diagonal: _diagonal,
}
