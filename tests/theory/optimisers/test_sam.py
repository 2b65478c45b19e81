"""The orbit of sharpness-aware minimisation and its drift, against its own steps."""

import numpy as np
import pytest

from gradbias.theory.optimisers import sam_factor, sam_orbit


@pytest.mark.parametrize(("lr", "curvature"), [(0.05, 1.0), (0.3, 2.5), (1.0, 1.5)])
def test_orbit(lr, curvature):
    """x ← x − lr·λ(x + ρ·sign x), from anywhere."""
    rho, x = 0.03, 1.0
    for _ in range(2000):
        x -= lr * curvature * (x + rho * np.sign(x))
    assert abs(x) == pytest.approx(sam_orbit(lr, rho, curvature), rel=1e-9)


@pytest.mark.parametrize("lr", [0.1, 0.5])
def test_drift_of_one_step(lr):
    """−lr·½h'(z)(x + ρ)² on the orbit is −½h'·factor·lr·ρ², exactly: x + ρ is 2ρ/(2 − lr·h)."""
    rho, h, slope = 0.01, 1.7, 0.6
    step = -lr * slope / 2 * (float(sam_orbit(lr, rho, h)) + rho) ** 2
    assert step == pytest.approx(-slope / 2 * float(sam_factor(lr, h)) * lr * rho**2, rel=1e-12)
    assert sam_factor(1e-9, h) == pytest.approx(1)


def test_what_is_not_stable_is_refused():
    with pytest.raises(ValueError, match=r"sharpness must be between 0 and 2/lr = 20, got 1 to 20"):
        sam_factor(0.1, [1.0, 20.0])
    with pytest.raises(ValueError, match="rho must be greater than 0, got 0"):
        sam_orbit(0.1, 0.0, 1.0)
