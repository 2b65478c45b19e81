"""Least squares in expectation: exact numbers against samples, with z-scores."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradbias as gb
from gradbias.numerics.host_rng import generator
from gradbias.problems import Batch

SIZE = 20_000


def normal(*shape, key=0):
    return generator(key, "tests.population").standard_normal(shape)


def covariance(size, rank=None, key=0):
    factor = normal(size, rank or size, key=key)
    return factor @ factor.T


# d, k, rank of sigma_x, rank of sigma_eps
CASES = {
    "square": (3, 3, 3, 3),
    "one of each": (1, 1, 1, 1),
    "more outputs": (2, 5, 2, 5),
    "more inputs": (5, 2, 5, 2),
    "singular inputs": (6, 2, 3, 2),
    "singular noise": (3, 3, 3, 1),
}


def build(d, k, rank_x, rank_eps, weight=0.7):
    V = normal(k, d, key=3)
    return gb.Population(covariance(d, rank_x, 1), V, covariance(k, rank_eps, 2), weight)


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return build(*CASES[request.param])


def z_scores(samples, exact):
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return (samples.mean(axis=0) - exact) / error


# --- exact expectations -----------------------------------------------------------------------


def test_loss_is_the_mean_over_samples(case):
    theta = normal(case.d, case.k, key=4)
    x, y = case.sample(SIZE, key=1)
    per_sample = 0.7 * np.sum((x @ theta - y) ** 2, axis=1)
    assert abs(z_scores(per_sample, case.loss(theta))) < 4
    on_sample = gb.Regression(x, y, 0.7 / SIZE).loss(theta)
    assert on_sample == pytest.approx(per_sample.mean(), rel=1e-12)


def test_gradient_is_the_mean_over_samples(case):
    theta = normal(case.d, case.k, key=4)
    x, y = case.sample(SIZE, key=2)
    per_sample = 1.4 * x[:, :, None] * (x @ theta - y)[:, None, :]
    assert np.abs(z_scores(per_sample, case.gradient(theta))).max() < 4
    batch = case.theta_gradient(theta, Batch(x=x, y=y))
    np.testing.assert_allclose(batch, per_sample.mean(axis=0), rtol=1e-9, atol=1e-12)


def test_gradient_is_the_difference_quotient(case):
    theta = normal(case.d, case.k, key=4)
    expected = np.zeros_like(theta)
    for index in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[index] = 1.0  # exact for a quadratic
        expected[index] = (case.loss(theta + step) - case.loss(theta - step)) / 2
    np.testing.assert_allclose(case.gradient(theta), expected, rtol=0, atol=1e-11)


def test_sample_has_the_covariances_it_was_given(case):
    x, y = case.sample(SIZE, key=3)
    noise = y - x @ case.V.T
    for drawn, exact in [(x, case.sigma_x), (noise, case.sigma_eps)]:
        variances = np.diag(exact)
        error = np.sqrt((np.outer(variances, variances) + exact**2) / SIZE)
        assert np.abs((drawn.T @ drawn / SIZE - exact) / error).max() < 4
        assert np.abs(drawn.mean(axis=0) / np.sqrt(variances / SIZE)).max() < 4
    cross = x.T @ noise / SIZE
    error = np.sqrt(np.outer(np.diag(case.sigma_x), np.diag(case.sigma_eps)) / SIZE)
    assert np.abs(cross / error).max() < 4


def test_samples_are_a_function_of_the_key():
    problem = build(*CASES["square"])
    np.testing.assert_array_equal(problem.sample(5, key=7)[0], problem.sample(5, key=7)[0])
    assert np.all(problem.sample(5, key=7)[0] != problem.sample(5, key=8)[0])


# --- minimum ----------------------------------------------------------------------------------


def test_minimum(case):
    assert case.rank == np.linalg.matrix_rank(case.sigma_x)
    assert case.min_loss == pytest.approx(0.7 * np.trace(case.sigma_eps), rel=1e-14)
    assert case.loss(case.theta_star) == pytest.approx(case.min_loss, rel=1e-14)
    assert case.loss(case.min_norm) == pytest.approx(case.min_loss, rel=1e-12)
    # The pseudo-inverse of the covariance knows the same minimiser of least norm.
    by_pinv = np.linalg.pinv(case.sigma_x, rcond=1e-12) @ case.sigma_x @ case.V.T
    np.testing.assert_allclose(case.min_norm, by_pinv, rtol=0, atol=1e-11)


def test_excess_is_the_loss_above_its_minimum(case):
    theta = normal(case.d, case.k, key=4)
    difference = case.loss(theta) - case.min_loss
    assert case.excess()(theta) == pytest.approx(difference, rel=1e-12)


@pytest.mark.parametrize("size", [1e-6, 1e-10, 1e-14])
def test_excess_keeps_its_digits(size):
    problem = build(*CASES["square"])
    theta = problem.theta_star + size * normal(3, 3, key=5)
    error = theta - problem.theta_star  # exact: the two are close
    expected = 0.7 * np.trace(error.T @ problem.sigma_x @ error)
    assert problem.excess()(theta) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("size", [1.0, 1e3])
def test_excess_does_not_see_the_null_space(size):
    # tr E' sigma_x E would be about -1e-16 size² here, and its logarithm not a number.
    problem = build(*CASES["singular inputs"])
    null = np.linalg.svd(problem.sigma_x)[0][:, 3:]
    theta = problem.theta_star + size * null @ normal(3, 2, key=6)
    assert 0 <= problem.excess()(theta) < 1e-26 * size**2


def test_no_covariance_at_all():
    problem = gb.Population(np.zeros((2, 2)), np.ones((3, 2)), np.zeros((3, 3)))
    assert problem.rank == 0 and problem.min_loss == 0 == problem.loss(normal(2, 3))
    np.testing.assert_array_equal(problem.min_norm, np.zeros((2, 3)))
    np.testing.assert_array_equal(problem.sample(4)[1], np.zeros((4, 3)))


def test_rounding_below_zero_is_no_direction():
    # An eigenvalue of -1e-13 would be a direction in which the loss has no minimum.
    problem = gb.Population(np.diag([1.0, -1e-13]), np.eye(2), np.eye(2))
    assert problem.rank == 1
    assert problem.loss(np.diag([1.0, 1e8])) == pytest.approx(2.0, rel=1e-12)


# --- draws and jax ----------------------------------------------------------------------------


def test_label_noise_is_added_to_fresh_labels():
    problem = build(*CASES["more inputs"])
    x, y = problem.sample(6)
    noise, theta = normal(6, 2, key=7), normal(5, 2, key=8)
    got = problem.theta_gradient(theta, Batch(x=x, y=y, label_noise=noise))
    expected = problem.theta_gradient(theta, Batch(x=x, y=y + noise))
    np.testing.assert_array_equal(got, expected)


def test_net_loss_differentiates_to_the_predictor_gradient():
    problem = build(*CASES["more inputs"])
    net = gb.nets.linear(lambda params: params["theta"])
    x, y = problem.sample(6)
    batch = Batch(x=x, y=y)
    theta = normal(5, 2, key=8)
    with gb.float64():
        slope = jax.grad(lambda t: problem.net_loss(net, {"theta": t}, batch))(theta)
    np.testing.assert_allclose(slope, problem.theta_gradient(theta, batch), rtol=1e-12)


def test_what_a_population_cannot_do_is_said():
    problem = build(*CASES["square"])
    net = gb.MLP([3, 4, 3])
    with pytest.raises(ValueError, match="MLP needs fresh samples"):
        problem.net_loss(net, {})
    with pytest.raises(ValueError, match="a batch needs fresh x and y"):
        problem.theta_gradient(np.eye(3), Batch(indices=np.array([0])))


@pytest.mark.smoke
def test_the_same_numbers_inside_jit(case):
    theta = normal(case.d, case.k, key=4)
    excess = case.excess()
    with gb.float64():
        loss = float(jax.jit(lambda p, t: p.loss(t))(case, theta))
        captured = float(jax.jit(lambda t: case.loss(t))(theta))
        gradient = np.asarray(jax.jit(lambda t: case.gradient(t))(theta))
        above = float(jax.jit(lambda e, t: e(t))(excess, theta))
    assert loss == pytest.approx(case.loss(theta), rel=1e-13)
    assert captured == pytest.approx(case.loss(theta), rel=1e-13)
    assert above == pytest.approx(excess(theta), rel=1e-13)
    np.testing.assert_allclose(gradient, case.gradient(theta), rtol=0, atol=1e-12)


# --- bad input --------------------------------------------------------------------------------

SIZES = st.sampled_from([1, 2, 5])
NAMES = st.sampled_from(["sigma_x", "V", "sigma_eps"])


def arguments(d=2, k=3):
    return {"sigma_x": np.eye(d), "V": np.ones((k, d)), "sigma_eps": np.eye(k)}


@given(d=SIZES, k=SIZES, name=NAMES, bad=st.sampled_from([np.nan, np.inf]), data=st.data())
def test_a_bad_number_anywhere_is_named(d, k, name, bad, data):
    given_arguments = arguments(d, k)
    array = given_arguments[name]
    array[tuple(data.draw(st.integers(0, size - 1)) for size in array.shape)] = bad
    with pytest.raises(ValueError, match=f"^{name} must be finite"):
        gb.Population(**given_arguments)


@given(name=NAMES, value=st.sampled_from(["V", None, {}, 1j, [[1, 2], [3]], [["a"]], object()]))
def test_what_is_not_numbers_is_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be an array of real numbers"):
        gb.Population(**(arguments() | {name: value}))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sigma_x", np.eye(3), r"must have shape \(2, 2\), got \(3, 3\)"),
        ("sigma_x", np.ones(2), r"must have shape \(2, 2\), got \(2,\)"),
        ("sigma_x", 1.0, r"must have shape \(2, 2\), got \(\)"),
        ("sigma_eps", np.eye(2), r"must have shape \(3, 3\), got \(2, 2\)"),
        ("sigma_x", [[1, 0.5], [0, 1]], "must be symmetric, got an asymmetry of 0.5"),
        ("sigma_x", [[1, 2], [2, 1]], "must be positive semi-definite, got an eigenvalue of -1"),
        ("sigma_eps", -np.eye(3), "must be positive semi-definite, got an eigenvalue of -1"),
        ("sigma_x", 1e-200 * np.diag([1, -1]), "must be positive semi-definite"),
        ("V", np.ones(2), r"must have 2 axes, got shape \(2,\)"),
        ("V", np.ones((3, 0)), r"must not be empty, got shape \(3, 0\)"),
        ("weight", 0, "must be greater than 0, got 0"),
        ("weight", -1, "must be greater than 0, got -1"),
    ],
)
def test_bad_arguments_are_named(name, value, message):
    with pytest.raises(ValueError, match=f"^{name} {message}"):
        gb.Population(**(arguments() | {name: value}))


@pytest.mark.parametrize(("name", "value"), [("size", 0), ("size", 2.0), ("key", -1), ("key", 0.5)])
def test_bad_draws_are_named(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a whole number"):
        build(*CASES["square"]).sample(**({"size": 3} | {name: value}))


@given(theta=st.sampled_from([np.ones(3), np.ones((2, 3)).T, "theta", np.full((2, 3), np.nan)]))
def test_bad_predictor_is_named(theta):
    with pytest.raises(ValueError, match="^theta must"):
        gb.Population(**arguments()).loss(theta)
