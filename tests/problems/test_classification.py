"""Losses against many digits, hard margins against scikit-learn and LP duality, and refusals."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from sklearn.svm import SVC

import gradbias as gb
from gradbias.problems import Batch

LOSSES = ("logistic", "exponential", "cross_entropy")


def separable(n, d, seed, classes=2, delta=1.0):
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.normal(size=(d, classes)))[0].T  # a direction for each class
    if classes == 2:
        W[1] = -W[0]
    index = np.arange(n) % classes
    noise = rng.normal(size=(n, d))
    return np.clip(noise, -2, 2) + delta * np.sqrt(2 * d) * W[index], index


def made(loss, n=8, d=5, seed=0):
    X, index = separable(n, d, seed, 3 if loss == "cross_entropy" else 2)
    return gb.Classification(X, index, loss)


def many_digits(problem, theta):
    """log L and the gradient, in 60 digits, from the definition."""
    with mpmath.workdps(60):
        theta = mpmath.matrix(theta.tolist())
        X = mpmath.matrix(problem.X.tolist())
        F = X * theta
        total, grad = mpmath.mpf(0), mpmath.zeros(problem.d, problem.k)
        for i in range(problem.n):
            if problem.vector:
                y = int(problem.Y[i])
                m = y * F[i, 0]
                e = mpmath.exp(-m)
                logistic = problem.loss_name == "logistic"
                total += mpmath.log1p(e) if logistic else e
                slope = [-y * (e / (1 + e) if logistic else e)]
            else:
                own = int(problem.Y[i].argmax())
                e = [mpmath.exp(F[i, k] - F[i, own]) for k in range(problem.k)]
                e[own] = mpmath.mpf(0)
                total += mpmath.log1p(sum(e))
                slope = [(e[k] - (k == own) * sum(e)) / (1 + sum(e)) for k in range(problem.k)]
            for a in range(problem.d):
                for k in range(problem.k):
                    grad[a, k] += X[i, a] * slope[k] / problem.n
        gradient = [[float(grad[a, k]) for k in range(problem.k)] for a in range(problem.d)]
        return float(mpmath.log(total / problem.n)), np.array(gradient)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 3000.0, -20.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_losses_keep_their_digits_at_any_margin(loss, scale):
    problem = made(loss)
    theta = scale * problem.max_margin().w.reshape(problem.d, problem.k)
    log_loss, gradient = many_digits(problem, theta)
    assert problem.log_loss(theta) == pytest.approx(log_loss, rel=1e-13)
    if log_loss > -700:
        assert problem.loss(theta) == pytest.approx(np.exp(log_loss), rel=1e-12)
    largest = np.abs(gradient).max()
    np.testing.assert_allclose(problem.gradient(theta), gradient, rtol=0, atol=1e-12 * largest)
    with gb.float64():
        compiled = jax.jit(problem.log_loss)(jnp.asarray(theta))
        slope = jax.grad(problem.log_loss)(jnp.asarray(theta))
    assert float(compiled) == pytest.approx(log_loss, rel=1e-13)
    if log_loss > -600:
        slope = np.asarray(slope) * np.exp(log_loss)
        np.testing.assert_allclose(slope, gradient, rtol=0, atol=1e-11 * largest)


@pytest.mark.parametrize("loss", LOSSES)
def test_margins_are_products_with_the_constraints(loss):
    problem = made(loss)
    theta = np.random.default_rng(1).normal(size=(problem.d, problem.k))
    products = (problem.constraints @ theta.ravel()).reshape(problem.n, -1)
    np.testing.assert_allclose(problem.margins(theta), products.min(axis=1), rtol=1e-13)
    np.testing.assert_allclose(
        jax.jit(problem.margins)(theta.astype(np.float32)), products.min(axis=1), rtol=1e-4
    )


def test_draws_of_some_samples_are_unbiased():
    problem = made("cross_entropy")
    theta = np.random.default_rng(1).normal(size=(problem.d, problem.k))
    with gb.float64():
        each = [problem.theta_gradient(theta, Batch(indices=np.array([i]))) for i in range(8)]
        twice = problem.theta_gradient(theta, Batch(weights=2 * np.ones(8)))
    np.testing.assert_allclose(np.mean(each, axis=0), problem.gradient(theta), atol=1e-15)
    np.testing.assert_allclose(twice, 2 * problem.gradient(theta), atol=1e-15)


# --- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([1, -1, 1], (-1, 1)),
        ([1.0, 0.0, 1.0], (0.0, 1.0)),
        ([True, False, True], (False, True)),
        (["spam", "ham", "spam"], ("ham", "spam")),
        (np.array(["b", "a", "b"], object), ("a", "b")),
        ([7, 3, 7], (3, 7)),
    ],
)
def test_of_two_labels_the_second_is_the_positive_one(y, classes):
    problem = gb.Classification(np.eye(3), y)
    assert problem.classes == classes
    np.testing.assert_array_equal(problem.Y, [1, -1, 1])
    assert problem.y.tolist() == list(y)
    assert (problem.k, problem.vector) == (1, True)


def test_classes_are_those_that_there_are():
    problem = gb.Classification(np.eye(4), [5, 0, 9, 5], "cross_entropy")
    assert problem.classes == (0, 5, 9)
    np.testing.assert_array_equal(problem.Y.argmax(axis=1), [1, 0, 2, 1])
    assert problem.k == 3


NAN = float("nan")


@pytest.mark.parametrize(
    ("X", "y", "loss", "words"),
    [
        (np.eye(3), [1, 1, 1], "logistic", r"y must hold at least two classes.* all 1$"),
        (np.eye(3), [1, 2, 3], "logistic", r'two classes, and y holds 3: loss="cross_entropy"'),
        (np.eye(3), [1, NAN, 0], "logistic", "y must hold class labels.* nan at index 1"),
        (np.eye(3), [0.5, 1, 0], "logistic", r"0\.5 at index 0; gb\.Regression fits numbers"),
        (np.eye(3), np.array(["a", 1, 2], object), "logistic", "all whole .* got int 1 among"),
        (np.eye(3), [object(), 1, 0], "logistic", "all whole numbers or all words, got object"),
        (np.eye(3), np.eye(3), "logistic", r"y must have 1 axis.*argmax"),
        (np.eye(3), [1, 0], "logistic", "same number of rows, got 3 and 2"),
        (np.zeros((0, 2)), [], "logistic", "must not be empty"),
        ([[1.0, NAN], [0, 1]], [0, 1], "logistic", r"X must be finite, got nan at index \[0, 1\]"),
        (np.eye(2), [0, 1], "hinge", "loss must be one of 'logistic', 'exponential'"),
        (np.eye(2), [1j, 0], "logistic", "y must hold class labels, whole numbers or words"),
    ],
)
def test_what_is_no_classification_is_said(X, y, loss, words):
    with pytest.raises(ValueError, match=words):
        gb.Classification(X, y, loss)


def test_noise_on_labels_has_no_meaning():
    problem, net = made("logistic"), gb.Deep([5, 1])
    start = {"W1": np.zeros((5, 1))}
    replay = gb.Replay(label_noise=np.zeros((5, 8)))
    for noise in (gb.LabelNoise(0.1), replay):
        with pytest.raises(ValueError, match="adds numbers to labels.*are classes"):
            gb.Setup(problem, net, start, gb.Descent(0.1, noise), gb.Until(steps=5))


def test_a_net_of_other_outputs_is_refused():
    problem = made("cross_entropy")
    with pytest.raises(ValueError, match=r"5 inputs and 3 outputs and needs \(5, 3\)"):
        gb.Setup(problem, gb.Deep([5, 4]), {"W1": np.zeros((5, 4))}, gb.Descent(0.1))


# --- separability -----------------------------------------------------------------------------


def test_separability_comes_with_its_proof():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = gb.Classification(rng.normal(size=(9, 5)), np.arange(9) % 2)
        found = problem.separability
        rows = problem.constraints / np.linalg.norm(problem.constraints, axis=1)[:, None]
        if found.separable:
            assert (problem.constraints @ found.direction).min() > 0
            assert found.gamma == pytest.approx((rows @ found.direction).min())
            assert found.samples.size == 0
        else:
            assert np.abs(found.weights @ rows).max() < 1e-12
            assert found.weights.min() >= 0 and found.weights.sum() == pytest.approx(1)
            inside = problem.constraints[found.samples]  # they alone are impossible
            again = gb.Classification(inside, np.arange(len(inside)) % 2)
            signed = again.constraints * np.where(np.arange(len(inside)) % 2, 1, -1)[:, None]
            np.testing.assert_allclose(signed, inside)


@pytest.mark.parametrize(
    ("X", "y", "samples"),
    [
        ([[1.0, 0], [0, 0], [0, 1]], [1, -1, -1], [1]),  # a row of zeros has margin 0
        ([[1.0, 2], [1, 2], [0, 1]], [1, -1, 1], [0, 1]),  # one point, two labels
        ([[1.0], [2.0], [3.0]], [1, -1, 1], None),
    ],
)
def test_samples_that_make_it_impossible_are_named(X, y, samples):
    problem = gb.Classification(X, y)
    found = problem.separability
    assert not found.separable and found.gamma == 0
    if samples is not None:
        assert found.samples.tolist() == samples
    with pytest.raises(ValueError, match="max_margin: The data are not linearly separable: no"):
        problem.max_margin()
    start = {"W1": np.zeros((problem.d, 1))}  # it can be simulated all the same
    net = gb.Deep([problem.d, 1])
    run = gb.simulate(gb.Setup(problem, net, start, gb.Descent(0.1), gb.Until(steps=10)))
    assert run.data["loss"][-1] < run.data["loss"][0]


@pytest.mark.parametrize("geometry", [gb.geometry.L1, gb.geometry.L2, gb.geometry.Linf])
@pytest.mark.parametrize("unit", [1.0, 1e-200, 1e200])
@pytest.mark.parametrize("small", [1e-7, 1e-8])
def test_hardly_separable_data_are_refused(small, unit, geometry):
    X = unit * np.array([[1.0, small], [1.0, -small]])
    problem = gb.Classification(X, [1, -1])
    assert problem.separability.separable
    with pytest.raises(ValueError, match=r"separable by a margin .* of the longest sample only"):
        problem.max_margin(geometry)


@pytest.mark.parametrize("small", [1e-9, 1e-12, 1e-15])
def test_what_a_linear_program_cannot_tell_is_said(small):
    """They are separable, in the second input; that they are not would be a false sentence."""
    problem = gb.Classification([[1.0, small], [1.0, -small]], [1, -1])
    found = problem.separability
    assert not found.separable and found.samples.tolist() == [0, 1]
    words = found.sentence
    if small > 1e-13:
        assert found.bound == pytest.approx(small, rel=1e-3)
        assert "count as not separable" in words
        assert f"above {small:.0e} of their size" in words
    with pytest.raises(ValueError, match="separable"):
        problem.max_margin()


def test_features_of_unequal_size_are_not_refused():
    X = np.array([[1.0, 1e-7], [1.0, -1e-7]])
    fine = gb.Classification(X * [1, 1e3], [1, -1]).max_margin()
    assert fine.gamma == pytest.approx(1e-4) and fine.residual < 1e-12


# --- hard margins -----------------------------------------------------------------------------


def by_svc(Z):
    """scikit-learn always fits an intercept; on the mirrored set it is zero."""
    both, labels = np.vstack([Z, -Z]), np.repeat([1, -1], len(Z))
    return SVC(kernel="linear", C=1e10, tol=1e-12).fit(both, labels).coef_[0]


@pytest.mark.parametrize(
    ("classes", "seeds"),
    [(2, 40), (3, 4), *(pytest.param(k, 100, marks=pytest.mark.slow) for k in (2, 3))],
)
def test_hard_margins_against_scikit_learn(classes, seeds):
    for seed in range(seeds):  # libsvm takes seconds for three classes
        n, d = ((6, 10), (12, 4), (8, 8), (20, 3))[seed % 4]
        X, index = separable(n, d, seed, classes)
        problem = gb.Classification(X, index, "logistic" if classes == 2 else "cross_entropy")
        if not problem.separability.separable:
            continue
        found = problem.max_margin()
        w, alpha = found.w.ravel(), found.alpha.ravel()
        Z = problem.constraints
        margins = Z @ w
        assert found.residual <= 1e-12
        assert margins.min() >= 1 - 1e-12 and alpha.min() >= 0
        inner = alpha if classes == 2 else found.alpha[problem.Y == 0]
        np.testing.assert_allclose(Z.T @ inner, w, atol=1e-12 * np.abs(w).max())
        assert np.abs(inner * (margins - 1)).max() <= 1e-12 * inner.sum()
        assert alpha.sum() == pytest.approx(found.gamma**-2, rel=1e-12)
        theirs = by_svc(Z)
        reached = (Z @ theirs).min() / np.linalg.norm(theirs)
        assert (1 - 1e-4) * found.gamma < reached <= (1 + 1e-12) * found.gamma
        np.testing.assert_allclose(theirs, w, atol=1e-2 * np.abs(w).max())


@pytest.mark.parametrize("geometry", [gb.geometry.L1, gb.geometry.Linf])
def test_hard_margins_against_duality(geometry):
    """Any p bounds γ from above, any w from below: where they meet, both are proved."""
    norm, dual = (1, np.inf) if geometry is gb.geometry.L1 else (np.inf, 1)
    for seed in range(50):
        X, index = separable((6, 12)[seed % 2], (10, 4)[seed % 2], seed, delta=2.0)
        problem = gb.Classification(X, index)
        found = problem.max_margin(geometry)
        Z = problem.constraints
        p = found.alpha / found.alpha.sum()
        assert p.min() >= 0
        lower = (Z @ found.w).min() / np.linalg.norm(found.w, norm)
        upper = np.linalg.norm(Z.T @ p, dual)
        assert lower == pytest.approx(upper, rel=1e-12) == found.gamma
        assert found.residual <= 1e-12


def test_units_of_the_data_do_not_matter():
    X, index = separable(6, 10, 3)
    one = gb.Classification(X, index).max_margin()
    for scale in (1e-150, 1e150):
        other = gb.Classification(scale * X, index).max_margin()
        assert other.gamma == pytest.approx(scale * one.gamma, rel=1e-12)
        assert other.residual < 1e-12
    for scale in (1e-200, 1e200):
        with pytest.raises(ValueError, match="another unit"):
            gb.Classification(scale * X, index).max_margin()


def test_other_geometries_say_what_there_is_instead():
    problem = made("logistic")
    with pytest.raises(ValueError, match=r"exact solvers, got Spectral\(\).*certificate"):
        problem.max_margin(gb.geometry.Spectral)
    with pytest.raises(ValueError, match="geometry must be a geometry"):
        problem.max_margin("l2")
