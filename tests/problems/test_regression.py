"""Least squares on finite data: every shape and rank, against brute force and foreign solvers."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradbias as gb
from gradbias.numerics.host_rng import generator
from gradbias.problems import Batch

EPS = np.finfo(float).eps


def normal(*shape, key=0):
    return generator(key, "tests.regression").standard_normal(shape)


def with_tiny_singular_value():
    U, _ = np.linalg.qr(normal(4, 4, key=1))
    V, _ = np.linalg.qr(normal(6, 6, key=2))
    return (U * [3.0, 2.0, 1.0, 1e-18]) @ V[:4]


def twice(array, axis):
    return np.concatenate([array, array], axis=axis)


# name: X, Y, rank of X
CASES = {
    "more inputs than samples": (normal(3, 7), normal(3, 2, key=1), 3),
    "more samples than inputs": (normal(9, 4), normal(9, 2, key=1), 4),
    "square": (normal(4, 4), normal(4, 3, key=1), 4),
    "vector labels": (normal(3, 7), normal(3, key=1), 3),
    "one column": (normal(3, 7), normal(3, 1, key=1), 3),
    "more outputs than inputs": (normal(5, 2), normal(5, 6, key=1), 2),
    "one sample": (normal(1, 5), normal(1, key=1), 1),
    "one input": (normal(6, 1), normal(6, key=1), 1),
    "one number": ([[2.0]], [3.0], 1),
    "rows twice, same labels": (twice(normal(3, 7), 0), twice(normal(3, 2, key=1), 0), 3),
    "rows twice, other labels": (twice(normal(3, 7), 0), normal(6, 2, key=1), 3),
    "columns twice": (twice(normal(8, 3), 1), normal(8, 2, key=1), 3),
    "low rank": (normal(6, 2) @ normal(2, 8, key=1), normal(6, 2, key=2), 2),
    "tiny singular value": (with_tiny_singular_value(), normal(4, 2, key=3), 3),
    "zero X": (np.zeros((3, 4)), normal(3, 2, key=1), 0),
    "large scale": (1e120 * normal(3, 7), 1e120 * normal(3, key=1), 3),
    "small scale": (1e-120 * normal(3, 7), 1e-120 * normal(3, key=1), 3),
    "whole numbers": ([[1, 0, 2], [0, 1, 1]], [1, 2], 2),
}


def close(a, b, scale, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


@pytest.fixture(params=CASES, ids=str)
def case(request):
    X, Y, rank = CASES[request.param]
    return gb.Regression(X, Y, 0.7), rank


def predictor(problem, key=5):
    """A predictor of the size of the labels over the data."""
    data = np.linalg.norm(problem.X)
    size = np.linalg.norm(problem.Y) / data if data > 0 else 1.0
    return size * normal(problem.d, problem.k, key=key)


# --- loss and gradient ------------------------------------------------------------------------


def brute_force_loss(problem, theta):
    total = 0.0
    for i, j in itertools.product(range(problem.n), range(problem.k)):
        output = sum(problem.X[i, a] * theta[a, j] for a in range(problem.d))
        total += 0.7 * (output - problem.labels[i, j]) ** 2
    return total


def test_loss_is_the_weighted_sum_of_squares(case):
    problem, _ = case
    theta = predictor(problem)
    assert problem.loss(theta) == pytest.approx(brute_force_loss(problem, theta), rel=1e-12)


def test_gradient_is_the_difference_quotient(case):
    problem, _ = case
    theta = predictor(problem)
    h = np.linalg.norm(theta)  # a central difference of a quadratic is exact for any step
    expected = np.zeros_like(theta)
    for index in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[index] = h
        above, below = problem.loss(theta + step), problem.loss(theta - step)
        expected[index] = (above - below) / (2 * h)
    close(problem.gradient(theta), expected, problem.loss(theta) / h + np.abs(expected).max())


def test_vector_and_column_are_the_same_problem():
    X, y = normal(3, 7), normal(3, key=1)
    vector, column = gb.Regression.mean(X, y), gb.Regression.mean(X, y[:, None])
    theta = normal(7, key=2)
    assert vector.vector and not column.vector and vector.k == column.k == 1
    assert vector.min_norm.shape == (7,) and column.min_norm.shape == (7, 1)
    np.testing.assert_array_equal(vector.min_norm, column.min_norm[:, 0])
    for problem in (vector, column):
        for given_theta in (theta, theta[:, None], theta.tolist()):
            assert problem.loss(given_theta) == vector.loss(theta)
            assert problem.gradient(given_theta).shape == np.shape(given_theta)


@pytest.mark.parametrize("n", [1, 4, 9])
def test_conventions(n):
    X, Y, theta = normal(n, 5), normal(n, 2, key=1), normal(5, 2, key=2)
    total = np.sum((X @ theta - Y) ** 2)
    assert gb.Regression.mean(X, Y).loss(theta) == pytest.approx(total / n, rel=1e-14)
    assert gb.Regression.half_mean(X, Y).loss(theta) == pytest.approx(total / (2 * n), rel=1e-14)
    assert gb.Regression.half_sum(X, Y).loss(theta) == pytest.approx(total / 2, rel=1e-14)


def test_data_are_copied():
    X, Y = normal(3, 4), normal(3, key=1)
    problem = gb.Regression.mean(X, Y)
    before = problem.min_norm
    X[:], Y[:] = 0, 0
    np.testing.assert_array_equal(problem.min_norm, before)
    assert np.all(problem.X != 0)


# --- minimum ----------------------------------------------------------------------------------


def test_rank_and_svd(case):
    problem, rank = case
    U, s, Vt = problem.svd
    assert problem.rank == rank == len(s)
    assert U.shape == (problem.n, rank) and problem.row_space.shape == (problem.d, rank)
    close((U * s) @ Vt, problem.X, np.abs(problem.X).max(), 1e-14)
    close(problem.row_space.T @ problem.row_space, np.eye(rank), 1, 1e-14)


def test_minimum_against_numpy(case):
    problem, rank = case
    X, Y = problem.X, problem.labels
    cut = max(X.shape) * EPS
    by_lstsq, _, by_rank, _ = np.linalg.lstsq(X, Y, rcond=cut)
    by_pinv = np.linalg.pinv(X, rcond=cut) @ Y
    ours = problem.min_norm.reshape(problem.d, problem.k)
    assert by_rank == rank
    close(ours, by_lstsq, np.abs(by_lstsq).max())
    close(ours, by_pinv, np.abs(by_pinv).max())
    residual = 0.7 * np.sum((X @ by_lstsq - Y) ** 2)
    assert problem.min_loss == pytest.approx(residual, rel=1e-12, abs=1e-24 * np.sum(Y**2))


def test_min_norm_is_stationary_and_inside_the_row_space(case):
    problem, _ = case
    theta = problem.min_norm
    scale = np.linalg.norm(problem.X) * np.linalg.norm(problem.Y)
    close(problem.gradient(theta), np.zeros_like(theta), scale)
    basis = problem.row_space
    close(basis @ (basis.T @ theta), theta, np.abs(theta).max())


def test_zero_data_say_nothing():
    problem = gb.Regression.half_sum(np.zeros((3, 4)), [1, 2, 3])
    assert problem.rank == 0 and problem.min_loss == problem.loss(normal(4)) == 7
    np.testing.assert_array_equal(problem.min_norm, np.zeros(4))
    assert problem.excess()(normal(4, 1)) == 0


# --- excess -----------------------------------------------------------------------------------


def test_excess_is_the_loss_above_its_minimum(case):
    problem, _ = case
    theta = predictor(problem)
    difference = problem.loss(theta) - problem.min_loss
    assert problem.excess()(theta) == pytest.approx(
        difference, rel=1e-11, abs=1e-13 * problem.loss(theta)
    )


@pytest.mark.parametrize("k", [1, 3])
def test_excess_keeps_its_digits_where_its_basis_is_exact(k):
    # Powers of two in a signed permutation: singular vectors and U'Y come out without rounding,
    # and so does the reference. The labels also have a part that cannot be fitted, L* = 4000.
    X = np.zeros((4, 5))
    X[[0, 1, 2], [3, 0, 4]] = [2.0, -1.0, 0.5]
    Y = np.ones((4, k)) * [[3.0], [1.0], [5.0], [np.sqrt(8000 / k)]]
    problem = gb.Regression.half_sum(X, Y)
    step = 2.0**-34 * np.ones((5, k))
    theta = problem.min_norm + step
    expected = 0.5 * k * 2.0**-68 * (4 + 1 + 0.25)
    assert expected < 1e-19
    assert problem.excess()(theta) == pytest.approx(expected, rel=1e-10)
    assert abs(problem.loss(theta) - problem.min_loss - expected) > 0.9 * expected


@pytest.mark.parametrize("shape", [(6, 3), (8, 5), (12, 11)])
@pytest.mark.parametrize("size", [2.0**-20, 2.0**-30, 2.0**-40])
def test_excess_has_the_error_of_one_residual(shape, size):
    # Small whole numbers make X theta, the labels and the reference exact in long double. In any
    # other basis the residual s V'theta - B carries the rounding of B, and no more than that.
    n, d = shape
    rng = generator(n, "tests.regression.integers")
    X = rng.integers(-4, 5, (n, d)).astype(float)
    theta_true = rng.integers(-8, 9, (d, 2)).astype(float)
    Y = X @ theta_true
    problem = gb.Regression.mean(X, Y)
    step = size * rng.integers(-3, 4, (d, 2))
    exact = np.sum((X.astype(np.longdouble) @ step) ** 2) / n
    got = problem.excess()(theta_true + step)
    allowed = 20 * EPS * np.linalg.norm(Y) / np.sqrt(n)
    assert abs(np.sqrt(got) - np.sqrt(float(exact))) < allowed


def test_excess_beats_the_difference_of_losses():
    # Conflicting labels: L* is 2e4, and the difference of losses has no digit right at 1e-13.
    X, Y = twice(normal(4, 6), 0), normal(4, 2, key=1)
    problem = gb.Regression.mean(X, np.concatenate([Y + 100, Y - 100]))
    step = 1e-7 * normal(6, 2, key=2)
    expected = problem.weight * np.sum((X @ step) ** 2)
    theta = problem.min_norm + step
    assert problem.excess()(theta) == pytest.approx(expected, rel=1e-6)
    assert abs(problem.loss(theta) - problem.min_loss - expected) > 0.9 * expected


# --- batches ----------------------------------------------------------------------------------


@pytest.mark.parametrize("b", [1, 2, 4, 5])
def test_batch_gradients_average_to_the_gradient(b):
    problem = gb.Regression.half_mean(normal(5, 3), normal(5, 2, key=1))
    theta = normal(3, 2, key=2)
    batches = [Batch(indices=np.array(rows)) for rows in itertools.combinations(range(5), b)]
    mean = np.mean([problem.theta_gradient(theta, batch) for batch in batches], axis=0)
    np.testing.assert_allclose(mean, problem.gradient(theta), rtol=1e-12, atol=1e-13)


def test_label_noise_is_added_to_the_labels():
    X, Y, noise = normal(5, 3), normal(5, 2, key=1), normal(5, 2, key=2)
    theta, rows = normal(3, 2, key=3), np.array([4, 0, 0])
    problem, noisy = gb.Regression.mean(X, Y), gb.Regression.mean(X, Y + noise)
    all_rows = problem.theta_gradient(theta, Batch(label_noise=noise))
    np.testing.assert_allclose(all_rows, noisy.gradient(theta), rtol=1e-13)
    some = problem.theta_gradient(theta, Batch(indices=rows, label_noise=noise[rows]))
    expected = gb.Regression.mean(X[rows], Y[rows] + noise[rows]).gradient(theta)
    np.testing.assert_allclose(some, expected, rtol=1e-12)


def test_fresh_samples_replace_the_rows():
    problem = gb.Regression.mean(normal(5, 3), normal(5, 2, key=1))
    x, y, theta = normal(4, 3, key=2), normal(4, 2, key=3), normal(3, 2, key=4)
    got = problem.theta_gradient(theta, Batch(x=x, y=y))
    np.testing.assert_allclose(got, gb.Regression.mean(x, y).gradient(theta), rtol=1e-13)


@pytest.mark.parametrize("batch", [None, Batch(indices=np.array([1, 3]))])
def test_net_loss_differentiates_to_the_predictor_gradient(batch):
    problem = gb.Regression.half_sum(normal(5, 3), normal(5, key=1))
    net = gb.nets.linear(lambda params: params["theta"])
    theta = normal(3, 1, key=2)
    with gb.float64():
        slope = jax.grad(lambda t: problem.net_loss(net, {"theta": t}, batch))(theta)
    np.testing.assert_allclose(slope, problem.theta_gradient(theta, batch), rtol=1e-12)


# --- inside jax -------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_same_numbers_inside_jit(case):
    problem, _ = case
    theta = predictor(problem)
    excess = problem.excess()
    with gb.float64():
        loss = float(jax.jit(lambda t: problem.loss(t))(theta))
        gradient = np.asarray(jax.jit(lambda t: problem.gradient(t))(theta))
        above = float(jax.jit(lambda e, t: e(t))(excess, theta))
        as_argument = float(jax.jit(lambda p, t: p.loss(t))(problem, theta))
    assert gradient.dtype == np.float64
    assert loss == pytest.approx(problem.loss(theta), rel=1e-13)
    assert as_argument == pytest.approx(problem.loss(theta), rel=1e-13)
    assert above == pytest.approx(excess(theta), rel=1e-12)
    close(gradient, problem.gradient(theta), np.abs(gradient).max(), 1e-13)


@pytest.mark.parametrize("captured", [True, False], ids=["captured", "argument"])
def test_rows_that_jax_is_tracing(captured):
    problem = gb.Regression.mean(normal(5, 3), normal(5, 2, key=1))
    theta, rows = normal(3, 2, key=2), np.array([4, 1])

    def gradient(problem, rows):
        return problem.theta_gradient(theta, Batch(indices=rows))

    with gb.float64():
        if captured:
            got = np.asarray(jax.jit(lambda r: gradient(problem, r))(rows))
        else:
            got = np.asarray(jax.jit(gradient)(problem, rows))
    np.testing.assert_allclose(got, gradient(problem, rows), rtol=1e-13)


# --- bad input --------------------------------------------------------------------------------

SIZES = st.sampled_from([1, 2, 5])
BUILDERS = st.sampled_from(
    [
        gb.Regression.mean,
        gb.Regression.half_mean,
        gb.Regression.half_sum,
        lambda X, Y: gb.Regression(X, Y, 2.0),
    ]
)
NOT_NUMBERS = st.sampled_from(
    ["X", None, {"a": 1}, {1, 2}, object(), 1j, [[1, 2], [3]], ["a", "b"], [[None]], len]
)


@given(n=SIZES, d=SIZES, k=SIZES, build=BUILDERS, data=st.data())
def test_a_bad_number_anywhere_is_named(n, d, k, build, data):
    arrays = {"X": np.ones((n, d)), "Y": np.ones((n, k))}
    name = data.draw(st.sampled_from(["X", "Y"]))
    where = tuple(data.draw(st.integers(0, size - 1)) for size in arrays[name].shape)
    arrays[name][where] = data.draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    with pytest.raises(ValueError, match=rf"^{name} must be finite, got .* at index"):
        build(**arrays)


@given(value=NOT_NUMBERS, name=st.sampled_from(["X", "Y"]), build=BUILDERS)
def test_what_is_not_numbers_is_named(value, name, build):
    arrays = {"X": np.ones((2, 3)), "Y": np.ones(2), name: value}
    with pytest.raises(ValueError, match=rf"^{name} must be an array of real numbers"):
        build(**arrays)


@given(shape=st.sampled_from([(), (2,), (2, 2, 2)]), build=BUILDERS)
def test_wrong_number_of_axes_is_named(shape, build):
    with pytest.raises(ValueError, match="^X must have 2 axes, got shape"):
        build(X=np.ones(shape), Y=np.ones(2))
    if len(shape) != 1:
        with pytest.raises(ValueError, match="^Y must have 1 or 2 axes, got shape"):
            build(X=np.ones((2, 2)), Y=np.ones(shape))


@given(n=SIZES, other=SIZES, d=SIZES, build=BUILDERS)
def test_rows_that_do_not_fit_are_named(n, other, d, build):
    if n != other:
        with pytest.raises(ValueError, match=f"^X and Y .* rows, got {n} and {other}"):
            build(X=np.ones((n, d)), Y=np.ones(other))
    for X, Y in [((0, d), 0), ((n, 0), n), ((n, d), (n, 0))]:
        with pytest.raises(ValueError, match="^X and Y must not be empty"):
            build(X=np.ones(X), Y=np.ones(Y))


@given(
    weight=st.one_of(
        st.floats(max_value=0),
        st.sampled_from([np.nan, np.inf, "1", None, True, [1.0], 1j, {}, np.ones(2)]),
    )
)
def test_bad_weight_is_named(weight):
    with pytest.raises(ValueError, match="^weight must be"):
        gb.Regression(np.ones((2, 3)), np.ones(2), weight)


@given(
    theta=st.one_of(
        NOT_NUMBERS, st.sampled_from([1.0, np.ones(2), np.ones((3, 1)), np.full((3, 2), np.nan)])
    ),
    method=st.sampled_from(["loss", "gradient"]),
)
def test_bad_predictor_is_named(theta, method):
    problem = gb.Regression.mean(np.ones((2, 3)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="^theta must"):
        getattr(problem, method)(theta)


def test_single_precision_is_said_aloud():
    with pytest.warns(UserWarning, match="^X is float32"):
        gb.Regression.mean(np.ones((2, 3), np.float32), np.ones(2))
