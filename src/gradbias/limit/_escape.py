r"""Does a loss have no minimum? A proof for losses that are positive everywhere (jax-level).

Where a group of parameters is found whose scaling by c scales all outputs by c^k (the last layer of
a net, or all parameters of one without biases), and where the loss of every sample falls towards
zero along its own outputs, c·f_i with c → ∞, that is a path on which L → 0. A loss that is positive
everywhere, as cross-entropy and logistic loss on separable data, then has no minimum. What is
reached at finite outputs (a hinge), rises again (squares, soft labels) or stops above zero is not
taken for such a loss.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .._manifold.normal_space import length
from .._manifold.target import Target
from ..nets import MLP, Net
from ..numerics.types import Array
from ..problems import Samples

FACTORS = 2.0 ** np.arange(-10, 20.5, 0.5)  # of the outputs
SMALL = 1e-4  # of the slope at the first factor: the loss falls no more
SEEN = 2  # factors with so small a slope that is no zero; a hinge has none, its square one at most
LEFT = 1e-3  # of the loss at the first factor: what may be left of it at the last
SAME = 1e-12  # of the largest output: rounding
TIMES = (2.0, 1024.0)  # of the parameters, at which outputs are compared
# of the search; a step in parts of ‖x‖
ROUNDS = 6
STEPS = 400
STEP = 0.05


def has_no_minimum(target: Target, flat) -> jax.Array:
    """Is a point found from which a path leads to the infimum, which is then not reached?

    Any such point will do, so that it is looked for by coarse steps down the gradient: they go on
    where a flow would have to follow the kinks of a net.
    """
    problem, net = (getattr(target.function, name, None) for name in ("problem", "net"))
    if target.squares or not isinstance(problem, Samples) or net is None:
        return jnp.asarray(False)

    def at(point):
        outputs = _outputs(target, problem, net, point)
        return _falls_for_ever(problem, outputs) & _scales(target, problem, net, point, outputs)

    def unfinished(carry):
        _, count, found = carry
        return (count < ROUNDS) & ~found

    def round_of_steps(carry):
        point, count, _ = carry
        steps = jnp.where(count > 0, STEPS, 0)  # the first look is at the start itself
        step = STEP * 0.5 ** count.astype(float)
        point = jax.lax.fori_loop(0, steps, lambda _, x: _down(target, x, step), point)
        return point, count + 1, at(point)

    first = (flat, jnp.asarray(0), jnp.asarray(False))
    return jax.lax.while_loop(unfinished, round_of_steps, first)[2]


def _down(target: Target, point, step) -> jax.Array:
    """A step down the gradient, of this part of ‖x‖."""
    slope = target.gradient(point)
    steepness = length(slope)
    return point - step * length(point) / jnp.where(steepness > 0, steepness, 1.0) * slope


def _outputs(target: Target, problem: Samples, net: Net, flat) -> Array:
    return net(target.point(flat), jnp.asarray(problem.X)).reshape(np.shape(problem.Y))


def _falls_for_ever(problem: Samples, outputs) -> jax.Array:
    """Along its own outputs, does the loss of every sample fall to zero and never reach it?"""

    def along(output, y):
        def loss(factor):
            return jnp.reshape(problem.per_sample(factor * output, y), ())

        return jax.vmap(lambda c: jax.jvp(loss, (c,), (jnp.ones_like(c),)))(jnp.asarray(FACTORS))

    losses, slopes = jax.vmap(along)(outputs, jnp.asarray(problem.Y))
    # Of the slope by the size of the outputs, what is left of the first one.
    falls = jnp.cumprod(slopes < 0, axis=1).astype(bool)
    small = jnp.sum(falls & (slopes >= SMALL * slopes[:, :1]), axis=1)
    above = jnp.mean(losses, axis=0) - (0.0 if problem.minimum is None else problem.minimum)
    infimum = (above[-1] >= 0) & (above[-1] <= LEFT * above[0])
    return jnp.all(small >= SEEN) & infimum


def _scales(target: Target, problem: Samples, net: Net, flat, outputs) -> jax.Array:
    """Is there a group of parameters whose scaling scales all outputs?"""

    def scaled(group):
        grown = [_outputs(target, problem, net, jnp.where(group, c * flat, flat)) for c in TIMES]
        size = length(outputs.ravel())
        degree = jnp.log2(length(grown[0].ravel()) / size)
        off = [
            jnp.max(jnp.abs(f / c**degree - outputs)) <= SAME * size
            for f, c in zip(grown, TIMES, strict=True)
        ]
        return (degree > 0.5) & off[0] & off[1]  # false for NaN

    return jnp.any(jax.lax.map(scaled, jnp.asarray(_groups(target, net, outputs))))


def _groups(target: Target, net: Net, outputs) -> np.ndarray:
    """(groups, D): the last layer of an MLP; else all parameters, each array, or the last ones."""
    names = jax.tree.unflatten(target.structure, range(len(target.shapes)))
    if isinstance(net, MLP):
        last = len(net.dims) - 1
        kept = [{names[name] for name in (f"W{last}", f"b{last}") if name in names}]
    else:
        many = range(len(target.shapes))
        k = int(np.prod(outputs.shape[1:], dtype=int))
        ends = {i for i, shape in enumerate(target.shapes) if shape and shape[-1] == k}
        kept = [set(many), *({i} for i in many), ends]
    rows = [
        np.concatenate([np.full(int(np.prod(s)), i in group) for i, s in enumerate(target.shapes)])
        for group in kept
    ]
    return np.stack(rows)
