"""Losses whose minimisers form a manifold that one can draw: for what happens after zero loss.

Every object has `residual(x)`, with L = ½‖residual‖², and `loss(x)`. They compute with NumPy when
given numbers and with jax when given jax arrays, so that they can be differentiated.
"""

from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from ..numerics import checks
from ..numerics.host_rng import generator
from ..numerics.types import Array, Number, PyTree


class Curve(eqx.Module):
    """An ellipse in the plane: L = ½·w(x)·G(x)², G = x₁²/a² + x₂²/b² − 1.

    The weight w = 1 + 0.6·tanh x₁ + 0.3·x₂² makes some places sharper than others, from 0.81 to
    5.8 for the default ellipse; it does not change the manifold.

    Args:
        a: the half axis along x₁.
        b: the half axis along x₂.
    """

    a: Any
    b: Any

    def __init__(self, a: float = 1.5, b: float = 1.0):
        self.a = np.asarray(checks.number("a", a, above=0))
        self.b = np.asarray(checks.number("b", b, above=0))

    def residual(self, x: Array) -> jax.Array:
        """√w·G, (1,)."""
        xp = _module(x)
        weight = 1 + 0.6 * xp.tanh(x[0]) + 0.3 * x[1] ** 2
        return xp.stack([xp.sqrt(weight) * ((x[0] / self.a) ** 2 + (x[1] / self.b) ** 2 - 1)])

    def loss(self, x: Array) -> Number:
        """L."""
        return _half_square(self.residual(x))

    def point(self, angle: ArrayLike) -> np.ndarray:
        """The points (a·cos, b·sin) of the manifold, (…, 2)."""
        angles = checks.array("angle", angle)
        return np.stack([self.a * np.cos(angles), self.b * np.sin(angles)], axis=-1)


class Hyperbola(eqx.Module):
    """L = ½(x₁x₂ − 1)²: the smallest net, whose flow and limit are known in closed form.

    x₁² − x₂² is conserved by gradient flow, and decays as e^{−ct} under label noise with Σ = cH.
    """

    def residual(self, x: Array) -> jax.Array:
        """x₁x₂ − 1, (1,)."""
        return _module(x).stack([x[0] * x[1] - 1])

    def loss(self, x: Array) -> Number:
        """L."""
        return _half_square(self.residual(x))

    def limit(self, x0: ArrayLike) -> np.ndarray:
        """Φ(x0), where gradient flow ends; from x₁ = −x₂ it ends at the saddle 0."""
        start = checks.array("x0", x0, shape=(2,))
        side = start.sum()
        if side == 0:
            return np.zeros(2)
        return np.sign(side) * self._branch((start[0] - start[1]) * side)

    def limiting_flow(self, x: ArrayLike, time: ArrayLike, c: float = 1.0) -> np.ndarray:
        """The point (…, 2) after the times t = k·lr² under label noise with Σ = cH."""
        start = checks.array("x", x, shape=(2,))
        c = checks.number("c", c, at_least=0)
        difference = (start[0] - start[1]) * start.sum() * np.exp(-c * checks.array("time", time))
        return np.sign(start.sum()) * self._branch(difference)

    @staticmethod
    def _branch(difference: Number) -> np.ndarray:
        """The positive point with x₁x₂ = 1 and this x₁² − x₂²."""
        half = np.arcsinh(np.asarray(difference) / 2) / 2
        return np.stack([np.exp(half), np.exp(-half)], axis=-1)


class Motor(eqx.Module):
    r"""The k-phase motor: noise that drives a point around a circle for ever.

    $L = \tfrac18(\|x_{1:2}\|^2 - 1)^2 + \tfrac12\sum_{j\ge3}(2 + \langle v_j, x_{1:2}\rangle)x_j^2$
    with D − 2 directions $v_j$ around the circle. The manifold is the unit circle of the first two
    coordinates; the loss is the same everywhere on it, and no potential makes the motion. Under
    the noise `covariance` the limit turns anti-clockwise with the angular speed (D − 2)/8 in time
    t = k·lr².

    Args:
        D: the number of coordinates, at least 5.
        v: (2,) the first direction, made a unit vector.
    """

    phases: Any

    def __init__(self, D: int = 5, v: ArrayLike = (1.0, 0.0)):
        D = checks.integer("D", D, at_least=5)
        first = checks.array("v", v, shape=(2,))
        length = np.linalg.norm(first)
        if length == 0:
            raise ValueError(f"v must not be zero, got {v!r:.80}")
        angles = np.arctan2(first[1], first[0]) + 2 * np.pi * np.arange(D - 2) / (D - 2)
        self.phases = np.stack([np.cos(angles), np.sin(angles)], axis=1)

    @property
    def D(self) -> int:
        """The number of coordinates."""
        return self.phases.shape[0] + 2

    @property
    def speed(self) -> float:
        """The angular speed of the limit, (D − 2)/8."""
        return (self.D - 2) / 8

    def residual(self, x: Array) -> Array:
        """(D − 1,): the circle first."""
        xp = _module(x)
        circle = 0.5 * (x[0] ** 2 + x[1] ** 2 - 1)
        return xp.concatenate([circle.reshape(1), xp.sqrt(self._stiffness(x)) * x[2:]])

    def loss(self, x: Array) -> Number:
        """L."""
        return _half_square(self.residual(x))

    def variances(self, x: Array) -> Array:
        """The diagonal of Σ(x), (D,)."""
        xp = _module(x)
        turned = xp.stack([x[1], -x[0]])  # a quarter turn clockwise
        own = (1 + self.phases @ turned) * self._stiffness(x)
        return xp.concatenate([xp.zeros(2), own])

    def covariance(self, x: Array) -> Array:
        """Σ(x), the covariance of one stochastic gradient, (D, D)."""
        return _module(x).diag(self.variances(x))

    def point(self, angle: float) -> np.ndarray:
        """The point (D,) of the manifold at an angle."""
        angle = checks.number("angle", angle)
        return np.concatenate([[np.cos(angle), np.sin(angle)], np.zeros(self.D - 2)])

    def _stiffness(self, x) -> Array:
        return 2 + self.phases @ x[:2]


class TanhFit(eqx.Module):
    """A tanh net with one hidden layer on a few well-spread points: L = (1/2n) Σ (f(x_i) − y_i)².

    Parameters are a dict: W1 (d, width), b1 (width,), W2 (width,). With one input and well-spread
    points the Hessian is well-conditioned; with ten points in a unit interval its eigenvalues
    span twelve decades, and gradient flow does not arrive.

    Args:
        n: the number of points; with d = 1 equally spaced in [−2, 2], else Gaussian.
        width: hidden units.
        d: inputs.
        key: an integer; the labels, the inputs for d > 1, and `start`.
    """

    X: Any
    Y: Any
    width: int = eqx.field(static=True)
    key: int = eqx.field(static=True)

    def __init__(self, n: int = 3, width: int = 4, d: int = 1, key: int = 0):
        n = checks.integer("n", n, at_least=1)
        d = checks.integer("d", d, at_least=1)
        self.width = checks.integer("width", width, at_least=1)
        self.key = checks.integer("key", key)
        rng = generator(key, "problems.TanhFit")
        self.Y = rng.standard_normal(n)
        spread = np.linspace(-2, 2, n) if n > 1 else np.ones(1)
        self.X = spread[:, None] if d == 1 else rng.standard_normal((n, d))

    def residual(self, params: PyTree) -> jax.Array:
        """(f(x_i) − y_i)/√n, (n,)."""
        xp = _module(params["W1"])
        hidden = xp.tanh(self.X @ params["W1"] + params["b1"].reshape(1, -1))
        return (hidden @ params["W2"] - self.Y) / len(self.Y) ** 0.5

    def loss(self, params: PyTree) -> Number:
        """L."""
        return _half_square(self.residual(params))

    def start(self) -> dict[str, np.ndarray]:
        """Gaussian parameters."""
        rng = generator(self.key, "problems.TanhFit.start")
        shapes = {"W1": (self.X.shape[1], self.width), "b1": (self.width,), "W2": (self.width,)}
        return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def _module(x: object) -> ModuleType:
    """NumPy for numbers, so that nothing is rounded to single precision; jax for jax arrays."""
    return jnp if checks.is_jax(x) else np


def _half_square(residual: Array) -> Number:
    return 0.5 * (residual * residual).sum()
