"""Label noise, isotropic noise, minibatches: special cases against the general formula."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import manifold
from theory.manifold.manifold_cases import CURVE, Z, olm_residual, on_manifold, relative

HYPERBOLA = gb.problems.Hyperbola()
X = on_manifold("diagonal net")
PARAMS = {"u": X[:3], "v": X[3:]}
PROBLEM = gb.Regression.half_mean(Z, Z @ np.array([1.0, -0.5, 0.3]))
NET = gb.Diagonal(3)
J = np.concatenate([2 * Z * X[:3], -2 * Z * X[3:]], axis=1) / 2**0.5
H = J.T @ J
P = np.eye(6) - np.linalg.pinv(J) @ J


def test_label_noise_descends_the_trace():
    """R = (4/n) Σ_j (Σ_i z_ij²)(u_j² + v_j²): its gradient by hand; −¼, not −½ or −⅛."""
    s = 2 * (Z**2).sum(axis=0)
    slope = 2 * np.concatenate([s * X[:3], s * X[3:]])
    expected = -0.7 / 4 * P @ slope
    by_residual = manifold.label_noise_drift(X, 0.7, residual=olm_residual)
    by_loss = manifold.label_noise_drift(X, 0.7, loss=lambda x: 0.5 * jnp.sum(olm_residual(x) ** 2))
    general = manifold.drift(X, 0.7 * H, residual=olm_residual)
    for found in (by_residual, by_loss, general):
        assert relative(found, expected) < 1e-9


@pytest.mark.parametrize("convention", ["half_mean", "mean", "half_sum"])
def test_the_constant_of_a_noise_law(convention):
    """Σ of the law itself, through the general formula; c = δ²/b times the convention's unit."""
    problem = getattr(gb.Regression, convention)(PROBLEM.X, PROBLEM.Y)
    residual = manifold.residuals(problem, NET)
    for noise in (gb.LabelNoise(0.6, 1), gb.LabelNoise(0.6), gb.LabelNoise(0.6, 3, replace=True)):
        fast = manifold.label_noise_drift(PARAMS, noise, residual=residual)
        general = manifold.drift(PARAMS, noise, residual=residual)
        for name in ("u", "v"):
            np.testing.assert_allclose(fast[name], general[name], rtol=1e-9, atol=1e-12)
    b = 2
    c = manifold.label_noise_constant(0.6, b, problem=problem)
    unit = {"half_mean": 1, "mean": 2, "half_sum": 2}[convention]
    assert c == pytest.approx(0.36 / b * unit)


@pytest.mark.parametrize("b, replace", [(1, False), (3, False), (4, False), (3, True)])
def test_conflicting_labels_are_label_noise(b, replace):
    """Σ over all minibatches of the doubled data, one by one, is c·H."""
    doubled = gb.problems.conflicting(PROBLEM, 0.6)
    c = manifold.conflicting_labels_constant(0.6, 4, b, replace, problem=doubled)
    signs = np.array([1, 1, -1, -1])
    rows = -0.6 * signs[:, None] * np.tile(J * 2**0.5, (2, 1))  # gradients of ½(f − y ∓ δ)²
    draws = (
        itertools.product(range(4), repeat=b) if replace else itertools.combinations(range(4), b)
    )
    means = np.array([rows[list(draw)].mean(axis=0) for draw in draws])
    np.testing.assert_allclose(means.T @ means / len(means), c * H, atol=1e-13)
    factor = 1 / b if replace else (4 - b) / (3 * b)
    assert c == pytest.approx(0.36 * factor)
    if b == 3:  # the law itself knows it too, though the residual does not vanish
        noise = gb.Minibatch(b, replace=replace)
        residual = manifold.residuals(doubled, NET)
        found = manifold.drift(PARAMS, noise, residual=residual)
        clean = manifold.label_noise_drift(PARAMS, c, residual=manifold.residuals(PROBLEM, NET))
        np.testing.assert_allclose(found["u"], clean["u"], rtol=1e-9)


def test_isotropic_noise():
    """−¼∇ln|H|₊ along the curve by differences; the curvature part keeps Brownian motion on it."""
    angle, h, variance = 0.7, 1e-4, 2.0
    x = CURVE.point(angle)
    values = [manifold.log_pdet(CURVE.point(angle + s), residual=CURVE.residual) for s in (h, -h)]
    velocity = np.array([-1.5 * np.sin(angle), np.cos(angle)])
    slope = (values[0] - values[1]) / (2 * h) * velocity / (velocity @ velocity)
    found = manifold.isotropic_drift(x, variance, residual=CURVE.residual)
    np.testing.assert_allclose(found.regulariser, -variance / 4 * slope, rtol=1e-6)
    normal = np.array([x[0] / 2.25, x[1]])
    normal /= np.linalg.norm(normal)
    curvature = 1.5 / np.linalg.norm(velocity) ** 3  # of the ellipse
    np.testing.assert_allclose(found.curvature, -variance / 2 * curvature * normal, rtol=1e-9)
    for other in (
        manifold.drift(x, variance * np.eye(2), residual=CURVE.residual),
        manifold.drift(x, gb.Isotropic(variance**0.5), loss=CURVE.loss),
        np.asarray(manifold.isotropic_drift(x, variance, loss=CURVE.loss)),
    ):
        np.testing.assert_allclose(other, found.total, rtol=1e-9)
    alone = manifold.isotropic_regulariser(x, variance, residual=CURVE.residual)
    np.testing.assert_array_equal(alone, found.regulariser)
    gradient = np.array([2 * x[0] / 2.25, 2 * x[1]])
    weight = 1 + 0.6 * np.tanh(x[0]) + 0.3 * x[1] ** 2
    assert manifold.log_pdet(x, loss=CURVE.loss) == pytest.approx(
        np.log(weight * gradient @ gradient), abs=1e-9
    )


def test_the_stationary_density_of_isotropic_noise():
    """The drift along the curve is that of Brownian motion in the potential ½·ln|H|₊ alone."""
    x = HYPERBOLA.limit([2.0, 0.3])
    found = manifold.isotropic_drift(x, residual=HYPERBOLA.residual)
    tangent = np.array([x[0], -x[1]]) / np.linalg.norm(x)
    size = x @ x  # H has the one eigenvalue |x|²
    slope = 2 * (x[0] ** 2 - x[1] ** 2) / size / np.linalg.norm(x)
    assert found.regulariser @ tangent == pytest.approx(-slope / 4, rel=1e-9)


def test_the_flow_of_the_hyperbola():
    """m = x² − y² decays as e^{−ct}: the drift is the speed of the closed flow."""
    x = HYPERBOLA.limit([2.0, 0.3])
    h = 1e-5
    ahead, behind = HYPERBOLA.limiting_flow(x, h, 0.8), HYPERBOLA.limiting_flow(x, 0.0, 0.8)
    found = manifold.label_noise_drift(x, 0.8, residual=HYPERBOLA.residual)
    np.testing.assert_allclose((ahead - behind) / h, found, rtol=1e-4)
    m = np.array([4 - 0.09, (4 - 0.09) * np.exp(-0.8)])
    ends = HYPERBOLA.limiting_flow(x, [0.0, 1.0], 0.8)
    np.testing.assert_allclose(ends[:, 0] ** 2 - ends[:, 1] ** 2, m, rtol=1e-12)


def noisy_labels(f):
    """Two samples, three copies with the label +1 and one with −1: wrong with p = ¼."""
    inputs = np.repeat(np.array([[1.0, 0.4], [-0.3, 1.2]]), 4, axis=0)
    labels = np.tile([1.0, 1.0, 1.0, -1.0], 2)
    x = np.linalg.solve(inputs[::4], [f, f])
    return x, (inputs, labels)


def test_label_noise_fit_for_three_losses():
    """Closed forms at the minimum of the mean loss; other noise is refused by its number."""

    def logistic(x, sample):
        return jnp.log1p(jnp.exp(-sample[1] * (sample[0] @ x)))

    def exponential(x, sample):
        return jnp.exp(-sample[1] * (sample[0] @ x))

    fit = manifold.label_noise_fit(logistic, *noisy_labels(np.log(3)))
    assert fit.c == pytest.approx(1.0)
    assert fit.error < 1e-7
    assert fit.gradient < 1e-12
    fit = manifold.label_noise_fit(exponential, *noisy_labels(np.log(3) / 2))
    assert fit.c == pytest.approx(1 / (2 * np.sqrt(3 / 16)))
    assert fit.error < 1e-7
    _, data = noisy_labels(0.0)
    assert manifold.label_noise_fit(logistic, [2.0, -3.0], data).error > 0.1


def test_label_noise_fit_of_minibatches():
    def square(params, sample):
        return 0.5 * (sample[0] @ (params["u"] ** 2 - params["v"] ** 2) - sample[1]) ** 2

    doubled = gb.problems.conflicting(PROBLEM, 0.6)
    data = (doubled.X, doubled.Y)
    fit = manifold.label_noise_fit(square, PARAMS, data, batch_size=3, replace=False)
    assert fit.c == pytest.approx(0.36 / 9)
    assert fit.error < 1e-7
    assert fit.curvature == pytest.approx(np.linalg.norm(H))
    assert fit.noise == pytest.approx(0.04 * np.linalg.norm(H))
    uneven = (doubled.X, doubled.Y + np.array([0.0, 5.0, 0.0, -5.0]))  # one sample is noisier
    assert 0.1 < manifold.label_noise_fit(square, PARAMS, uneven).error < 1
    clean = manifold.label_noise_fit(square, PARAMS, (PROBLEM.X, PROBLEM.Y))
    assert clean.noise < 1e-15  # interpolated: no noise at all
    with pytest.raises(ValueError, match="common first axis"):
        manifold.label_noise_fit(square, PARAMS, (PROBLEM.X, PROBLEM.Y[:1]))


def test_the_three_clocks():
    lr = 0.1
    assert manifold.limit_to_steps(0.3, lr) == 30  # 0.3/0.1² is 29.999…
    assert manifold.flow_to_steps(0.3, lr) == 3
    assert manifold.steps_to_limit(30, lr) == pytest.approx(0.3)
    assert manifold.steps_to_flow(30, lr) == pytest.approx(3.0)
    assert manifold.limit_to_flow(0.3, lr) == pytest.approx(3.0)
    assert manifold.flow_to_limit(3.0, lr) == pytest.approx(0.3)
    assert manifold.limit_to_steps([0.0, 0.315], lr).tolist() == [0, 31]
    with pytest.raises(ValueError, match="lr must be greater"):
        manifold.limit_to_steps(1.0, 0.0)
    with pytest.raises(ValueError, match="time must be at least 0"):
        manifold.limit_to_steps(-1.0, lr)


@pytest.mark.parametrize(
    "sigma, message",
    [
        (np.eye(3), "sigma must be a \\(6, 6\\) covariance"),
        (np.triu(np.ones((6, 6))), "symmetric.*Factor"),
        (-1.0, "at least 0"),
        (np.full((6, 6), np.nan), "finite"),
        (gb.Minibatch(1), "needs its data"),
        (lambda v: v[:2], "sigma\\(v\\) must have shape"),
        (manifold.Factor(np.ones((4, 2))), "factor with 6 rows"),
    ],
)
def test_covariances_that_do_not_fit(sigma, message):
    with pytest.raises(ValueError, match=message):
        manifold.drift(X, sigma, residual=olm_residual)
