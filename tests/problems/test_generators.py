"""The data sets of the papers: sizes, spectra, planted truths, streams, and refusals."""

import inspect
import itertools

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given
from hypothesis import strategies as st

import gradbias as gb
from gradbias import problems
from gradbias.numerics.host_rng import generator
from gradbias.problems import Batch

# Each generator at the size of its paper, with the n, d, k and n·weight that it must have.
PAPERS = {
    "rank-1": (lambda: problems.gaussian(40, 100, informative=20), 40, 100, None, 1),
    "spectral 1a": (lambda: problems.gaussian(5, 10, 3, loss="half_mean"), 5, 10, 3, 0.5),
    "spectral 1b": (lambda: problems.orthogonal(5, norm=2), 5, 5, None, 2.5),
    "spectral 2": (lambda: problems.relu_teacher(10, 5), 10, 5, None, 0.5),
    "imbalance 2": (lambda: problems.whitened(100, 400), 100, 400, None, 1),
    "after zero loss": (lambda: problems.sparse(14, 30, 3), 14, 30, None, 0.5),
    "noise equilibrium 7": (lambda: problems.gaussian(500, 10, 5, noise=0.5), 500, 10, 5, 1),
    "digits": (lambda: problems.digits(), 1797, 64, 10, 1),
}
LINEAR = {
    "gaussian": lambda **kw: problems.gaussian(6, 9, **kw),
    "whitened": lambda **kw: problems.whitened(6, 9, noise=0, **kw),
    "orthogonal": lambda **kw: problems.orthogonal(9, **kw),
    "sparse": lambda **kw: problems.sparse(6, 9, **kw),
}
KEYED = {
    "gaussian": lambda key: problems.gaussian(4, 5, noise=0.1, key=key),
    "whitened": lambda key: problems.whitened(4, 5, key=key),
    "orthogonal": lambda key: problems.orthogonal(5, key=key),
    "boolean": lambda key: problems.sparse(40, 50, 25, key=key),
    "sparse": lambda key: problems.sparse(4, 50, 25, entries="gaussian", key=key),
    "relu": lambda key: problems.relu_teacher(40, 5, key=key),
    "digits": lambda key: problems.digits(50, key=key),
}


def singular_values(problem):
    return np.linalg.svd(problem.X, compute_uv=False)


# --- sizes, conventions, keys -----------------------------------------------------------------


@pytest.mark.parametrize("name", PAPERS)
def test_sizes_and_weights_of_the_papers(name):
    make, n, d, k, weight = PAPERS[name]
    problem = make()
    assert isinstance(problem, gb.Regression)
    assert problem.X.shape == (n, d) and problem.X.dtype == np.float64
    assert problem.Y.shape == ((n,) if k is None else (n, k))
    assert problem.weight * n == pytest.approx(weight, rel=1e-14)


@pytest.mark.parametrize("loss", ["mean", "half_mean", "half_sum"])
@pytest.mark.parametrize("name", [*LINEAR, "relu", "digits"])
def test_every_convention(name, loss):
    makers = LINEAR | {
        "sparse": lambda **kw: problems.sparse(6, 9, 2, **kw),
        "relu": lambda **kw: problems.relu_teacher(6, 9, **kw),
        "digits": lambda **kw: problems.digits(6, **kw),
    }
    problem = makers[name](loss=loss)
    assert problem.weight == getattr(gb.Regression, loss)(problem.X, problem.Y).weight


@pytest.mark.parametrize("name", KEYED)
def test_data_are_a_function_of_the_key(name):
    first, again, other = (KEYED[name](key) for key in (3, 3, 4))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.Y, again.Y)
    assert not np.array_equal(first.X, other.X)
    assert not np.array_equal(first.Y, other.Y)


SIDE = 40


def draws(key):
    """Every Gaussian-like matrix that the room draws under one key, all of one shape."""
    n = d = SIDE
    zero = np.zeros((d, d))
    return {
        "gaussian": problems.gaussian(n, d, key=key).X,
        "gaussian noise": problems.gaussian(n, d, noise=1, teacher=zero, key=key).Y,
        "whitened": problems.whitened(n, d, key=key).X,
        "whitened noise": problems.whitened(n, d, noise=1, teacher=zero, key=key).Y,
        "orthogonal": problems.orthogonal(d, key=key).X,
        "boolean": problems.sparse(n, d, 1, key=key).X,
        "sparse": problems.sparse(n, d, 1, entries="gaussian", key=key).X,
        "relu": problems.relu_teacher(n, d, key=key).X,
        "population": problems.autoencoding(d).sample(n, key)[0],
        "gaussian_teacher": problems.gaussian_teacher(d, d, key=key),
        "relu_directions": problems.relu_directions(d, d, key=key),
        "orthonormal directions": problems.relu_directions(d, d, True, key=key),
        "init.gaussian": gb.init.gaussian(gb.TwoLayer(d, d, d), 1.0, key=key)["W1"],
        "init.orthogonal": gb.init.orthogonal(gb.TwoLayer(d, d, d), 0.5, key=key)["W1"],
    }


# The same numbers, in another shape or law, on purpose: one draw each.
SAME_STREAM = [{"boolean", "sparse"}, {"relu_directions", "orthonormal directions"}]


@pytest.mark.parametrize("key", [0, 1, 2])
def test_one_key_in_two_generators_gives_uncorrelated_draws(key):
    drawn = draws(key)
    for a, b in itertools.combinations(drawn, 2):
        if {a, b} not in SAME_STREAM:
            for other in (drawn[b], drawn[b].T):  # some functions draw the transpose
                correlation = np.corrcoef(drawn[a].ravel(), other.ravel())[0, 1]
                assert abs(correlation) < 4 / SIDE, (a, b)


def test_two_keys_give_uncorrelated_draws():
    for name, first in draws(0).items():
        correlation = np.corrcoef(first.ravel(), draws(1)[name].ravel())[0, 1]
        assert abs(correlation) < 4 / SIDE, name


def test_no_number_is_drawn_twice():
    # A shared stream also shows when one function has shifted or permuted it.
    raw = ["gaussian", "gaussian noise", "sparse", "relu", "gaussian_teacher", "init.gaussian"]
    drawn = draws(0)
    for a, b in itertools.combinations(raw, 2):
        assert np.intersect1d(drawn[a], drawn[b]).size == 0, (a, b)


def test_one_key_for_data_and_init_starts_outside_the_row_space():
    # On a row of X the bias of a rank-1 net would vanish.
    problem = problems.gaussian(n=40, d=100, key=0)
    v1 = gb.init.gaussian(gb.Rank1(100, 3, 10), 1.0, key=0)["v1"]
    outside = v1 - problem.row_space @ (problem.row_space.T @ v1)
    assert np.linalg.norm(outside) / np.linalg.norm(v1) > 0.5


# --- teachers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("shape", [(9,), (9, 1), (9, 3), (9, 12)])
def test_a_planted_teacher_makes_the_labels(name, shape):
    teacher = generator(0, "tests.generators").standard_normal(shape)
    problem = LINEAR[name](teacher=teacher)
    assert problem.vector == (len(shape) == 1)
    np.testing.assert_allclose(problem.Y, problem.X @ teacher, rtol=0, atol=1e-14)
    assert problem.loss(teacher) < 1e-25


def test_the_drawn_teacher_can_be_drawn_again():
    pairs = [
        (problems.gaussian(6, 9, 2, 4, key=5), problems.gaussian_teacher(9, 2, 4, key=5)),
        (
            problems.whitened(6, 9, noise=0, key=5),
            problems.gaussian_teacher(9, std=1 / 3, key=5),
        ),
        (problems.orthogonal(9, 2, key=5), problems.gaussian_teacher(9, 2, key=5)),
        (problems.sparse(6, 9, 4, key=5), problems.sparse_teacher(9, 4, key=5)),
    ]
    for problem, teacher in pairs:
        assert problem.loss(teacher) < 1e-25


def test_gaussian_teacher():
    teacher = problems.gaussian_teacher(4000, 3, 3000, std=0.5)
    informative = np.any(teacher != 0, axis=1)
    assert informative.sum() == 3000 and not informative[:3000].all()
    entries = teacher[informative].ravel()
    # The standard errors of a mean and of a standard deviation of 9000 Gaussians.
    assert abs(entries.mean()) < 4 * 0.5 / np.sqrt(9000)
    assert abs(entries.std() - 0.5) < 4 * 0.5 / np.sqrt(18000)
    assert problems.gaussian_teacher(3).shape == (3,)
    assert np.all(problems.gaussian_teacher(3, 2) != 0)


def test_sparse_teacher():
    teacher = problems.sparse_teacher(1000, 400)
    assert set(np.unique(teacher)) == {-1.0, 0.0, 1.0} and np.count_nonzero(teacher) == 400
    assert abs(teacher.sum()) < 4 * np.sqrt(400)
    assert np.count_nonzero(problems.sparse_teacher(1, 1)) == 1


@pytest.mark.parametrize(("d", "teachers"), [(5, 2), (5, 5), (1, 1), (40, 3)])
def test_orthonormal_directions(d, teachers):
    W = problems.relu_directions(d, teachers, orthonormal=True)
    np.testing.assert_allclose(W.T @ W, np.eye(teachers), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("d", "teachers"), [(5, 2), (2, 7), (1, 3)])
def test_unit_directions(d, teachers):
    W = problems.relu_directions(d, teachers)
    assert W.shape == (d, teachers)
    np.testing.assert_allclose(np.linalg.norm(W, axis=0), 1, rtol=1e-14)


# --- linear data ------------------------------------------------------------------------------


def test_gaussian_has_the_deviations_it_was_given():
    problem = problems.gaussian(100, 100, noise=0.3, std=0.05, teacher=np.zeros((100, 100)))
    for drawn, std in [(problem.X, 0.05), (problem.Y, 0.3)]:
        assert abs(drawn.mean()) < 4 * std / 100
        assert abs(drawn.std() - std) < 4 * std / np.sqrt(2e4)


def test_the_imbalance_paper_has_its_spectrum():
    s = 400**-0.5
    teacher = problems.gaussian_teacher(400, std=s)
    problem = problems.gaussian(100, 400, noise=0.01, std=s, teacher=teacher)
    # The Marchenko-Pastur edges (1 ± 1/2)², with the width of the edge at this size.
    values = singular_values(problem) ** 2
    assert 0.2 < values.min() < 0.33 and 2.0 < values.max() < 2.5
    noise = problem.Y - problem.X @ teacher
    assert abs(noise.std() - 0.01) < 4 * 0.01 / np.sqrt(200)


@pytest.mark.parametrize(("n", "d"), [(3, 7), (7, 3), (5, 5), (1, 4), (4, 1), (1, 1)])
def test_whitened_singular_values_are_one(n, d):
    problem = problems.whitened(n, d, key=2)
    assert problem.rank == min(n, d)
    np.testing.assert_allclose(singular_values(problem), 1, rtol=1e-14)


def test_whitened_noise_is_that_of_the_paper():
    teacher = problems.gaussian_teacher(400, std=0.05)
    problem = problems.whitened(100, 400)
    noise = problem.Y - problem.X @ teacher
    assert abs(noise.std() - 0.01) < 4 * 0.01 / np.sqrt(200)


@pytest.mark.parametrize("d", [1, 5, 12])
@pytest.mark.parametrize("k", [None, 1, 3])
def test_orthogonal(d, k):
    problem = problems.orthogonal(d, k, norm=2)
    np.testing.assert_allclose(problem.X @ problem.X.T, np.eye(d), rtol=0, atol=1e-14)
    assert np.linalg.norm(problem.min_norm) == pytest.approx(2, rel=1e-13)
    np.testing.assert_allclose(problem.min_norm, problem.X.T @ problem.Y, rtol=0, atol=1e-14)
    assert problem.weight == 0.5 and problem.min_loss < 1e-28


def test_orthogonal_rescales_a_planted_teacher():
    teacher = np.diag([3.0, 2.0, 1.0])
    as_given = problems.orthogonal(3, teacher=teacher)
    np.testing.assert_allclose(as_given.min_norm, teacher, rtol=0, atol=1e-14)
    rescaled = problems.orthogonal(3, teacher=teacher, norm=1).min_norm
    np.testing.assert_allclose(rescaled, teacher / np.sqrt(14), rtol=0, atol=1e-14)


def test_sparse_entries():
    boolean = problems.sparse(50, 80, 4).X
    assert set(np.unique(boolean)) == {-1.0, 1.0}
    assert abs(boolean.mean()) < 4 / np.sqrt(boolean.size)
    gaussian = problems.sparse(50, 80, 4, entries="gaussian").X
    assert abs(gaussian.std() - 1) < 4 / np.sqrt(2 * gaussian.size)


@pytest.mark.parametrize("entries", ["boolean", "gaussian"])
@pytest.mark.parametrize("key", [0, 1, 2])
def test_least_l1_norm_recovers_the_sparse_teacher(entries, key):
    # What the paper's data are for; a linear programme knows nothing of how they were made.
    problem = problems.sparse(22, 30, 3, entries=entries, key=key)
    X = np.hstack([problem.X, -problem.X])
    found = scipy.optimize.linprog(np.ones(60), A_eq=X, b_eq=problem.Y, bounds=(0, None)).x
    expected = problems.sparse_teacher(30, 3, key)
    np.testing.assert_allclose(found[:30] - found[30:], expected, rtol=0, atol=1e-8)


# --- other data -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phi", "ratio"), [(0.2, 0.7746), (0.6, 0.9573), (1.0, 1.0), (1.8, 0.7746)]
)
def test_phi_is_a_variance(phi, ratio):
    # The noise equilibrium has UU' = sigma_x^½ and W'W = sigma_x^-½, so this is |U|/|W|.
    problem = problems.autoencoding(100, phi)
    variances = np.linalg.eigvalsh(problem.sigma_x)
    got = np.sqrt(np.sum(variances**0.5) / np.sum(variances**-0.5))
    assert got == pytest.approx(ratio, abs=5e-5)
    np.testing.assert_array_equal(problem.theta_star, np.eye(100))
    assert problem.weight == 1 and problem.min_loss == 100


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_autoencoding_inputs_have_total_variance_d(d):
    problem = problems.autoencoding(d, phi=0.3)
    np.testing.assert_array_equal(np.diag(problem.sigma_x)[: d // 2], 0.3)
    assert np.trace(problem.sigma_x) == pytest.approx(d, rel=1e-14)


def test_autoencoding_noise_is_a_deviation():
    one_loud = problems.autoencoding(4, noise=[5**0.5, 1, 1, 1])
    np.testing.assert_allclose(one_loud.sigma_eps, np.diag([5, 1, 1, 1]), rtol=1e-15)
    np.testing.assert_allclose(problems.autoencoding(4, noise=3).sigma_eps, 9 * np.eye(4))
    assert problems.autoencoding(4, noise=0).min_loss == 0


@pytest.mark.parametrize("orthonormal", [False, True])
def test_relu_labels_against_a_loop(orthonormal):
    problem = problems.relu_teacher(10, 5, 3, (1, -0.5, 2), orthonormal, key=4)
    W = problems.relu_directions(5, 3, orthonormal, key=4)
    for x, y in zip(problem.X, problem.Y, strict=True):
        expected = sum(a * max(0.0, float(x @ w)) for a, w in zip((1, -0.5, 2), W.T, strict=True))
        assert y == pytest.approx(expected, abs=1e-14)


def test_relu_teacher_is_a_net_of_ours():
    W = problems.relu_directions(5, key=1)
    problem = problems.relu_teacher(10, 5, teacher=W, key=3)
    net = gb.MLP([5, 2, 1], "relu", bias=False)
    with gb.float64():
        loss = float(problem.net_loss(net, {"W1": W, "W2": np.array([[1.0], [-1.0]])}))
    assert loss < 1e-28


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 2)])
def test_conflicting_labels(shape):
    rng = generator(0, "tests.conflicting")
    clean = gb.Regression.half_mean(rng.standard_normal((3, 5)), rng.standard_normal(shape))
    problem = problems.conflicting(clean, 0.25)
    assert problem.n == 6 and problem.Y.shape == (6, *shape[1:])
    np.testing.assert_array_equal(problem.X[:3], problem.X[3:])
    np.testing.assert_allclose(problem.Y[:3] - problem.Y[3:], 0.5, rtol=1e-14)
    # A mean stays a mean; the loss moves by a constant and the minimiser not at all.
    assert problem.weight == gb.Regression.half_mean(problem.X, problem.Y).weight
    np.testing.assert_allclose(problem.min_norm, clean.min_norm, rtol=0, atol=1e-14)
    constant = 0.5 * 0.25**2 * clean.k
    for theta in (clean.min_norm, rng.standard_normal((5, clean.k))):
        assert problem.loss(theta) == pytest.approx(clean.loss(theta) + constant, rel=1e-13)
    assert problem.min_loss == pytest.approx(constant, rel=1e-13)


@pytest.mark.parametrize("b", [1, 2, 4, 6])
def test_conflicting_labels_have_the_noise_of_label_noise(b):
    # Without replacement from N = 2n: covariance δ²(N − b)/(b(N − 1)) times the Hessian.
    clean = problems.gaussian(3, 5, loss="half_mean")
    problem = problems.conflicting(clean, delta := 0.3)
    theta = clean.min_norm[:, None]
    batches = itertools.combinations(range(6), b)
    gradients = [problem.theta_gradient(theta, Batch(indices=np.array(i)))[:, 0] for i in batches]
    measured = np.cov(np.array(gradients).T, bias=True)
    hessian = clean.X.T @ clean.X / 3
    expected = delta**2 * (6 - b) / (b * 5) * hessian
    np.testing.assert_allclose(measured, expected, rtol=0, atol=1e-14)


def test_digits():
    problem = problems.digits()
    assert problem.X.min() == 0 and problem.X.max() == 1 and problem.rank == 61
    np.testing.assert_array_equal(problem.Y.sum(1), 1)
    assert set(np.unique(problem.Y)) == {0.0, 1.0}
    # Least squares reads most of them: labels belong to their images.
    guess = np.argmax(problem.X @ problem.min_norm, axis=1)
    assert np.mean(guess == np.argmax(problem.Y, axis=1)) > 0.9


def test_a_smaller_choice_of_digits_is_the_start_of_a_larger_one():
    few, many = problems.digits(20, key=1), problems.digits(100, key=1)
    np.testing.assert_array_equal(few.X, many.X[:20])
    np.testing.assert_array_equal(few.Y, many.Y[:20])
    assert len(np.unique(problems.digits(500).X, axis=0)) == 500


def test_centred_digits():
    problem = problems.digits(50, centre=True)
    assert np.abs(problem.X.mean(0)).max() < 1e-15 and np.abs(problem.Y.mean(0)).max() < 1e-15
    one = problems.digits(1, centre=True)
    assert one.rank == 0 and one.min_loss == 0


# --- bad input --------------------------------------------------------------------------------

GOOD = {
    problems.gaussian: {"n": 3, "d": 4},
    problems.whitened: {"n": 3, "d": 4},
    problems.orthogonal: {"d": 4},
    problems.sparse: {"n": 3, "d": 4, "nonzero": 2},
    problems.relu_teacher: {"n": 3, "d": 4},
    problems.autoencoding: {"d": 4},
    problems.digits: {"n": 3},
    problems.gaussian_teacher: {"d": 4},
    problems.sparse_teacher: {"d": 4, "nonzero": 2},
    problems.relu_directions: {"d": 4},
}
KINDS = {
    "whole": (["n", "d", "k", "informative", "nonzero", "teachers"], [0, -1, 1.5, "2", True, []]),
    "key": (["key"], [-1, 0.5, "0", None, True]),
    "positive": (["std", "norm"], [0, -1, np.nan, np.inf, "1", [1, 2], 1j, True]),
    "not negative": (["noise"], [-1, np.nan, np.inf, "1", {}, 1j]),
    "choice": (["loss", "entries"], ["sum", "", None, 1, ["mean"]]),
    "flag": (["orthonormal", "centre"], [1, None, "yes"]),
    "phi": (["phi"], [0, 2, -0.5, 3, np.nan, "1"]),
}


def bad_arguments():
    for function, good in GOOD.items():
        for name in inspect.signature(function).parameters:
            for names, values in KINDS.values():
                if name in names:
                    yield from ((function, good, name, value) for value in values)


@pytest.mark.parametrize(("function", "good", "name", "value"), list(bad_arguments()))
def test_bad_arguments_are_named(function, good, name, value):
    with pytest.raises(ValueError, match=f"^{name} must"):
        function(**(good | {name: value}))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (problems.gaussian, {"n": 3, "d": 4, "informative": 5}, "informative must be at most 4"),
        (problems.sparse, {"n": 3, "d": 4, "nonzero": 5}, "nonzero must be at most 4"),
        (problems.sparse, {"n": 3, "d": 4}, "nonzero must be a whole number"),
        (problems.digits, {"n": 1798}, "n must be at most 1797"),
        (problems.relu_teacher, {"n": 3, "d": 4, "teachers": 3}, "signs must have shape"),
        (problems.relu_teacher, {"n": 3, "d": 4, "signs": 1}, "signs must have shape"),
        (problems.relu_teacher, {"n": 3, "d": 4, "signs": [1, np.nan]}, "signs must be finite"),
        (
            problems.relu_teacher,
            {"n": 3, "d": 1, "orthonormal": True},
            r"teachers must be at most 1 \(d, to be orthonormal\)",
        ),
        (
            problems.relu_teacher,
            {"n": 3, "d": 4, "teacher": np.ones((4, 2)), "orthonormal": True},
            "orthonormal describes a drawn teacher",
        ),
        (
            problems.gaussian,
            {"n": 3, "d": 4, "teacher": np.ones(4), "informative": 2},
            "informative describes a drawn teacher",
        ),
        (
            problems.sparse,
            {"n": 3, "d": 4, "teacher": np.ones(4), "nonzero": 2},
            "nonzero describes a drawn teacher",
        ),
        (
            problems.orthogonal,
            {"d": 4, "teacher": np.zeros(4), "norm": 2},
            "teacher must not be zero",
        ),
        (problems.autoencoding, {"d": 4, "noise": [1, 2]}, "noise must be one number or 4"),
        (problems.autoencoding, {"d": 2, "noise": [1, -2]}, "noise must be one number or 2"),
        (problems.autoencoding, {"d": 1, "noise": [[1]]}, "noise must have 0 or 1 axes"),
        (problems.conflicting, {"problem": None, "delta": 1}, "problem must be a Regression"),
    ],
)
def test_arguments_that_do_not_fit_are_named(function, arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        function(**arguments)


@pytest.mark.parametrize("delta", [-1, np.nan, np.inf, "1", None, [1, 2]])
def test_bad_delta_is_named(delta):
    with pytest.raises(ValueError, match="^delta must"):
        problems.conflicting(problems.gaussian(2, 3), delta)


def test_a_population_cannot_conflict():
    with pytest.raises(ValueError, match="^problem must be a Regression, got Population"):
        problems.conflicting(problems.autoencoding(3), 1.0)


@given(
    name=st.sampled_from([*LINEAR, "relu"]),
    teacher=st.sampled_from(
        [
            1.0,
            "teacher",
            {},
            1j,
            np.ones(8),
            np.ones((8, 2)),
            np.ones((9, 0)),
            np.ones((9, 2, 1)),
            np.full(9, np.nan),
            np.full((9, 2), np.inf),
        ]
    ),
)
def test_bad_teacher_is_named(name, teacher):
    make = LINEAR.get(name, lambda **kw: problems.relu_teacher(6, 9, **kw))
    with pytest.raises(ValueError, match="^teacher must"):
        make(teacher=teacher)


@pytest.mark.parametrize("name", ["gaussian", "whitened", "orthogonal"])
@pytest.mark.parametrize("teacher", [np.ones(9), np.ones((9, 3))], ids=["vector", "matrix"])
def test_a_teacher_of_other_outputs_is_named(name, teacher):
    with pytest.raises(ValueError, match=r"^teacher must have shape \(9, 2\)"):
        LINEAR[name](teacher=teacher, k=2)
