"""The gradient of a net: finite, true, and of every parameter."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..nets import Net
from ..numerics.host_rng import generator
from ..numerics.types import PyTree
from ..problems import Batch, Population, Problem
from ._report import Notes, said

STEP = 1e-6  # of finite differences, relative to the parameters
DIFFERENT = 1e-4  # a relative error that finite differences do not have
POINTS = 3  # random points besides the given one: a dead ReLU unit lives at another


def check_gradient(notes: Notes, net: Net, params: PyTree, problem: Problem, key: int) -> None:
    """The gradient of the loss against central differences in random directions."""
    batch = None
    if isinstance(problem, Population):
        x, y = problem.sample(32, key)
        batch = Batch(x=x, y=y)
    flat, shaped = ravel_pytree(jax.tree.map(jnp.asarray, params))
    loss = jax.jit(jax.value_and_grad(lambda flat: problem.net_loss(net, shaped(flat), batch)))
    try:
        value, grads = (np.asarray(part) for part in loss(flat))
    except Exception as error:  # whatever the user's code raises is a finding
        notes.find(f"the gradient of the loss fails: {said(error)}")
        return
    if not np.isfinite(value):
        notes.find(f"the loss is {value} at these params")
        return
    if not np.isfinite(grads).all():
        leaves = jax.tree_util.tree_leaves_with_path(shaped(jnp.asarray(grads)))
        names = [jax.tree_util.keystr(path) for path, leaf in leaves if not np.isfinite(leaf).all()]
        notes.find(f"the gradient is not finite in params{', params'.join(names)}")
        return
    if notes.single:  # finite differences need all digits
        return
    size = STEP * max(float(np.abs(flat).max()), 1e-3)
    rng = generator(key, "check_net directions")
    for direction in rng.standard_normal((2, len(grads))):
        up, down = (float(loss(flat + s * size * direction)[0]) for s in (1, -1))
        slope = (up - down) / (2 * size)
        claimed = float(grads @ direction)
        rounding = 1e-14 * max(abs(up), abs(down)) / size
        if abs(slope - claimed) > DIFFERENT * max(abs(slope), abs(claimed)) + rounding:
            notes.find(
                f"the gradient is not that of the loss: {claimed:.4g} along a random direction, "
                f"where the loss changes by {slope:.4g} (a custom rule, stop_gradient, rounding?)"
            )
            return


def check_influence(notes: Notes, net: Net, params: PyTree, X: np.ndarray, key: int) -> None:
    """Every parameter that is declared moves some output somewhere."""
    rng = generator(key, "check_net points")

    def point(leaf: np.ndarray) -> np.ndarray:
        return (np.abs(leaf).max(initial=0.0) or 1.0) * rng.standard_normal(leaf.shape)

    points = [params, *(jax.tree.map(point, params) for _ in range(POINTS))]
    shape = jax.eval_shape(net, params, X).shape
    mixed = rng.standard_normal(shape)
    slopes = jax.jit(jax.grad(lambda params: jnp.sum(mixed * net(params, jnp.asarray(X)))))
    gradients = [jax.tree.leaves(slopes(p)) for p in points]
    for i, (path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(params)):
        if leaf.size and not any(np.any(np.asarray(grads[i])) for grads in gradients):
            notes.find(
                f"no output depends on params{jax.tree_util.keystr(path)}: leave it out, or use it"
            )
