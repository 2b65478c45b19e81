"""The Noether flow: how noise and a finite step move charges on average."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .._generators.symmetry import Symmetry
from ..nets import LinearNet
from ..nets.base import as_matrix
from ..numerics import checks
from ..numerics.precision import host, to_numpy
from ..numerics.types import Number, PyTree
from ..problems import QuadraticProblem
from ._charge_tracker import named
from ._check import require


@dataclasses.dataclass(frozen=True)
class NoetherFlow:
    """dC/dt of one symmetry at one point, by its causes.

    Attributes:
        charge: C there.
        decay: −4γC, by weight decay.
        noise: lr·Tr[ΣA], by the noise of the gradient.
        gd: lr·ḡᵀAḡ, by the finite step along the mean gradient; 0 where it is left out.
        lr: the learning rate, the time that one step takes.
    """

    charge: Any
    decay: Any
    noise: Any
    gd: Any
    lr: float

    @property
    def total(self) -> Number:
        """dC/dt: the sum of the three."""
        return self.decay + self.noise + self.gd

    @property
    def per_step(self) -> Number:
        """The mean change of C in one step."""
        return self.lr * self.total


@host
def noether_flow(
    setup: Any,
    include_gd: bool | None = None,
    symmetries: Mapping[str, Symmetry] | None = None,
    step: int = 0,
) -> dict[str, NoetherFlow]:
    r"""The mean motion of every charge at the start of a run, per unit of time t = Σ lr.

    $dC/dt = -4\gamma C + lr\,\mathrm{Tr}[\Sigma A] + lr\,\bar g^T A \bar g$, with Σ the covariance
    of the gradient that a step uses. One step changes C by lr times that on average, up to terms
    of order lr²γ² in the decay.

    With momentum β a step counts as one of size lr/(1 − β), once v has forgotten its start
    (about 2β/(1 − β) steps): the decay is divided by 1 − β and the noise term by (1 − β)². The
    last term, whose kicks are all in one direction, gets (1 + β)/(1 − β)³, with Nesterov's
    momentum (1 − β + 2β²)/(1 − β)³.

    Args:
        setup: what is run; its problem, net, params and dynamics are used.
        include_gd: count the last term? It belongs to finite steps (Descent) and is absent from
            the stochastic differential equation (Diffusion); None decides by that.
        symmetries: by name; the net's own if None.
        step: the step at which a learning rate schedule is read.

    Returns:
        The flow of every charge, by name.
    """
    problem = setup.problem
    net = setup.net
    dynamics = setup.dynamics
    params = jax.tree.map(lambda leaf: checks.array("params", leaf), setup.params)
    if not getattr(dynamics, "follows_slope", True):
        raise ValueError(
            "setup.dynamics must take steps along the gradient, such as gb.Descent, got "
            f"{type(dynamics).__name__}: its steps move charges otherwise"
        )
    chosen = named(net.symmetries() if symmetries is None else symmetries)
    require(problem, net, params, chosen)
    lr = _rate(dynamics, checks.integer("step", step))
    gamma, beta = (float(getattr(dynamics, n, 0.0)) for n in ("weight_decay", "momentum"))
    nesterov = getattr(dynamics, "nesterov", False)
    straight = 1 - beta + 2 * beta**2 if nesterov else 1 + beta
    if include_gd is None:
        include_gd = getattr(dynamics, "axis", "step") == "step"
    noise = getattr(dynamics, "noise", None)
    factor = None if noise is None or lr == 0 else noise.factor(problem, net, params)
    mean = to_numpy(_mean_gradient(problem, net, params)) if include_gd and lr > 0 else None
    flows = {}
    for name, symmetry in chosen.items():
        charge = symmetry.charge(params)
        nothing = np.zeros_like(charge)[()]
        trace = nothing if factor is None else _trace(symmetry, params, factor)
        square = nothing if mean is None else symmetry.form(mean, mean)
        flows[name] = NoetherFlow(
            charge=charge,
            decay=-4 * gamma / (1 - beta) * charge,
            noise=lr / (1 - beta) ** 2 * trace,
            gd=lr * straight / (1 - beta) ** 3 * square,
            lr=lr,
        )
    return flows


def _rate(dynamics: object, step: int) -> float:
    lr = getattr(dynamics, "lr", 0.0)  # gradient flow has none
    if not callable(lr):
        return float(lr)
    try:  # schedules are made for many steps at a time, but not all of them can
        return float(np.asarray(lr(np.arange(step, step + 2)))[0])
    except (TypeError, ValueError, IndexError):
        return float(np.asarray(lr(step)))


def _trace(symmetry: Symmetry, params, factor) -> Number:
    """Tr[ΣA] for Σ = σσᵀ, from the columns of σ: no D×D matrix."""
    columns = checks.array("noise.factor(problem, net, params)", factor, ndim=(2,)).T
    return to_numpy(_summed(symmetry, params, columns))[()]


@eqx.filter_jit
def _summed(symmetry: Symmetry, params, columns) -> jax.Array:
    _, unravel = ravel_pytree(params)

    def add(total, column):
        vector = unravel(column)
        return total + symmetry.form(vector, vector), None

    start = jnp.zeros_like(symmetry.charge(jax.tree.map(jnp.asarray, params)))
    return jax.lax.scan(add, start, columns)[0]


@eqx.filter_jit
def _mean_gradient(problem, net, params) -> PyTree:
    if isinstance(net, LinearNet) and isinstance(problem, QuadraticProblem):
        theta, pull = jax.vjp(lambda p: as_matrix(net.predictor(p)), params)
        return pull(problem.theta_gradient(theta))[0]
    return jax.grad(lambda p: problem.net_loss(net, p))(params)
