"""The residual of a net on least squares, with a Jacobian that is made sample by sample."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Net
from ..numerics.types import Array, PyTree
from ..problems import Regression

SAMPLES = 16  # at once: enough to fill vector units


class Residuals(eqx.Module):
    """√(2·weight)·(net(params, X) − Y), flat: L = ½‖residual‖² is the loss of the problem.

    Made by `residuals`; a jax function of the parameters, to be given as `residual=`.
    """

    problem: Regression
    net: Net

    def __call__(self, params: PyTree) -> jax.Array:
        outputs = self.net(params, self.problem.X)
        return self._scaled(outputs.reshape(self.problem.n, self.problem.k)).ravel()

    def _scaled(self, outputs) -> jax.Array:
        return jnp.sqrt(2.0 * self.problem.weight) * (outputs - self.problem.labels)

    def rows(self, point: Callable[[Array], PyTree], flat: Array) -> jax.Array:
        """The Jacobian (n·k, D) in a flat vector, of which `point` makes parameters.

        A sample's output depends on its own input only, so its row takes one sample's work: a
        batch that is differentiated as a whole takes n times as much.
        """
        return self._rows(point, flat, jnp.asarray(self.problem.X))

    def _rows(self, point, flat, X) -> jax.Array:
        k = self.problem.k
        scale = jnp.sqrt(2.0 * jnp.asarray(self.problem.weight))

        def of_sample(x):
            return jax.jacrev(lambda v: self.net(point(v), x[None, :]).reshape(k))(flat)

        return scale * jax.vmap(of_sample)(X).reshape(-1, flat.size)

    def pulled(self, point: Callable[[Array], PyTree], flat: Array, weights: Array) -> jax.Array:
        """∇⟨W, J(x)⟩ for fixed weights W (n·k, D), some samples at a time.

        All of them at once would take the memory of several Jacobians.
        """
        n = self.problem.n
        k = self.problem.k
        X = jnp.asarray(self.problem.X)

        def slope(X, W):
            return jax.grad(lambda v: jnp.sum(W * self._rows(point, v, X)))(flat)

        def add(chunk, total):
            first = jnp.minimum(chunk * SAMPLES, n - SAMPLES)
            some = jax.lax.dynamic_slice_in_dim(X, first, SAMPLES)
            W = jax.lax.dynamic_slice_in_dim(weights, first * k, SAMPLES * k)
            # The last chunk begins within the one before it, which has counted those samples.
            new = first * k + jnp.arange(SAMPLES * k) >= chunk * SAMPLES * k
            return total + slope(some, jnp.where(new[:, None], W, jnp.zeros_like(W)))

        if n <= SAMPLES:
            return slope(X, weights)
        return jax.lax.fori_loop(0, -(-n // SAMPLES), add, jnp.zeros_like(flat))


def residuals(problem: Regression, net: Net) -> Residuals:
    """The residual of a net on a regression, scaled so that L = ½‖residual‖².

    For an own model: `residuals(gb.Regression.half_mean(X, Y), gb.nets.general(model))` with
    `model(params, X)` → outputs, where params may be an equinox module. A row of the outputs must
    depend on its own row of X only. Give it as `residual=`; library noise laws then know their
    data, and Jacobians are made sample by sample.

    Args:
        problem: least squares on finite data.
        net: a library net, or one made by `gb.nets.general`.
    """
    if not isinstance(problem, Regression):
        raise ValueError(
            f"problem must be a Regression, got {type(problem).__name__}: for another loss give "
            "loss= as a function of the parameters"
        )
    if not isinstance(net, Net):
        raise ValueError(
            f"net must be a gradbias net, got {net!r:.80}: make one of a function (params, X) → "
            "outputs with gb.nets.general"
        )
    return Residuals(problem, net)


def curvature_unit(problem: Regression) -> float:
    """2·weight·n: what a mean of ½(f − y)² is multiplied with; 1 for `Regression.half_mean`."""
    return 2 * float(np.asarray(problem.weight)) * problem.n
