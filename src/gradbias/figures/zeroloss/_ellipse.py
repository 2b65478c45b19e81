"""The ellipse of Figure 1: frames, drift and trace along it."""

import jax
import jax.numpy as jnp
import numpy as np

from ...numerics.host_rng import generator
from ...numerics.precision import host
from ...plot import GREY
from ...problems import Curve
from ...theory import manifold
from .._figure import Axes, Settings

CURVE = Curve()
GRID = 160


def angle(s: Settings) -> float:
    """Where on the ellipse; another key is another place nearby."""
    return s.angle + 0.3 * float(generator(s.key, "figures.ellipse").uniform(-1, 1))


def frame(phi: float | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unit tangent and the unit normal that points outwards, (…, 2) each."""
    along = np.stack([-CURVE.a * np.sin(phi), CURVE.b * np.cos(phi)], axis=-1)
    along = along / np.linalg.norm(along, axis=-1, keepdims=True)
    return along, np.stack([along[..., 1], -along[..., 0]], axis=-1)


def speed(phi: np.ndarray, c: float) -> np.ndarray:
    """The predicted velocity along the tangent, −(c/4)∇_T tr H in time k·lr²."""
    found = [manifold.label_noise_drift(x, c, residual=CURVE.residual) for x in CURVE.point(phi)]
    return np.sum(np.stack(found) * frame(phi)[0], axis=1)


def sharpness(phi: float | np.ndarray) -> np.ndarray:
    """The one eigenvalue of the Hessian that is not zero."""
    step = 1e-4
    normal = frame(np.asarray(phi))[1]
    ends = [CURVE.residual((CURVE.point(phi) + sign * step * normal).T)[0] for sign in (1, -1)]
    return np.asarray(((ends[0] - ends[1]) / (2 * step)) ** 2)


@host
def gradients(x: np.ndarray) -> np.ndarray:
    """∇L at many points, (points, 2)."""
    return np.asarray(jax.vmap(jax.grad(CURVE.loss))(jnp.asarray(x)))


def ground(ax: Axes, phi: float, reach: float) -> None:
    """The manifold near a point, over contours of the root of the loss."""
    x = CURVE.point(phi)
    sides = [np.linspace(x[i] - reach, x[i] + reach, GRID) for i in (0, 1)]
    height = np.abs(CURVE.residual(np.stack(np.meshgrid(*sides)))[0])
    ax.contour(*sides, height, 10, colors=GREY, linewidths=0.4, alpha=0.6)
    ax.plot(*CURVE.point(np.linspace(0, 2 * np.pi, 400)).T, color=GREY, lw=2)
    ax.set(xlim=sides[0][[0, -1]], ylim=sides[1][[0, -1]], xlabel="$x_1$", ylabel="$x_2$")
    ax.set_aspect("equal", adjustable="box")
