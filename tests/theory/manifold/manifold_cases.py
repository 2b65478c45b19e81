"""Six losses, each written twice: in jax for the library, in NumPy for the reference.

The reference knows nothing of the library: gradients by hand, SciPy's DOP853 for the flow, and
Gauss–Newton steps on the constraint (its Jacobian by complex steps) for the last 1e-8.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.integrate

import gradbias as gb

rng = np.random.default_rng(5)
Z, TEACHER = rng.standard_normal((2, 3)), np.array([1.0, -0.5, 0.3])
X, THETA = rng.standard_normal((4, 2)), np.array([[1.0, 0.4], [-0.3, 0.8]])
LINEAR, FORMS = rng.standard_normal((2, 5)), 0.3 * rng.standard_normal((2, 5, 5))
FORMS = FORMS + FORMS.transpose(0, 2, 1)
METRIC, P, Q = np.array([[1.5, 0.3], [0.3, 0.8]]), rng.standard_normal(5), np.array([0.6, -0.8])
CURVE, MOTOR, FIT = gb.problems.Curve(), gb.problems.Motor(5, (0.6, 0.8)), gb.problems.TanhFit()


@dataclasses.dataclass(frozen=True)
class Case:
    """A loss, and what the reference needs of it.

    Attributes:
        given: how the library gets it: {"residual": …} or {"loss": …}, of the flat vector.
        constraint: NumPy, one point, complex too; zero on the manifold.
        gradient: NumPy, (…, D) → (…, D), by hand.
        start: where a flow starts.
        rank: the number of normal directions.
    """

    given: dict[str, Callable[[Any], Any]]
    constraint: Callable[[np.ndarray], np.ndarray]
    gradient: Callable[[np.ndarray], np.ndarray]
    start: np.ndarray
    rank: int


def curve_gradient(x):
    a, b = x[..., 0], x[..., 1]
    G, w = a**2 / 2.25 + b**2 - 1, 1 + 0.6 * np.tanh(a) + 0.3 * b**2
    slopes = np.stack([0.6 / np.cosh(a) ** 2, 0.6 * b], axis=-1)
    return 0.5 * G[..., None] ** 2 * slopes + (w * G)[..., None] * np.stack(
        [2 * a / 2.25, 2 * b], axis=-1
    )


def olm_residual(x):
    return Z @ (x[:3] ** 2 - x[3:] ** 2 - TEACHER) / 2**0.5


def olm_gradient(x):
    u, v = x[..., :3], x[..., 3:]
    pull = (u**2 - v**2 - TEACHER) @ Z.T @ Z / 2
    return np.concatenate([2 * u * pull, -2 * v * pull], axis=-1)


def linear_residual(x):
    W1, W2 = x[:6].reshape(2, 3), x[6:].reshape(3, 2)
    return (X @ (W1 @ W2 - THETA)).reshape(8) / 2.0


def linear_gradient(x):
    W1, W2 = x[..., :6].reshape(-1, 2, 3), x[..., 6:].reshape(-1, 3, 2)
    pull = X.T @ X @ (W1 @ W2 - THETA) / 4
    g1, g2 = pull @ W2.transpose(0, 2, 1), W1.transpose(0, 2, 1) @ pull
    return np.concatenate([g1.reshape(-1, 6), g2.reshape(-1, 6)], axis=1).reshape(x.shape)


def tanh_residual(x):
    """The order of ravel_pytree: W1, W2, b1."""
    return (np.tanh(FIT.X * x[None, :4] + x[None, 8:]) @ x[4:8] - FIT.Y) / 3**0.5


def tanh_gradient(x):
    W1, W2, b1 = x[..., None, :4], x[..., None, 4:8], x[..., None, 8:]
    hidden = np.tanh(FIT.X * W1 + b1)
    r = ((hidden * W2).sum(-1) - FIT.Y)[..., None] / 3
    back = r * W2 * (1 - hidden**2)
    parts = [(back * FIT.X).sum(-2), (r * hidden).sum(-2), back.sum(-2)]
    return np.concatenate(parts, axis=-1)


def tanh_in_jax(x):
    return FIT.residual({"W1": x[None, :4], "W2": x[4:8], "b1": x[8:]})


def generic_constraint(x):
    return LINEAR @ x + 0.5 * (FORMS @ x) @ x - 0.4


def generic_loss(x):
    g = generic_constraint(x)
    return 0.5 * g @ METRIC @ g + 0.5 * ((P @ x) * (Q @ g)) ** 2


def generic_gradient(x):
    forms = np.einsum("kij,...j->...ki", FORMS, x)
    g = x @ LINEAR.T + 0.5 * np.einsum("...ki,...i->...k", forms, x) - 0.4
    px, qg = (x @ P)[..., None], (g @ Q)[..., None]
    pull = g @ METRIC + px**2 * qg * Q
    return np.einsum("...k,...ki->...i", pull, LINEAR + forms) + px * qg**2 * P


def motor_constraint(x):
    return np.concatenate([[0.5 * (x[0] ** 2 + x[1] ** 2 - 1)], x[2:]])


def motor_gradient(x):
    angles = np.arctan2(0.8, 0.6) + 2 * np.pi * np.arange(3) / 3
    V = np.stack([np.cos(angles), np.sin(angles)])
    plane, rest = x[..., :2], x[..., 2:]
    circle = 0.5 * (np.sum(plane**2, axis=-1, keepdims=True) - 1) * plane
    return np.concatenate([circle + 0.5 * rest**2 @ V.T, (2 + plane @ V) * rest], axis=-1)


def curve_constraint(x):
    return np.stack([x[0] ** 2 / 2.25 + x[1] ** 2 - 1])


def of(kind, function):
    return {kind: function}


CASES = {
    "curve": Case(
        of("residual", CURVE.residual), curve_constraint, curve_gradient, np.array([1.1, 0.9]), 1
    ),
    "diagonal net": Case(
        of("residual", olm_residual),
        olm_residual,
        olm_gradient,
        np.array([1.1, 0.7, 0.9, 0.6, 0.8, 0.5]),
        2,
    ),
    "linear net": Case(
        of("residual", linear_residual),
        linear_residual,
        linear_gradient,
        np.random.default_rng(1).standard_normal(12),
        4,
    ),
    "tanh net": Case(
        of("residual", tanh_in_jax),
        tanh_residual,
        tanh_gradient,
        np.random.default_rng(2).standard_normal(12),
        3,
    ),
    "generic": Case(
        of("loss", generic_loss),
        generic_constraint,
        generic_gradient,
        0.3 * np.random.default_rng(3).standard_normal(5),
        2,
    ),
    "motor": Case(
        of("residual", MOTOR.residual),
        motor_constraint,
        motor_gradient,
        np.array([0.9, 0.8, 0.2, -0.1, 0.3]),
        4,
    ),
}


def limits(case: Case, points: np.ndarray) -> np.ndarray:
    """Φ of every row, all in one integration."""
    shape = points.shape

    def field(t, flat):
        return -case.gradient(flat.reshape(shape)).ravel()

    def near(t, flat):
        return np.abs(field(t, flat)).max() - 1e-8

    near.terminal = True
    ends = points.ravel()
    if near(0, ends) > 0:
        found = scipy.integrate.solve_ivp(
            field, (0, 1e5), ends, method="DOP853", rtol=1e-12, atol=1e-13, events=near
        )
        assert found.status == 1, found.message
        ends = found.y[:, -1]
    return np.stack([polished(case.constraint, end) for end in ends.reshape(shape)])


def polished(constraint, x):
    for _ in range(3):
        steps = 1e-30j * np.eye(x.size)
        J = np.stack([constraint(x + step).imag / 1e-30 for step in steps], axis=1)
        x = x - np.linalg.lstsq(J, constraint(x), rcond=1e-8)[0]
    return x


@functools.cache
def on_manifold(name: str) -> np.ndarray:
    """A point of the manifold: where the flow from the case's start ends."""
    return limits(CASES[name], CASES[name].start[None])[0]


def factor(name: str, columns: int = 2) -> np.ndarray:
    """σ, with parts along and across the manifold that are correlated."""
    D = CASES[name].start.size
    return np.random.default_rng(11).standard_normal((D, columns)) / D**0.5


@functools.cache
def second_difference(name: str) -> np.ndarray:
    """∂²Φ[σσᵀ] from values of Φ alone: second differences, extrapolated twice."""
    case, x, F = CASES[name], on_manifold(name), factor(name).T
    sizes = 0.04 / 2.0 ** np.arange(3)
    steps = np.concatenate([[h * F, -h * F] for h in sizes]).reshape(-1, x.size)
    ends = limits(case, x + steps).reshape(3, 2 * len(F), x.size)
    rough = [(end - x).sum(axis=0) / h**2 for end, h in zip(ends, sizes, strict=True)]
    better = [(4 * rough[1] - rough[0]) / 3, (4 * rough[2] - rough[1]) / 3]
    return (16 * better[1] - better[0]) / 15


def relative(got, expected) -> float:
    return float(np.linalg.norm(np.asarray(got) - expected) / np.linalg.norm(expected))


def in_jax(function, x):
    """The value of a jax function in double precision, as NumPy."""
    with gb.float64():
        return np.asarray(jax.jit(function)(jnp.asarray(x)))  # op by op it compiles for seconds
