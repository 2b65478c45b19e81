"""Draws: unbiased, the same whichever way they are asked for, and closed under the reduction."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias import noise
from gradbias.numerics.compilations import count_compilations
from gradbias.numerics.counter_rng import seed, stream
from gradbias.problems import Batch
from gradbias.reductions._row_space import in_row_space
from noise.laws import (
    LAWS,
    Dropped,
    N,
    assert_covariance,
    case,
    drawn,
    flat_gradient,
    gradients,
    normal,
    population,
)


def same(a, b, tolerance=1e-13):
    scale = max(np.abs(a).max(initial=0.0), 1e-300)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


# --- one draw, asked for in several ways ------------------------------------------------------


@pytest.mark.one_in(5)
@pytest.mark.parametrize("net", ["two layers", "tanh", "logistic"])
@pytest.mark.parametrize("law", LAWS)
def test_dense_weights_and_rows_give_the_same_gradient(net, law):
    if (net, law) == ("logistic", "signs with replacement"):
        pytest.skip("two noises of one row act through their mean under squared loss only")
    problem, model, params = case(net)
    law = LAWS[law]
    for step in range(3):
        with gb.float64():
            weights, labels = law.draw(stream(3, step, type(law).__name__), problem.n, problem.k)
            batch = law.batch(problem, 3, step)
        dense = flat_gradient(problem, model, params, Batch(weights=weights, label_noise=labels))
        same(dense, flat_gradient(problem, model, params, batch))


@pytest.mark.parametrize("law", LAWS)
def test_numpy_and_jax_draw_the_same(law):
    law = LAWS[law]
    with gb.float64():
        host = law.draw(stream(1, 2**33, "x"), N, 2)
        compiled = eqx.filter_jit(lambda law, key, step: law.draw(stream(key, step, "x"), N, 2))
        traced = compiled(law, seed(1), np.int64(2**33))
    for a, b in zip(host, traced, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-14, atol=1e-14)
    if type(law).__module__.startswith("gradbias"):
        assert all(value is None or isinstance(value, np.ndarray) for value in host)


@pytest.mark.parametrize("law", LAWS)
def test_moments_are_those_of_the_draws(law):
    """Weights of mean one and the covariance said; w·ε of mean zero and variance E[w²]·Var(ε)."""
    law = LAWS[law]
    with gb.float64():
        cov, variance = law.moments(N)
        draw = eqx.filter_jit(
            lambda law, steps: jax.vmap(lambda k: law.draw(stream(0, k, "m"), N, 2))(steps)
        )
        weights, labels = draw(law, np.arange(40_000))
    weights = np.ones((40_000, N)) if weights is None else np.asarray(weights)
    cov = np.zeros((N, N)) if cov is None else np.asarray(cov)
    assert_covariance(weights, 1.0, cov)
    if labels is not None:
        noisy = (weights[:, :, None] * np.asarray(labels)).reshape(len(weights), -1)
        squares = np.repeat((1 + np.diagonal(cov)) * variance, 2)
        both = np.hstack([weights, noisy])  # and no correlation between them
        joint = np.block([[cov, np.zeros((N, 2 * N))], [np.zeros((2 * N, N)), np.diag(squares)]])
        assert_covariance(both, np.repeat([1.0, 0.0], [N, 2 * N]), joint)


def test_draws_depend_on_key_step_and_law():
    def rows(law, key, step):
        return tuple(law.batch(problem, key, step).indices)

    problem = gb.Regression.mean(normal(10_000, 1), normal(10_000))
    a, b = noise.Minibatch(3), noise.LabelNoise(0.1, 3)
    seen = {rows(a, 0, 0), rows(a, 0, 1), rows(a, 1, 0), rows(b, 0, 0), rows(b, 0, 1)}
    assert len(seen) == 5
    assert rows(a, 5, 7) == rows(noise.Minibatch(3), 5, 7)


@pytest.mark.parametrize("b", [1, 4, 9])
def test_rows_of_a_minibatch(b):
    problem = gb.Regression.mean(normal(12, 2), normal(12, 1))
    for step in range(5):
        different = noise.Minibatch(b).batch(problem, 0, step).indices
        assert len(set(different.tolist())) == b and 0 <= different.min() <= different.max() < 12
        batch = noise.LabelNoise(0.3, b, law="gaussian").batch(problem, 0, step)
        assert batch.indices.shape == (b,) and batch.label_noise.shape == (b, 1)
        assert set(
            np.abs(noise.LabelNoise(0.3, b).batch(problem, 0, step).label_noise.ravel())
        ) == {0.3}


# --- under the exact closure ------------------------------------------------------------------


@pytest.mark.parametrize("law", [*LAWS, "fresh"])
def test_the_reduced_problem_sees_the_same_draws(law):
    """In the coordinates of the row space: the same gradients and the same kicks."""
    if law == "fresh":
        problem, law = population("two layers")[0], noise.Minibatch(3)
    else:
        X = normal(N, 2, key=3) @ normal(2, 6, key=4)
        problem, law = gb.Regression(X, normal(N, 2, key=1), 0.3), LAWS[law]
    E, d = problem.row_space, problem.d
    small, theta = in_row_space(problem), normal(d, 2, key=5)
    full, reduced = gb.nets.Deep([d, 2]), gb.nets.Deep([E.shape[1], 2])
    assert law.in_basis(E) is law
    with gb.float64():
        for step in range(3):
            a = problem.theta_gradient(theta, law.batch(problem, 1, step))
            b = small.theta_gradient(E.T @ theta, law.batch(small, 1, step))
            same(np.asarray(a), E @ np.asarray(b))
        large, little = {"W1": theta}, {"W1": E.T @ theta}
        size = law.kick_size(problem, full, large)
        assert size == law.kick_size(small, reduced, little)
        z = normal(*size, key=6)
        a = law.kick(problem, full, large, z)["W1"]
        b = law.kick(small, reduced, little, z)["W1"]
    same(np.asarray(a), E @ np.asarray(b))


def test_label_noise_on_replayed_samples_is_seen_by_the_reduced_population():
    problem, _, _ = population("two layers")
    x, y = problem.sample(4)
    replay = noise.Replay(label_noise=normal(1, 4, 2), samples=(x[None], y[None]))
    E, theta = problem.row_space, normal(3, 2, key=1)
    small = in_row_space(problem)
    a = problem.theta_gradient(theta, replay.batch(problem, 0, 0))
    b = small.theta_gradient(E.T @ theta, replay.in_basis(E).batch(small, 0, 0))
    same(a, E @ b)


def test_non_linear_nets_see_fresh_samples():
    problem, (_, net, params) = population("two layers")[0], case("tanh")
    batch = noise.Minibatch(3).batch(problem, 0, 4)
    x, y = np.asarray(batch.x), np.asarray(batch.y)
    assert x.shape == (3, 3) and y.shape == (3, 2)
    ours = flat_gradient(problem, net, params, batch)
    same(ours, flat_gradient(gb.Regression(x, y, 0.1), net, params))  # weight 0.3 over 3 samples


def test_members_of_a_batch_of_runs_may_differ_in_key_and_std():
    problem, net, params = case("rank one")
    stds, keys = np.array([0.1, 0.7]), np.array([seed(3), seed(4)])
    base = noise.LabelNoise(1.0, 2)

    def one(std, key):
        law = eqx.tree_at(lambda law: law.std, base, std)
        return gradients(problem, net, params, law, key, np.arange(4))

    with gb.float64():
        together = np.asarray(jax.vmap(one)(stds, keys))
    for i, key in enumerate((3, 4)):
        same(together[i], drawn(problem, net, params, noise.LabelNoise(stds[i], 2), 4, key))


# --- compiled once ----------------------------------------------------------------------------


def test_another_std_or_key_does_not_compile_again():
    setting = case("rank one")
    drawn(*setting, noise.LabelNoise(0.1, 2), count=50)
    noise.LabelNoise(0.1, 2).covariance(*setting)
    noise.LabelNoise(0.1, 2).factor(*setting)
    with count_compilations() as compilations:
        drawn(*setting, noise.LabelNoise(0.2, 2), count=50, key=9)
        noise.LabelNoise(0.2, 2).covariance(*setting)
        noise.LabelNoise(0.2, 2).factor(*setting)
    assert compilations.count == 0


# --- noise in the parameters ------------------------------------------------------------------


class Layered(noise.ParameterNoise):
    """An own law: noise along one random direction of the first layer."""

    size: float

    def draw(self, key, params):
        push = self.size * noise.normal(key)
        return {name: push * float(name == "W1") * jnp.ones_like(p) for name, p in params.items()}

    def factor(self, problem, net, params):
        parts = [float(name == "W1") * np.ones(params[name].size) for name in sorted(params)]
        return self.size * np.concatenate(parts)[:, None]


@pytest.mark.parametrize("law", [noise.Isotropic(0.4), Layered(0.4)], ids=["isotropic", "layered"])
def test_parameter_noise(law):
    setting = case("two layers")
    sigma, covariance = law.factor(*setting), law.covariance(*setting)
    np.testing.assert_allclose(sigma @ sigma.T, covariance, rtol=0, atol=1e-15)
    assert_covariance(drawn(*setting, law), flat_gradient(*setting), covariance)
    assert law.batch(setting[0], 0, 0) is None and law.in_basis(np.eye(3)) is None
    assert "parameter noise" in law.not_closed
    size = law.kick_size(*setting)
    z = normal(*size, key=3)
    with gb.float64():
        kick = law.kick(*setting, z)
    flat = np.concatenate([np.asarray(kick[name]).ravel() for name in sorted(kick)])
    np.testing.assert_allclose(flat, sigma @ z, rtol=0, atol=1e-15)


def test_isotropic_noise_is_isotropic():
    setting = case("tanh")
    np.testing.assert_array_equal(
        noise.Isotropic(0.5).covariance(*setting), 0.25 * np.eye(len(flat_gradient(*setting)))
    )


def test_isotropic_draws_are_the_same_in_numpy_and_jax():
    params = {"a": np.ones((2, 3)), "b": np.ones(()), "c": np.ones((0, 2))}
    law = noise.Isotropic(2.0)
    host = law.draw(stream(0, 1, "x"), params)
    with gb.float64():
        traced = jax.jit(lambda params: law.draw(stream(0, 1, "x"), params))(params)
    for name, value in host.items():
        assert value.shape == params[name].shape
        np.testing.assert_allclose(value, np.asarray(traced[name]), rtol=0, atol=1e-14)
    assert host["a"][0, 0] != host["b"]


# --- what they refuse -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: noise.Minibatch(0), "batch_size must be a whole number of at least 1, got 0"),
        (lambda: noise.Minibatch(2.0), "batch_size must be a whole number.*got 2.0"),
        (lambda: noise.Minibatch(2, replace=1), "replace must be True or False, got 1"),
        (lambda: noise.LabelNoise(-0.1), "std must be at least 0, got -0.1"),
        (lambda: noise.LabelNoise("big"), "std must be a number, got str 'big'"),
        (lambda: noise.LabelNoise(np.inf), "std must be finite, got inf"),
        (lambda: noise.LabelNoise(1, 0), "batch_size must be a whole number of at least 1, got 0"),
        (lambda: noise.LabelNoise(1, law="cauchy"), "law must be one of.*got 'cauchy'"),
        (lambda: noise.LabelNoise(1, replace=True), "replace=True needs a batch_size"),
        (lambda: noise.Isotropic(-1), "std must be at least 0, got -1"),
        (lambda: noise.Isotropic(None), "std must be a number, got NoneType"),
    ],
)
def test_wrong_arguments(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("law", [noise.Minibatch(6), noise.LabelNoise(0.1, 6)])
def test_more_rows_than_there_are(law):
    for name in ("two layers", "logistic"):
        with pytest.raises(ValueError, match="batch_size must be at most the 5 samples.*got 6"):
            law.check(case(name)[0], 10)
    type(law)(*([0.1] * isinstance(law, noise.LabelNoise)), 6, True).check(
        case("two layers")[0], None
    )
    noise.Minibatch(6).check(population("two layers")[0], None)


@pytest.mark.parametrize("law", [noise.LabelNoise(0.1), noise.LabelNoise(0.1, 2), Dropped(0.5)])
def test_laws_of_rows_have_no_meaning_on_population(law):
    setting = population("two layers")
    for call in (lambda: law.check(setting[0], 5), lambda: law.covariance(*setting)):
        with pytest.raises(ValueError, match="rows of finite data, but Population"):
            call()


def test_replay_is_not_a_law():
    setting = case("two layers")
    replay = noise.Replay([[0, 1]])
    for call in (
        lambda: replay.moments(5),
        lambda: replay.covariance(*setting),
        lambda: replay.factor(*setting),
        lambda: replay.spread(setting[0]),
    ):
        with (
            gb.float64(),
            pytest.raises(NotImplementedError, match="Replay has no covariance.*gb.Minibatch"),
        ):
            call()
    with pytest.raises(NotImplementedError, match="recorded"):
        replay.draw(0, 5)


def test_an_own_law_with_a_wrong_shape_is_told_so():
    class Wrong(noise.DataNoise):
        def draw(self, key, n, k=1):
            return noise.uniform(key, (n, 1)), None

        def moments(self, n):
            return None, 0.0

    with pytest.raises(ValueError, match=r"Wrong.draw must return weights of shape \(5,\), got"):
        Wrong().batch(case("two layers")[0], 0, 0)


def test_single_precision_is_refused():
    problem, net, params = case("two layers")
    for call in (
        lambda: LAWS["two rows"].spread(problem),
        lambda: noise.Isotropic(1.0).kick(problem, net, params, np.zeros(10)),
    ):
        with jax.enable_x64(False), pytest.raises(ValueError, match="needs double precision"):
            call()


def test_moments_in_numpy_of_the_laws_own_fields_are_told_so():
    class Wrong(Dropped):
        def moments(self, n):
            return np.diag(np.full(n, self.keep)), 0.0

    problem, law = case("two layers")[0], Wrong(np.asarray(0.5))
    with gb.float64(), pytest.raises(ValueError, match="Wrong.moments must use jax.numpy"):
        eqx.filter_jit(lambda law: law.spread(problem))(law)
