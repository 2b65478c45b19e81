"""The gradient of a problem's loss in a net's parameters."""

from typing import Any

import jax

from ..nets import LinearNet, Net
from ..nets.base import ChainNet, as_matrix, product
from ..numerics.precision import require_float64
from ..numerics.types import Number, PyTree
from ..problems import Batch, Population, Problem
from ..problems.base import LossOfOutputs


def gradient(problem: Any, net: Net, params: PyTree, batch: Batch | None = None) -> Any:
    """The (stochastic) gradient in the parameters (jax-level).

    On linear nets it is formed once in predictor space and pulled back: no data through the
    layers, unless a few samples become a few numbers by the first of them.
    """
    require_float64("gradbias.dynamics.gradient")
    if isinstance(net, LinearNet) and isinstance(problem, LossOfOutputs):
        some = problem.some(batch)
        if some is not None and isinstance(net, ChainNet) and net.chain[1] == 1:
            X, slope = some
            outputs, pull = jax.vjp(lambda p: _through(net.factors(p), X), params)
            return pull(slope(outputs))[0]
        theta, pull = jax.vjp(lambda p: as_matrix(net.predictor(p)), params)
        return pull(problem.theta_gradient(theta, batch))[0]
    return jax.grad(lambda p: problem.net_loss(net, p, batch))(params)


def _through(factors: list[Any], X) -> jax.Array:
    """The outputs on X of a chain whose first factor has one column (jax-level)."""
    first, *later = factors
    inside = (X @ first[:, 0])[:, None]
    # The others meet each other first: they are fewer numbers than the samples.
    return inside @ product(later) if later else inside


def need_expectation(what: str, problem: Problem, net: Net) -> None:
    """Refuse what needs the gradient of an expectation that nobody can compute."""
    if isinstance(problem, Population) and not isinstance(net, LinearNet):
        raise ValueError(
            f"{what} on Population needs exact expectations, known for linear nets only, got "
            f"{net!r}: draw fresh samples, with Descent(lr, gb.Minibatch(batch_size))"
        )


def decayed(grads: PyTree, params: PyTree, weight_decay: Number) -> Any:
    """Add the gradient of weight_decay·‖params‖²; None stands for no decay."""
    if weight_decay is None:
        return grads
    return jax.tree.map(lambda g, p: g + 2 * weight_decay * p, grads, params)
