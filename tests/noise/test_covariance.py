"""Every law's covariance: against its own draws, all possible draws, and formulas by hand."""

import itertools

import equinox as eqx
import jax
import numpy as np
import pytest

import gradbias as gb
from gradbias.problems import Batch
from noise.laws import (
    LAWS,
    NETS,
    D,
    N,
    assert_covariance,
    case,
    drawn,
    every_draw,
    flat_gradient,
    normal,
    population,
)

FEW = ("two rows", "two rows with replacement")
FINITE = [("two layers", law) for law in LAWS]
FINITE += [(net, law) for net in ("rank one", "diagonal", "tanh", "logistic") for law in FEW]
FINITE += [(net, "signs with replacement") for net in ("rank one", "diagonal", "tanh")]
POPULATIONS = ("two layers", "rank one", "diagonal")


# --- against draws ----------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("net", "law"), FINITE)
def test_draws_have_the_covariance(net, law):
    setting, law = case(net), LAWS[law]
    covariance = law.covariance(*setting)
    assert isinstance(covariance, np.ndarray) and covariance.dtype == np.float64
    assert_covariance(drawn(*setting, law), flat_gradient(*setting), covariance)


@pytest.mark.parametrize("net", POPULATIONS)
def test_fresh_samples_have_the_covariance(net):
    setting, law = population(net), gb.noise.Minibatch(3)
    draws = drawn(*setting, law, count=100_000)
    assert_covariance(draws, flat_gradient(*setting), law.covariance(*setting))


def test_a_wrong_covariance_would_be_seen():
    """The finite population factor, the second term of Isserlis: each is many errors away."""
    setting = case("two layers")
    draws, mean = drawn(*setting, LAWS["two rows"]), flat_gradient(*setting)
    with pytest.raises(AssertionError):
        assert_covariance(draws, mean, LAWS["two rows with replacement"].covariance(*setting))
    setting, law = population("rank one"), gb.noise.Minibatch(3)
    wrong = law.covariance(*setting) * 1.1
    with pytest.raises(AssertionError):
        assert_covariance(drawn(*setting, law), flat_gradient(*setting), wrong)


# --- against all possible draws: exact --------------------------------------------------------


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("b", [1, 2, 3, 5])
@pytest.mark.parametrize("net", ["two layers", "tanh", "logistic"])
def test_minibatches_by_enumeration(net, b, replace):
    if replace and b == 5:
        b = 4
    problem, model, params = case(net)
    batches = every_draw(N, b, replace)
    with gb.float64():
        G = np.asarray(_all_gradients(problem, model, params, batches))
    mean = flat_gradient(problem, model, params)
    np.testing.assert_allclose(G.mean(axis=0), mean, rtol=0, atol=1e-13 * np.abs(G).max())
    covariance = gb.noise.Minibatch(b, replace).covariance(problem, model, params)
    exact = (G - mean).T @ (G - mean) / len(G)
    scale = np.abs(G).max() ** 2
    np.testing.assert_allclose(covariance, exact, rtol=0, atol=1e-13 * scale)


@eqx.filter_jit
def _all_gradients(problem, net, params, batches, label_noise=None):
    from jax.flatten_util import ravel_pytree

    from gradbias.dynamics import gradient

    def one(indices, noise):
        return ravel_pytree(gradient(problem, net, params, Batch(indices, noise)))[0]

    if label_noise is None:
        return jax.vmap(lambda indices: one(indices, None))(batches)
    return jax.vmap(one)(batches, label_noise)


@pytest.mark.parametrize("replace", [False, True])
def test_label_signs_by_enumeration(replace):
    problem, net, params = case("rank one")
    b, std = 2, 0.7
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=b)))[:, :, None]
    rows = every_draw(N, b, replace)
    batches = np.repeat(rows, len(signs), axis=0)
    noises = std * np.tile(signs, (len(rows), 1, 1))
    with gb.float64():
        G = np.asarray(_all_gradients(problem, net, params, batches, noises))
    mean = flat_gradient(problem, net, params)
    np.testing.assert_allclose(G.mean(axis=0), mean, rtol=0, atol=1e-13 * np.abs(G).max())
    covariance = gb.noise.LabelNoise(std, b, replace).covariance(problem, net, params)
    exact = (G - mean).T @ (G - mean) / len(G)
    np.testing.assert_allclose(covariance, exact, rtol=0, atol=1e-13 * np.abs(G).max() ** 2)


# --- the square root --------------------------------------------------------------------------


def assert_factor(law, setting):
    sigma, covariance = law.factor(*setting), law.covariance(*setting)
    scale = max(np.abs(covariance).max(), 1e-300)
    np.testing.assert_allclose(sigma @ sigma.T, covariance, rtol=0, atol=1e-12 * scale)
    np.testing.assert_array_equal(covariance, covariance.T)
    return sigma


@pytest.mark.parametrize(("net", "law"), FINITE)
def test_factor(net, law):
    setting, law = case(net), LAWS[law]
    sigma = assert_factor(law, setting)
    assert sigma.shape[1] == np.prod(law.kick_size(*setting))


@pytest.mark.parametrize("net", POPULATIONS)
def test_factor_on_fresh_samples(net):
    assert_factor(gb.noise.Minibatch(3), population(net))


@pytest.mark.smoke
def test_a_kick_is_the_factor_times_normals():
    problem, net, params = case("two layers")
    for law in (LAWS["signs on two labels"], LAWS["importance"]):
        z = normal(*law.kick_size(problem, net, params), key=4)
        with gb.float64():
            kick = jax.jit(lambda z, law=law: law.kick(problem, net, params, z))(z)
        flat = np.concatenate([np.asarray(kick[name]).ravel() for name in sorted(kick)])
        sigma = law.factor(problem, net, params)
        np.testing.assert_allclose(flat, sigma @ z.ravel(), rtol=0, atol=1e-12)


# --- formulas by hand -------------------------------------------------------------------------


def test_the_rank_one_sheet():
    """Of the mean square in the predictor: 4Xᵀ(diag(r²)/n − rrᵀ/n²)X/b."""
    X, y, theta = normal(N, D), normal(N, key=1), normal(D, 1, key=2)
    r = X @ theta[:, 0] - y
    C = np.diag(r**2) / N - np.outer(r, r) / N**2
    setting = gb.Regression.mean(X, y), gb.nets.Deep([D, 1]), {"W1": theta}
    for b, replace, factor in ((2, True, 1 / 2), (2, False, 3 / 8), (1, False, 1.0), (5, False, 0)):
        ours = gb.noise.Minibatch(b, replace).covariance(*setting)
        np.testing.assert_allclose(ours, 4 * factor * X.T @ C @ X, rtol=0, atol=1e-12)


def interpolating(n=4, d=6):
    """Half mean square, a diagonal net that fits, and H = JᵀJ/n."""
    X, u, v = normal(n, d), normal(d, key=1), normal(d, key=2)
    J = np.hstack([2 * X * u, -2 * X * v])
    return X, X @ (u**2 - v**2), gb.Diagonal(d), {"u": u, "v": v}, J.T @ J / n


@pytest.mark.parametrize("law", ["sign", "gaussian"])
@pytest.mark.parametrize(
    ("b", "replace"), [(1, False), (3, False), (3, True), (9, True), (4, False)]
)
def test_label_noise_is_the_hessian_where_data_are_interpolated(b, replace, law):
    X, y, net, params, H = interpolating()
    ours = gb.noise.LabelNoise(0.6, b, replace, law).covariance(
        gb.Regression.half_mean(X, y), net, params
    )
    np.testing.assert_allclose(ours, 0.36 / b * H, rtol=0, atol=1e-12 * np.abs(H).max())


def test_label_noise_on_all_rows_is_a_batch_of_n():
    X, y, net, params, H = interpolating()
    ours = gb.noise.LabelNoise(0.6).covariance(gb.Regression.half_mean(X, y), net, params)
    np.testing.assert_allclose(ours, 0.36 / 4 * H, rtol=0, atol=1e-12 * np.abs(H).max())


@pytest.mark.parametrize("b", [1, 2, 4])
def test_conflicting_labels(b):
    """Every sample twice, with labels y ± δ: Σ = δ²(N − b)/(b(N − 1))·H."""
    X, y, net, params, H = interpolating()
    problem = gb.Regression.half_mean(np.vstack([X, X]), np.concatenate([y + 0.5, y - 0.5]))
    exact = 0.25 * (8 - b) / (b * 7) * H
    ours = gb.noise.Minibatch(b).covariance(problem, net, params)
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-12 * np.abs(H).max())


def test_clean_interpolated_data_make_no_noise():
    X, y, net, params, _ = interpolating()
    ours = gb.noise.Minibatch(1).covariance(gb.Regression.half_mean(X, y), net, params)
    assert np.abs(ours).max() < 1e-28


def test_fresh_samples_at_the_teacher():
    """Only the label noise is left: 4·weight²/b · Σ ⊗ sigma_eps."""
    problem, _, _ = population("two layers")
    net = gb.nets.Deep([D, 2])
    ours = gb.noise.Minibatch(3).covariance(problem, net, {"W1": problem.V.T})
    exact = 4 * 0.3**2 / 3 * np.kron(problem.sigma_x, problem.sigma_eps)
    np.testing.assert_allclose(ours, exact, rtol=0, atol=1e-13)


def test_fresh_samples_with_one_input_and_output():
    """x²-moments by hand: Var(x(ex − ε)) = 2e²σ⁴ + σ²s²."""
    problem = gb.Population([[1.7]], [[0.4]], [[0.3]])
    ours = gb.noise.Minibatch(2).covariance(problem, gb.nets.Deep([1, 1]), {"W1": [[1.0]]})
    exact = 4 / 2 * (2 * 0.6**2 * 1.7**2 + 1.7 * 0.3)
    np.testing.assert_allclose(ours, [[exact]], rtol=1e-13)


# --- odd shapes -------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [gb.noise.Minibatch(1), gb.noise.LabelNoise(0.5, 1)])
def test_one_sample(law):
    problem = gb.Regression.mean([[1.0, 2.0]], [[3.0, 4.0, 5.0]])
    setting = problem, gb.TwoLayer(2, 3, 1), {"W1": np.ones((2, 1)), "W2": np.ones((1, 3))}
    sigma = assert_factor(law, setting)
    if isinstance(law, gb.noise.Minibatch):
        assert not sigma.any()


def test_rank_deficient_data_and_extreme_scales():
    X = np.outer(normal(6), normal(4, key=1))
    for scale in (1e-60, 1.0, 1e60):
        problem = gb.Regression.mean(X * scale, normal(6, key=2))
        setting = problem, gb.Diagonal(4), {"u": np.ones(4), "v": np.zeros(4)}
        for law in (gb.noise.Minibatch(2), gb.noise.LabelNoise(scale, 2)):
            sigma = assert_factor(law, setting)
            assert np.linalg.matrix_rank(sigma) <= 2


def test_all_rows_without_replacement_are_no_noise():
    setting = case("tanh")
    assert np.abs(gb.noise.Minibatch(N).covariance(*setting)).max() < 1e-15
    assert np.ptp(drawn(*setting, gb.noise.Minibatch(N), count=5), axis=0).max() == 0


def test_inputs_that_do_not_vary():
    problem = gb.Population(np.zeros((2, 2)), [[1.0, 2.0]], [[1.0]])
    setting = problem, gb.Diagonal(2), {"u": np.ones(2), "v": np.ones(2)}
    assert not gb.noise.Minibatch(2).covariance(*setting).any()
    assert gb.noise.Minibatch(2).factor(*setting).shape[0] == 4
    assert not drawn(*setting, gb.noise.Minibatch(2), count=3).any()


# --- what it refuses --------------------------------------------------------------------------


def test_dense_matrices_have_a_limit():
    net = gb.TwoLayer(100, 1, 100)
    problem = gb.Regression.mean(normal(3, 100), normal(3))
    params = {"W1": np.zeros((100, 100)), "W2": np.zeros((100, 1))}
    with pytest.raises(ValueError, match="covariance.*10100 × 10100.*noise.kick"):
        gb.noise.Minibatch(1).covariance(problem, net, params)
    with pytest.raises(ValueError, match="covariance.*10100 × 10100.*noise.kick"):
        gb.noise.Isotropic(1.0).covariance(problem, net, params)
    assert gb.noise.Minibatch(1).factor(problem, net, params).shape == (10100, 3)


def test_label_noise_needs_a_squared_loss():
    problem, net, params = case("logistic")
    for method in ("covariance", "factor"):
        with pytest.raises(ValueError, match="squared loss only.*got Samples"):
            getattr(gb.noise.LabelNoise(0.1, 2), method)(problem, net, params)


def test_fresh_samples_need_a_linear_net():
    problem, _, _ = population("two layers")
    _, net, params = case("tanh")
    for method in ("covariance", "factor"):
        with pytest.raises(ValueError, match="net must be linear on Population.*MLP"):
            getattr(gb.noise.Minibatch(2), method)(problem, net, params)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"problem": None}, "problem must be a gradbias problem, got NoneType"),
        ({"net": "TwoLayer"}, "net must be a gradbias net, got str"),
        ({"params": {"W1": 1.0}}, r"params must be a dict of \['W1', 'W2'\], got \['W1'\]"),
        ({"params": 3}, "params must be a dict of.*got int"),
        ({"params": {"W1": np.ones((2, D)), "W2": 1.0}}, r"params\['W1'\] must have shape"),
        ({"law": gb.noise.Minibatch(6)}, "batch_size must be at most the 5 samples.*got 6"),
    ],
)  # fmt: skip
def test_wrong_arguments(change, words):
    problem, net, params = case("two layers")
    given = {"problem": problem, "net": net, "params": params, "law": gb.noise.Minibatch(2)}
    given |= change
    law = given.pop("law")
    for method in (law.covariance, law.factor):
        with pytest.raises(ValueError, match=words):
            method(**given)


def test_nets_are_all_used():
    assert set(NETS) == {net for net, _ in FINITE}
