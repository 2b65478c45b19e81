"""Any per-sample loss: against Regression, closed forms and difference quotients, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradbias as gb
from gradbias.numerics.host_rng import generator
from gradbias.problems import Batch


def normal(*shape, key=0):
    return generator(key, "tests.samples").standard_normal(shape)


def squared(output, y):
    return jnp.sum((output - y) ** 2)


def logistic(output, y):
    return jnp.logaddexp(0.0, -y * output)


def cross_entropy(output, y):
    return jax.nn.logsumexp(output) - jnp.dot(output, y)


def signs(n):
    return np.where(np.arange(n) % 3, 1.0, -1.0)


def difference_quotient(function, theta, h=1e-4):
    """Fourth order, so that 1e-4 leaves an error of 1e-12."""
    slope = np.zeros_like(theta)
    for index in np.ndindex(theta.shape):
        e = np.zeros_like(theta)
        e[index] = h
        near = function(theta + e) - function(theta - e)
        far = function(theta + 2 * e) - function(theta - 2 * e)
        slope[index] = (8 * near - far) / (12 * h)
    return slope


# --- numbers ----------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("shape", [(4, 6, None), (7, 3, 2), (1, 1, 1), (2, 3, 5)])
def test_squared_loss_is_regression(shape):
    n, d, k = shape
    columns = () if k is None else (k,)
    X, Y, theta = normal(n, d), normal(n, *columns, key=1), normal(d, *columns, key=2)
    ours, exact = gb.Samples(squared, X, Y), gb.Regression.mean(X, Y)
    assert (ours.n, ours.d, ours.k, ours.vector) == (exact.n, exact.d, exact.k, exact.vector)
    assert isinstance(ours.loss(theta), float)
    assert ours.loss(theta) == pytest.approx(exact.loss(theta), rel=1e-12)
    gradient = ours.gradient(theta)
    assert isinstance(gradient, np.ndarray) and gradient.dtype == np.float64
    np.testing.assert_allclose(gradient, exact.gradient(theta), rtol=1e-12, atol=1e-13)


def test_the_global_flag_stays_as_it_was():
    before = jax.config.jax_enable_x64
    problem = gb.Samples(squared, np.full((1, 1), 1 + 1e-12), np.ones(1))
    # In single precision the residual of 1e-12 is zero.
    assert problem.loss([1.0]) == pytest.approx(1e-24, rel=1e-3)
    assert problem.gradient([1.0])[0] == pytest.approx(2e-12, rel=1e-3)
    assert jax.config.jax_enable_x64 == before


def test_logistic_loss():
    X, y, theta = normal(8, 3), signs(8), normal(3, key=1)
    problem = gb.Samples(logistic, X, y)
    margins = y * (X @ theta)
    assert problem.loss(theta) == pytest.approx(np.mean(np.log1p(np.exp(-margins))), rel=1e-12)
    exact = -(X.T @ (y / (1 + np.exp(margins)))) / 8
    np.testing.assert_allclose(problem.gradient(theta), exact, rtol=1e-12, atol=1e-15)
    by_differences = difference_quotient(problem.loss, theta)
    np.testing.assert_allclose(problem.gradient(theta), by_differences, rtol=0, atol=1e-11)


def test_cross_entropy():
    X, Y, theta = normal(8, 3), np.eye(4)[np.arange(8) % 4], normal(3, 4, key=1)
    problem = gb.Samples(cross_entropy, X, Y)
    outputs = X @ theta
    expected = np.mean(np.log(np.exp(outputs).sum(1)) - (outputs * Y).sum(1))
    assert problem.loss(theta) == pytest.approx(expected, rel=1e-12)
    by_differences = difference_quotient(problem.loss, theta)
    np.testing.assert_allclose(problem.gradient(theta), by_differences, rtol=0, atol=1e-11)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_gradient_has_the_shape_of_the_predictor(shape):
    problem = gb.Samples(logistic, normal(8, 3), signs(8))
    theta = normal(3, key=1)
    assert problem.gradient(theta.reshape(shape)).shape == shape
    assert problem.loss(theta.reshape(shape)) == problem.loss(theta)


@pytest.mark.smoke
def test_the_same_numbers_inside_jit():
    problem = gb.Samples(logistic, normal(8, 3), signs(8))
    theta = normal(3, key=1)
    with gb.float64():
        loss = float(jax.jit(lambda t: problem.loss(t))(theta))
        gradient = np.asarray(jax.jit(lambda p, t: p.gradient(t))(problem, theta))
    assert loss == pytest.approx(problem.loss(theta), rel=1e-13)
    np.testing.assert_allclose(gradient, problem.gradient(theta), rtol=1e-13)


# --- draws ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 2])
def test_batches_see_what_regression_sees(k):
    columns = () if k is None else (k,)
    X, Y = normal(5, 3), normal(5, *columns, key=1)
    ours, exact = gb.Samples(squared, X, Y), gb.Regression.mean(X, Y)
    net, params = gb.nets.linear(lambda p: p["theta"]), {"theta": normal(3, k or 1, key=2)}
    rows, noise = np.array([4, 0]), normal(2, k or 1, key=3)
    batches = [
        None,
        Batch(indices=rows),
        Batch(indices=rows, label_noise=noise),
        Batch(label_noise=normal(5, k or 1, key=4)),
        Batch(x=X[:2], y=noise),
    ]
    for batch in batches:
        with gb.float64():
            got = float(ours.net_loss(net, params, batch))
            expected = float(exact.net_loss(net, params, batch))
        assert got == pytest.approx(expected, rel=1e-12)


def test_rows_that_jax_is_tracing():
    problem = gb.Samples(squared, normal(5, 3), normal(5, key=1))
    net, params = gb.nets.linear(lambda p: p["theta"]), {"theta": normal(3, 1, key=2)}
    rows = np.array([4, 0])
    with gb.float64():
        got = float(jax.jit(lambda r: problem.net_loss(net, params, Batch(indices=r)))(rows))
        expected = float(problem.net_loss(net, params, Batch(indices=rows)))
    assert got == pytest.approx(expected, rel=1e-13)


# --- bad input --------------------------------------------------------------------------------

SIZES = st.sampled_from([1, 2, 5])


@given(n=SIZES, d=SIZES, name=st.sampled_from(["X", "Y"]), data=st.data())
def test_a_bad_number_anywhere_is_named(n, d, name, data):
    arrays = {"X": np.ones((n, d)), "Y": np.ones(n)}
    array = arrays[name]
    where = tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)
    array[where] = data.draw(st.sampled_from([np.nan, np.inf]))
    with pytest.raises(ValueError, match=f"^{name} must be finite"):
        gb.Samples(squared, **arrays)


@given(
    name=st.sampled_from(["X", "Y"]),
    value=st.sampled_from(["X", None, {}, 1j, [[1, 2], [3]], object(), 1.0, np.ones((2, 2, 2))]),
)
def test_what_is_no_data_is_named(name, value):
    arrays = {"X": np.ones((2, 3)), "Y": np.ones(2), name: value}
    with pytest.raises(ValueError, match=f"^{name} must"):
        gb.Samples(squared, **arrays)


@pytest.mark.parametrize(("X", "Y"), [((0, 2), 0), ((3, 0), 3), ((3, 2), (3, 0)), ((3, 2), 2)])
def test_shapes_that_do_not_fit_are_named(X, Y):
    with pytest.raises(ValueError, match="^X and Y must"):
        gb.Samples(squared, np.ones(X), np.ones(Y))


@pytest.mark.parametrize("loss", [None, "squared", 3, np.ones(2)])
def test_a_loss_that_is_no_function_is_named(loss):
    with pytest.raises(ValueError, match="^loss must be a function"):
        gb.Samples(loss, np.ones((2, 3)), np.ones(2))


def test_a_loss_of_several_numbers_is_named():
    # Averaging them silently would divide the loss by the number of outputs.
    problem = gb.Samples(lambda output, y: (output - y) ** 2, np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"^loss must return one number for a sample.*\(4,\)"):
        problem.loss(np.ones((3, 4)))


@given(theta=st.sampled_from([np.ones(2), np.ones((3, 2)), "theta", np.full(3, np.nan)]))
def test_bad_predictor_is_named(theta):
    problem = gb.Samples(logistic, np.ones((2, 3)), np.ones(2))
    for method in (problem.loss, problem.gradient):
        with pytest.raises(ValueError, match="^theta must"):
            method(theta)
