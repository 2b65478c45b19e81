"""What an observable is: a named measurement f(problem, net, params) at one saved state."""

import abc
from collections.abc import Callable
from typing import Any, NoReturn

import equinox as eqx
import jax
import numpy as np

from ..nets import Net
from ..numerics.pytrees import Value
from ..numerics.types import Array, PyTree
from ..problems import Problem

Measurement = Callable[[Any, Any, Any], Any]


class Observable(Value):
    """A measurement on parameters, written with jax.numpy.

    Called inside compiled code with traced arrays; the result is a scalar, an array or a dict of
    arrays. Observables are values: two with equal settings are equal and have one hash.

    Subclass it for an own observable that checks what it is given (`bind`) or names its axes
    (`dims`); a plain function f(problem, net, params) does for the rest.
    """

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name of its variable when the record does not give one."""

    @abc.abstractmethod
    def __call__(self, problem: Problem, net: Net, params: PyTree) -> PyTree:
        """The measurement (jax-level)."""

    def bind(self, problem: Problem, net: Net) -> Measurement:
        """The function that is compiled, made once on the host from concrete data.

        Here an observable refuses a net or problem that it does not fit (ValueError), and
        computes what needs NumPy, such as the row space of the data. Arrays must be fields of
        the PyTree that is returned: other data of the same shape then need no recompilation.
        """
        return self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...] | None:
        """The names of the result's axes; None if they have none, or if it is a dict."""
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Observable) and _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))


class OfPredictor(Observable):
    """A measurement that needs only the predictor of a linear net.

    Of a reduced run the predictor is known without the full parameters: with a hidden width of
    10 000, to restore them at every save would cost more than the run.
    """

    @abc.abstractmethod
    def of_theta(self, problem: Problem, theta: Array) -> PyTree:
        """The measurement of a (d, k) predictor (jax-level)."""

    def __call__(self, problem: Problem, net: Any, params: PyTree) -> PyTree:
        return self.of_theta(problem, problem.as_predictor(net.predictor(params)))


def _content(tree: PyTree) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(tree)
    arrays = [np.asarray(leaf) for leaf in leaves]
    return structure, *((a.shape, a.dtype.str, a.tobytes()) for a in arrays)


class FunctionObservable(Observable):
    """A user's function as an observable; see `as_observable`."""

    label: str = eqx.field(static=True)
    function: Measurement = eqx.field(static=True)

    @property
    def name(self) -> str:
        return self.label

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> PyTree:
        value = self.function(problem, net, params)
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {key: self._array(item) for key, item in value.items()}
        return self._array(value)

    def _array(self, value: object) -> Array:
        if isinstance(value, jax.Array):
            return value
        try:
            # Not jnp: a function that jax cannot trace is called outside compiled code too.
            array = np.asarray(value)
            if array.dtype.kind not in "fiub":
                raise TypeError
        except (TypeError, ValueError):
            raise ValueError(
                f"observable {self.name!r} must return an array or a dict of arrays, "
                f"got {type(value).__name__} {value!r:.80}"
            ) from None
        return array


def refuse(observable: Observable, need: str, got: object) -> NoReturn:
    """Say that an observable does not fit a net or a problem."""
    raise ValueError(f"observable {observable.name!r} needs {need}, got {type(got).__name__}")
