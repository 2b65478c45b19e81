"""Losses with a manifold one can draw, as setups: the ellipse and the k-phase motor."""

import jax.numpy as jnp
import numpy as np

import gradbias as gb
from gradbias.noise import ParameterNoise

CURVE = gb.problems.Curve()
PLANE = gb.nets.general(lambda p, X: CURVE.residual(p["x"])[None, :] * X)
POINT = gb.Regression.half_sum(np.ones((1, 1)), np.zeros((1, 1)))


def on_the_ellipse(dynamics, until=None, save_at=None, key=0):
    start = {"x": np.array([1.1, 0.9])}
    return gb.Setup(POINT, PLANE, start, dynamics, until, [gb.observe.params], save_at, key)


def diffused(members, dt, times, all_arrive=True):
    """Points (members, times, 2) of Brownian motion on the ellipse, pulled to small curvature."""

    def build(member):
        limit = gb.Limit(gb.Isotropic(1.0), dt)
        return on_the_ellipse(limit, gb.Until(time=times[-1]), times, member)

    found = gb.sweep(build, {"member": range(members)}, progress=False)
    assert (found["stopped_at"] == times[-1]).all() or not all_arrive
    x = found["params_x"].values
    assert np.nanmax(np.abs((x[..., 0] / 1.5) ** 2 + x[..., 1] ** 2 - 1)) < 1e-12
    return x


def density(power):
    """Cells of the ellipse: angles, points and their weight under |H|₊^power·(arc length)."""
    angle = (np.arange(7200) + 0.5) * 2 * np.pi / 7200 - np.pi
    x = CURVE.point(angle)
    slope = np.stack([2 * x[:, 0] / 2.25, 2 * x[:, 1]], axis=1)
    curvature = (1 + 0.6 * np.tanh(x[:, 0]) + 0.3 * x[:, 1] ** 2) * np.sum(slope**2, axis=1)
    weight = curvature**power * np.hypot(1.5 * np.sin(angle), np.cos(angle))
    return angle, x, weight / weight.sum()


def distance(x, power, bins=24):
    """Total variation between a histogram of points and that density."""
    angle, _, weight = density(power)
    edges = np.linspace(-np.pi, np.pi, bins + 1)
    found = np.histogram(np.arctan2(x[..., 1], x[..., 0] / 1.5), edges)[0] / x[..., 0].size
    return 0.5 * np.abs(found - np.histogram(angle, edges, weights=weight)[0]).sum()


class MotorNoise(ParameterNoise):
    """The noise of the k-phase motor, which depends on where it is."""

    motor: gb.problems.Motor

    def draw(self, key, params):
        return {"x": self.stds(params) * gb.noise.normal(key, (self.motor.D,))}

    def factor(self, problem, net, params):
        return jnp.diag(self.stds(params))

    def stds(self, params):
        """Outside the circle, where SGD goes, a phase would have less than no variance."""
        return jnp.sqrt(jnp.maximum(self.motor.variances(params["x"]), 0.0))


def motor(D, dynamics_of, until, save_at, key=0):
    machine = gb.problems.Motor(D, (0.6, 0.8))
    net = gb.nets.general(lambda p, X: machine.residual(p["x"])[None, :] * X)
    problem = gb.Regression.half_sum(np.ones((1, 1)), np.zeros((1, D - 1)))
    return gb.Setup(problem, net, {"x": machine.point(0.3)}, dynamics_of(MotorNoise(machine)),
                    until, [gb.observe.params], save_at, key)  # fmt: skip


def turned(x):
    """Angles of the first two coordinates, without jumps along the last axis."""
    return np.unwrap(np.arctan2(x[..., 1], x[..., 0]), axis=-1)
