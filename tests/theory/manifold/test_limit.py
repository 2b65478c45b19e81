"""Φ, its derivative and the tangent space: against SciPy, and where they must refuse."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias.theory import manifold
from theory.manifold.manifold_cases import (
    CASES,
    FIT,
    generic_loss,
    limits,
    linear_residual,
    on_manifold,
    polished,
    relative,
    tanh_residual,
)

HYPERBOLA = gb.problems.Hyperbola()


# Of residuals the two tests below ask the same in the quick set.
@pytest.mark.parametrize("name", [pytest.param("linear net", marks=pytest.mark.slow), "generic"])
def test_the_limit_of_the_flow(name):
    case = CASES[name]
    found = manifold.limit_point(case.start, **case.given)
    assert found.info.converged
    assert found.info.rank == case.rank
    assert found.info.distance < 1e-12
    assert found.info.steps < 1000
    np.testing.assert_allclose(found.x, on_manifold(name), rtol=0, atol=1e-10)
    nearest = polished(case.constraint, case.start)  # Gauss–Newton from far is something else
    assert np.linalg.norm(nearest - found.x) > 1e-3


def test_the_closed_limit_at_any_scale():
    """From a start near the saddle, from far, and for a tiny or huge loss."""
    for x0 in ([3.0, 0.1], [-1e-3, -2e-3], [1e-3, -1.0001e-3], [-0.3, 30.0]):
        found = manifold.limit_point(x0, residual=Scaled(np.asarray(1.0)))
        assert found.info.converged
        np.testing.assert_allclose(found.x, HYPERBOLA.limit(x0), rtol=1e-8)
    for scale in (1e-140, 1e-60, 1e140):
        found = manifold.limit_point([3.0, 0.1], residual=Scaled(np.asarray(scale)))
        assert found.info.converged
        np.testing.assert_allclose(found.x, HYPERBOLA.limit([3.0, 0.1]), rtol=1e-9)


class Scaled(eqx.Module):
    """A residual that is multiplied with a number."""

    factor: np.ndarray

    def __call__(self, x):
        return self.factor * HYPERBOLA.residual(x)


@pytest.mark.slow
def test_the_derivative_off_the_manifold():
    """Differences of SciPy's Φ; C.2; on the manifold it is the projector (4.3)."""
    name = "tanh net"
    case = CASES[name]
    x0, D = case.start, case.start.size
    J = manifold.limit_jacobian(x0, **case.given)
    h = 1e-3
    ends = limits(case, x0 + np.concatenate([h * np.eye(D), -h * np.eye(D)]))
    halves = limits(case, x0 + h / 2 * np.concatenate([np.eye(D), -np.eye(D)]))
    rough, fine = (ends[:D] - ends[D:]) / (2 * h), (halves[:D] - halves[D:]) / h
    assert relative(J, ((4 * fine - rough) / 3).T) < 1e-8
    assert np.linalg.norm(J - J.T) > 0.01
    assert np.linalg.matrix_rank(J, tol=1e-8) == D - case.rank
    g = case.gradient(x0)
    assert np.linalg.norm(J @ g) < 1e-8 * np.linalg.norm(g)
    P = manifold.tangent_projector(on_manifold(name), **case.given)
    at = manifold.limit_jacobian(on_manifold(name), **case.given)
    np.testing.assert_allclose(at, P.dense(), atol=1e-9)


@pytest.mark.slow
def test_the_derivative_of_the_derivative_along_the_flow():
    """C.2: ∂²Φ[∇L, ∇L] = −∂Φ H ∇L, off the manifold."""
    case = CASES["generic"]
    x0 = case.start
    g = case.gradient(x0)
    Hg = (case.gradient(x0 + 1e-5 * g) - case.gradient(x0 - 1e-5 * g)) / 2e-5
    J = [manifold.limit_jacobian(x0 + s * g, loss=generic_loss) @ g for s in (1e-4, -1e-4)]
    right = -manifold.limit_jacobian(x0, loss=generic_loss) @ Hg
    assert relative((J[0] - J[1]) / 2e-4, right) < 1e-6


def test_trees_and_modules():
    """A dict, and a module with a function inside, give what the flat vector gives."""
    params = FIT.start()
    flat = np.concatenate([params["W1"][0], params["W2"], params["b1"]])
    expected = limits(CASES["tanh net"], flat[None])[0]
    found = manifold.limit_point(params, residual=FIT.residual).x
    assert found["W1"].shape == (1, 4)
    np.testing.assert_allclose(
        np.concatenate([found["W1"][0], found["W2"], found["b1"]]), expected, atol=1e-9
    )
    np.testing.assert_allclose(tanh_residual(expected), 0, atol=1e-12)

    class Net(eqx.Module):
        first: np.ndarray
        second: np.ndarray
        activation: object

    def residual(net):
        hidden = net.activation(FIT.X @ net.first[:1] + net.first[1:])
        return (hidden @ net.second - FIT.Y) / 3**0.5

    net = Net(np.stack([found["W1"][0], found["b1"]]), found["W2"], jnp.tanh)
    slow = manifold.label_noise_drift(net, 0.5, residual=residual)
    tree = manifold.label_noise_drift(found, 0.5, residual=FIT.residual)
    np.testing.assert_allclose(slow.first[0], tree["W1"][0], atol=1e-10)
    np.testing.assert_allclose(slow.second, tree["W2"], atol=1e-10)
    assert slow.activation is None  # like a gradient: ready for eqx.apply_updates
    moved = eqx.apply_updates(net, slow)
    assert moved.activation is jnp.tanh


@pytest.mark.slow
def test_many_parameters_without_a_matrix():
    """Below 200 parameters and above; against a dense SVD, with and without samples."""
    rng = np.random.default_rng(0)
    net = gb.MLP([7, 26], "linear", bias=False)
    X, W = rng.standard_normal((5, 7)), rng.standard_normal((7, 26))
    problem = gb.Regression.mean(X, X @ W)
    residual = manifold.residuals(problem, net)
    J = np.sqrt(2 / 5) * np.kron(X, np.eye(26))
    expected = np.eye(182) - np.linalg.pinv(J) @ J
    small = manifold.tangent_projector({"W1": W}, residual=residual)
    np.testing.assert_allclose(small.dense(), expected, atol=1e-12)
    np.testing.assert_allclose(small @ np.eye(182), expected, atol=1e-12)
    wide = np.concatenate([W, 0 * W[:, :10]], axis=1)

    def more(params):
        return X @ params["W1"] - X @ wide

    for function in (more, lambda p: jnp.tile(more(p), 2)):
        P = manifold.tangent_projector({"W1": wide}, residual=function)
        assert isinstance(P, manifold.TangentProjector)
        np.testing.assert_allclose(P.dense(), P @ np.eye(252), atol=1e-12)
        assert P.rank == 180
        Jw = np.kron(X, np.eye(36))
        v = rng.standard_normal((252, 3))
        np.testing.assert_allclose(P @ v, v - np.linalg.pinv(Jw) @ (Jw @ v), atol=1e-11)
        np.testing.assert_allclose(P.T @ v[:, 0], P @ v[:, 0], atol=1e-14)
        assert P.gap > 1e10
    by_loss = manifold.tangent_projector({"W1": wide}, loss=lambda p: 0.5 * jnp.sum(more(p) ** 2))
    assert by_loss.rank == 180
    np.testing.assert_allclose(by_loss @ v, P @ v, atol=1e-10)


def test_a_point_off_the_manifold_is_refused():
    for call in (
        lambda x: manifold.tangent_projector(x, residual=HYPERBOLA.residual),
        lambda x: manifold.drift(x, 1.0, loss=HYPERBOLA.loss),
        lambda x: manifold.label_noise_drift(x, 1.0, residual=HYPERBOLA.residual),
        lambda x: manifold.log_pdet(x, residual=HYPERBOLA.residual),
    ):
        with pytest.raises(ValueError, match="on the manifold.*limit_point"):
            call([1.0, 1.01])
    for saddle in ({"residual": HYPERBOLA.residual}, {"loss": HYPERBOLA.loss}):
        with pytest.raises(ValueError, match="saddle"):
            manifold.tangent_projector([0.0, 0.0], **saddle)
        with pytest.warns(UserWarning, match="did not converge.*saddle"):
            assert not manifold.limit_point([0.0, 0.0], **saddle).info.converged


def test_a_misfit_is_refused_but_its_loss_is_not():
    """Where the residual does not vanish JᵀJ is not the Hessian."""

    def residual(x):
        return jnp.stack([x[0] * x[0] - 1.0, x[0] - 0.5])

    x = np.array([np.roots([2.0, 0.0, -1.0, -0.5])[0].real, 0.3])
    with pytest.raises(ValueError, match="give loss="):
        manifold.tangent_projector(x, residual=residual)
    P = manifold.tangent_projector(x, loss=lambda x: 0.5 * jnp.sum(residual(x) ** 2))
    np.testing.assert_allclose(P.dense(), np.diag([0.0, 1.0]), atol=1e-12)


def test_a_rank_without_a_gap_is_flagged():
    scales = np.array([1.0, 1e-9, 3e-11, 1e-12])
    with pytest.warns(UserWarning, match="no spectral gap.*rank="):
        manifold.tangent_projector(np.ones(4), residual=lambda x: scales * (x - 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clear = manifold.tangent_projector(np.ones(4), residual=lambda x: scales**4 * (x - 1))
    np.testing.assert_allclose(clear.dense(), np.diag([0.0, 1, 1, 1]), atol=1e-14)
    with pytest.raises(ValueError, match="rank must be at most 4, .*got 5"):
        manifold.tangent_projector(on_manifold("linear net"), residual=linear_residual, rank=5)


@pytest.mark.slow
def test_flows_that_do_not_converge_say_so():
    def separable(x):
        return jnp.log1p(jnp.exp(-x[0])) + 0.0 * x[1]

    with pytest.warns(UserWarning, match="infimum at infinity|not enough"):
        found = manifold.limit_point([0.1, 0.2], loss=separable, max_steps=3000)
    assert not found.info.converged
    with pytest.raises(ValueError, match="did not converge"):
        manifold.limit_jacobian([0.1, 0.2], loss=separable, max_steps=3000)
    stiff = np.array([1.0, 1e-5])
    with pytest.warns(UserWarning, match="3000 steps were not enough.*max_steps"):
        slow = manifold.limit_point([3.0, 2.0], residual=lambda x: stiff * (x - 1), max_steps=3000)
    assert not slow.info.converged
    assert slow.info.steps == 3000
    with pytest.raises(ValueError, match="rtol must be at most stop/100"):
        manifold.limit_point([3.0, 0.1], residual=HYPERBOLA.residual, rtol=1e-7)
    with pytest.raises(ValueError, match="not finite|left the real numbers"):
        manifold.limit_point([1.0, 2.0], loss=lambda x: -jnp.exp(x[0]) * x[1])


@pytest.mark.parametrize(
    "x, given, message",
    [
        ([1.0, 1.0], {}, "either loss= or residual=.*neither"),
        ([1.0, 1.0], {"loss": jnp.sum, "residual": jnp.sin}, "got both"),
        ([1.0, np.nan], {"residual": jnp.sin}, "x must be finite"),
        ([], {"residual": jnp.sin}, "x must"),
        ([1.0, 1.0], {"loss": jnp.sin}, "loss\\(x\\) must be one number"),
        ([1.0, 1.0], {"loss": 3}, "loss must be a jax function"),
        ([1.0, 1.0], {"residual": lambda x: x > 0}, "must be real numbers"),
    ],
)
def test_what_is_refused_before_anything_is_compiled(x, given, message):
    with pytest.raises(ValueError, match=message):
        manifold.limit_point(x, **given)


def test_single_precision_is_raised_with_a_warning():
    x = np.array([1.0, 1.0], dtype=np.float32)
    with pytest.warns(UserWarning, match="x is float32"):
        P = manifold.tangent_projector(x, residual=HYPERBOLA.residual)
    assert P.dtype == np.float64
    with pytest.raises(ValueError, match="traced"):
        jax.jit(lambda x: manifold.log_pdet(x, residual=HYPERBOLA.residual))(x)


def test_one_parameter_and_one_residual():
    """A manifold of isolated points: nothing is tangent."""
    found = manifold.limit_point([2.0], residual=lambda x: x * x - 1)
    np.testing.assert_allclose(found.x, [1.0], atol=1e-12)
    assert manifold.tangent_projector(found.x, residual=lambda x: x * x - 1).dense() == 0
    assert manifold.second_derivative([1.0], 1.0, residual=lambda x: x * x - 1).total[0] == 0
    flat = manifold.second_derivative([1.0, 2.0], 1.0, loss=lambda x: 0.0 * jnp.sum(x))
    np.testing.assert_array_equal(flat.total, 0)  # everything is a minimum
