"""Singular values of a parameter or of the predictor, and the rank that they amount to."""

from typing import NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import entr

from ..nets import LinearNet, Net
from ..numerics import lanczos
from ..numerics.types import PyTree
from ..problems import Problem
from ._predictor import need_linear
from .base import Measurement, Observable


class SingularValues(Observable):
    """See `singular_values`."""

    of: str = eqx.field(static=True)

    @property
    def name(self) -> str:
        return f"singular_values_{self.of}"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        _check_named(self, net)
        return self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...] | None:
        shape = _shape(self, problem, net)
        if shape is None:
            return None
        return (f"mode_{self.of}",) if len(shape) == 2 else ()

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> jax.Array:
        return _values(self, problem, net, params)


class EffectiveRank(Observable):
    """See `effective_rank`."""

    of: str = eqx.field(static=True)

    @property
    def name(self) -> str:
        return f"effective_rank_{self.of}"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        _check_named(self, net)
        return self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> jax.Array:
        s = jnp.atleast_1d(_values(self, problem, net, params))
        top = jnp.max(s, initial=0.0)
        relative = s / jnp.where(top == 0, 1.0, top)  # first, so that no sum overflows
        total = jnp.sum(relative)
        entropy = jnp.sum(entr(relative / jnp.where(total == 0, 1.0, total)))
        return jnp.where(total == 0, 0.0, jnp.exp(entropy))


Spectral = SingularValues | EffectiveRank


def singular_values(name: str) -> SingularValues:
    """The singular values of a parameter, the largest first; of a vector its norm.

    Args:
        name: the parameter's name, or "theta" for the predictor of a linear net (unless the net
            has a parameter of that name).
    """
    return SingularValues(_text(name))


def effective_rank(name: str) -> EffectiveRank:
    """The exponential of the entropy of the singular values divided by their sum.

    Between 1 and the rank, and the rank when all non-zero singular values are equal; 0 for a
    zero matrix, 1 for a vector that is not zero.

    Args:
        name: the parameter's name, or "theta", as for `singular_values`.
    """
    return EffectiveRank(_text(name))


def _text(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f'name must be the name of a parameter or "theta", got {name!r:.80}')
    return name


def _check_named(observable: Spectral, net) -> None:
    """Refuse unknown parameters and those that are neither vectors nor matrices."""
    shapes = net.shapes()
    if shapes is not None and observable.of not in shapes:
        if observable.of == "theta":
            return need_linear(observable, net)
        _unknown(observable, net, shapes)
    if shapes is not None and observable.of in shapes:
        _check_axes(observable, shapes[observable.of])


def _check_axes(observable: Spectral, shape: tuple[int, ...]) -> None:
    if len(shape) > 2:
        raise ValueError(
            f"observable {observable.name!r} needs a vector or a matrix, "
            f"but {observable.of!r} has shape {shape}"
        )


def _unknown(observable: Spectral, net, names) -> NoReturn:
    known = ", ".join(map(repr, names))
    raise ValueError(
        f"observable {observable.name!r} needs a parameter of {type(net).__name__}: {known}"
        + (' or "theta"' if isinstance(net, LinearNet) else "")
        + f", got {observable.of!r}"
    )


def _shape(observable: Spectral, problem, net) -> tuple[int, ...] | None:
    shapes = net.shapes()
    if shapes is not None and observable.of in shapes:
        return shapes[observable.of]
    if shapes is not None and observable.of == "theta":
        return (problem.d, problem.k)
    return None


def _values(observable: Spectral, problem, net, params) -> jax.Array:
    if observable.of in params:
        matrix = params[observable.of]
    elif observable.of == "theta":
        need_linear(observable, net)
        matrix = problem.as_predictor(net.predictor(params))
    else:
        _unknown(observable, net, params)
    _check_axes(observable, matrix.shape)
    if matrix.ndim < 2:
        return jnp.linalg.norm(jnp.atleast_1d(matrix))
    return lanczos.singular_values(matrix)
