"""The limit where noise diffuses along the manifold: an ellipse, and the motor's circle."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

import gradbias as gb
from gradbias._manifold.target import target_at
from gradbias.limit._drifts import tangent_drift
from gradbias.limit._rank import space_of
from gradbias.theory import manifold
from gradbias.theory.manifold import Factor
from limit.curves import density, diffused, distance

TIMES = np.arange(20.0, 41.0, 2.0)


def test_isotropic_noise_has_the_density_of_small_determinants():
    x = diffused(150, 0.05, TIMES)
    _, cells, weight = density(-0.5)
    for moment in (lambda x: x[..., 0], lambda x: x[..., 0] ** 2, lambda x: x[..., 1]):
        means = moment(x).mean(axis=1)  # times of one member are not independent
        error = means.mean() - weight @ moment(cells)
        assert abs(error) < 4 * means.std() / len(means) ** 0.5 + 0.01
    assert distance(x, -0.5) < 0.06 < 0.1 < min(distance(x, -1.0), distance(x, 0.0))


def test_a_step_that_is_too_large_is_flagged():
    """Normal lines then miss the ellipse; no state off it is ever shown."""
    assert np.isnan(diffused(150, 2.0, TIMES, all_arrive=False)).any()


def test_all_of_the_drift_but_what_a_retraction_supplies():
    """Correlated noise along and across the motor's circle, against the theory's own function."""
    machine = gb.problems.Motor(5, (0.6, 0.8))
    x, sigma = machine.point(0.3), np.random.default_rng(1).standard_normal((5, 2))
    full = manifold.drift(x, sigma, residual=machine.residual)
    tangent = np.array([-x[1], x[0], 0, 0, 0])
    assert abs(full @ tangent) > 0.1
    with gb.float64():
        for given in ({"residual": machine.residual}, {"loss": machine.loss}):
            target, flat = target_at(x, given.get("loss"), given.get("residual"))
            found = _drift(target, flat, sigma)
            np.testing.assert_allclose(found, (full @ tangent) * tangent, atol=1e-12)


@eqx.filter_jit
def _drift(target, flat, sigma):
    flat, sigma = jnp.asarray(flat), jnp.asarray(sigma)
    return tangent_drift(target, flat, space_of(target, flat), Factor(sigma))
