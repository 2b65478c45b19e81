"""check_noise: nothing to say about our laws, and every defect of a broken one found."""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias import noise
from gradbias.problems import Batch
from gradbias.testing import check_noise
from noise.laws import CHANCES, Dropped, Importance

N, D, K = 5, 3, 2


def normal(*shape, key=0):
    return np.random.default_rng(key).normal(size=shape)


PROBLEM = gb.Regression.half_mean(normal(N, D), normal(N, K, key=1))
POPULATION = gb.Population(np.diag([1.0, 2.0, 0.0]), normal(K, D), 0.3 * np.eye(K))
LOGISTIC = gb.Samples(lambda out, y: jnp.sum(jnp.logaddexp(0.0, -y * out)), PROBLEM.X, PROBLEM.Y)
TANH = gb.MLP([D, 2, K], "tanh")

PASS = {
    "one row": (noise.Minibatch(1), PROBLEM),
    "all rows": (noise.Minibatch(N), PROBLEM),
    "rows with replacement": (noise.Minibatch(7, replace=True), PROBLEM),
    "labels": (noise.LabelNoise(0.5), PROBLEM),
    "labels of rows": (noise.LabelNoise(0.5, 2, law="gaussian"), PROBLEM),
    "labels with replacement": (noise.LabelNoise(0.5, 3, replace=True), PROBLEM),
    "no noise": (noise.LabelNoise(0.0), PROBLEM),
    "isotropic": (noise.Isotropic(0.4), PROBLEM),
    "isotropic, below rounding": (noise.Isotropic(1e-30), PROBLEM),
    "fresh samples": (noise.Minibatch(3), POPULATION),
    "any loss": (noise.Minibatch(2), LOGISTIC),
    "labels under any loss": (noise.LabelNoise(0.3, 2), LOGISTIC),
    "dropped samples": (Dropped(0.6), PROBLEM),
    "importance": (Importance(CHANCES, np.linspace(0.2, 1.0, N)), PROBLEM),
    "small inputs": (
        noise.LabelNoise(0.5, 2),
        gb.Regression.half_mean(1e-8 * normal(N, D), normal(N, K)),
    ),
    "zero labels": (noise.Minibatch(1), gb.Regression.half_mean(normal(N, D), np.zeros(N))),
    "one sample": (noise.LabelNoise(0.3, 1), gb.Regression.half_mean(normal(1, D), normal(1))),
    "many samples": (
        noise.Minibatch(3),
        gb.Regression.half_mean(normal(60, 5) @ np.diag([1, 1, 1, 0, 0]), normal(60, 4)),
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PASS)
def test_our_laws_pass(name):
    law, problem = PASS[name]
    report = check_noise(law, problem, draws=4000)
    assert report.ok
    assert "nothing wrong in fields, shapes" in str(report)


def test_nets_of_ones_own():
    params = gb.init.gaussian(TANH, 0.5)
    assert check_noise(noise.LabelNoise(0.3, 2), PROBLEM, TANH, params, draws=4000).ok
    assert check_noise(noise.Isotropic(0.3), PROBLEM, TANH, params, draws=4000).ok


def test_no_false_alarms():
    """Other keys are other draws: the threshold is far out of chance's reach, also for a law whose
    samples are seen ten times each."""
    for key in range(1, 9):
        assert check_noise(Dropped(0.002), PROBLEM, draws=5000, key=key).ok


class Own(noise.DataNoise):
    """Dropped samples and noisy labels: sound, and broken in one way by each of those below."""

    def draw(self, key, n, k=1):
        return self.weights(key, n), 0.3 * noise.normal(key, (n, k))

    def weights(self, key, n):
        return jnp.where(noise.uniform(key, n) < 0.5, 2.0, 0.0)

    def moments(self, n):
        return np.eye(n), 0.09


class OnParameters(noise.ParameterNoise):
    """The same for noise on parameters."""

    def draw(self, key, params):
        return {name: noise.normal(key, value.shape) for name, value in params.items()}

    def factor(self, problem, net, params):
        return jnp.eye(D * K)


def broken(base, **methods):
    return type("Broken", (base,), methods)()


def correlated_labels(self, key, n, k=1):
    w = self.weights(key, n)
    return w, 0.3 * (w - 1)[:, None] * jnp.abs(noise.normal(key, (n, k)))


def each_step_twice(self, problem, key, step):
    return Own.batch(self, problem, key, step // 2)


def always_the_same_run(self, problem, key, step):
    return Own.batch(self, problem, 0, step)


def drawn_otherwise(self, key, n, k):
    return Own.rows_batch(self, noise.fold(key, "again"), n, k)


def looks_at_inputs(self, problem, key, step):
    batch = Own.batch(self, problem, key, step)
    return Batch(weights=batch.weights + 0.0 * problem.X.sum(), label_noise=batch.label_noise)


def by_one_sample(self, key, n):
    """Of mean one, but all together: covariances that `moments` does not have."""
    return jnp.full(n, jnp.where(noise.uniform(key) < 0.5, 2.0, 0.0))


def numpy_draw(self, key, n, k=1):
    return np.asarray(noise.uniform(key, n)) * 2, None


DEFECTS = {
    "weights of another shape": (
        lambda: broken(Own, weights=lambda self, key, n: jnp.ones((n, 1))),
        r"draw: weights must have shape \(5,\), got \(5, 1\)",
    ),
    "labels of another shape": (
        lambda: broken(Own, draw=lambda self, key, n, k=1: (None, noise.normal(key, n))),
        r"draw: label noise must have shape \(5, 2\), got \(5,\)",
    ),
    "no pair": (
        lambda: broken(Own, draw=lambda self, key, n, k=1: self.weights(key, n)),
        "draw must return a pair",
    ),
    "single precision": (
        lambda: broken(
            Own, weights=lambda self, key, n: Own.weights(self, key, n).astype(jnp.float32)
        ),
        "draw computes in float32",
    ),
    "whole numbers": (
        lambda: broken(
            Own, weights=lambda self, key, n: 2 * (noise.uniform(key, n) < 0.5).astype(int)
        ),
        "draw: weights must be float64, got int64",
    ),
    "numpy": (lambda: broken(Own, draw=numpy_draw), "draw cannot be compiled"),
    "an error": (
        lambda: broken(Own, draw=lambda self, key, n, k=1: self.nothing),
        "draw fails: AttributeError",
    ),
    "biased weights": (
        lambda: broken(Own, weights=lambda self, key, n: 1.1 * Own.weights(self, key, n)),
        "weights are biased: their mean .* is off by 0.1.* in sample",
    ),
    "other variance of weights": (
        lambda: broken(Own, moments=lambda self, n: (1.2 * np.eye(n), 0.09 * 2 / 2.2)),
        r"weights have a variance of .* but 1\.2 is claimed",
    ),
    "correlated weights": (
        lambda: broken(Own, weights=by_one_sample),
        "weights have a covariance of .* in sample . and sample . .*but 0 is claimed",
    ),
    "biased labels": (
        lambda: broken(
            Own,
            draw=lambda self, key, n, k=1: (
                self.weights(key, n),
                0.1 + 0.3 * noise.normal(key, (n, k)),
            ),
        ),
        "noises of labels are biased: .* in label",
    ),
    "other variance of labels": (
        lambda: broken(Own, moments=lambda self, n: (np.eye(n), 0.3)),
        "noises of labels have a variance of 0.1.* but 0.6 is claimed",
    ),
    "labels that know the weights": (
        lambda: broken(Own, draw=correlated_labels),
        "noises of labels are biased",
    ),
    "one draw for ever": (
        lambda: broken(Own, draw=lambda self, key, n, k=1: Own.draw(self, 0, n, k)),
        "every step draws the same",
    ),
    "one run for ever": (
        lambda: broken(Own, batch=always_the_same_run),
        "every run draws the same",
    ),
    "each draw twice": (
        lambda: broken(Own, batch=each_step_twice),
        "draws of a step and the next are correlated",
    ),
    "batch against draw": (
        lambda: broken(Own, rows_batch=drawn_otherwise),
        "batch and draw give other weights at the same key",
    ),
    "moments of another shape": (
        lambda: broken(Own, moments=lambda self, n: (np.ones(n), 0.09)),
        r"moments: the covariance must have shape \(5, 5\), got \(5,\)",
    ),
    "moments not symmetric": (
        lambda: broken(Own, moments=lambda self, n: (np.eye(n) + np.eye(n, k=1), 0.09)),
        "the covariance must be symmetric",
    ),
    "negative covariance": (
        lambda: broken(Own, moments=lambda self, n: (-np.eye(n), 0.09)),
        "must not have the negative eigenvalue -1",
    ),
    "negative variance": (
        lambda: broken(Own, moments=lambda self, n: (np.eye(n), -0.09)),
        "the variance must be finite and not negative",
    ),
    "moments not a pair": (
        lambda: broken(Own, moments=lambda self, n: np.eye(n)),
        r"moments must return \(covariance, variance\)",
    ),
    "covariance of its own": (
        lambda: broken(Own, covariance=lambda self, problem, net, params: np.eye(D * K)),
        "covariance and kick do not have the same covariance",
    ),
    "compact moments": (
        lambda: broken(Own, compact_moments=lambda self, n: (2.0, 0.09)),
        "gradients have a",
    ),
    "looks at the inputs": (
        lambda: broken(Own, batch=looks_at_inputs),
        "a run in the coordinates of the exact closure fails.*'X'",
    ),
    "refuses": (lambda: noise.Minibatch(9), "does not take this problem: ValueError: batch_size"),
    "parameters of another structure": (
        lambda: broken(OnParameters, draw=lambda self, key, params: noise.normal(key, D * K)),
        "draw must return the structure of params",
    ),
    "parameters of another shape": (
        lambda: broken(
            OnParameters, draw=lambda self, key, params: {"W1": noise.normal(key, (K, D))}
        ),
        r"draw\['W1'\] must have shape \(3, 2\), got \(2, 3\)",
    ),
    "other factor": (
        lambda: broken(OnParameters, factor=lambda self, *at: 1.2 * jnp.eye(D * K)),
        r"gradients have a variance of .* but 1\.44 is claimed",
    ),
    "biased parameters": (
        lambda: broken(
            OnParameters, draw=lambda self, key, params: {"W1": 0.2 + noise.normal(key, (D, K))}
        ),
        "gradients are biased",
    ),
    "parameters without a key": (
        lambda: broken(
            OnParameters, draw=lambda self, key, params: OnParameters.draw(self, 0, params)
        ),
        "every step draws the same",
    ),
    "factor on the host": (
        lambda: broken(
            OnParameters, factor=lambda self, problem, net, params: np.diag(np.ravel(params["W1"]))
        ),
        "the noise of a gradient fails: TracerArrayConversionError",
    ),
}


def test_the_sound_ones_pass():
    assert check_noise(Own(), PROBLEM, draws=4000).ok
    assert check_noise(OnParameters(), PROBLEM, draws=4000).ok


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found(name):
    make, words = DEFECTS[name]
    report = check_noise(make(), PROBLEM, draws=10_000, raise_on_error=False)
    with pytest.raises(AssertionError, match=words):
        raise AssertionError("\n".join(report.findings))


def test_all_findings_are_raised_at_once():
    law = broken(Own, moments=lambda self, n: (np.ones(n), -1.0))
    with pytest.raises(ValueError, match=r"2 found\n  1\. moments: .*\n  2\. moments: "):
        check_noise(law, PROBLEM)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((Own, PROBLEM), "noise must be an instance, got the class Own itself"),
        ((0.3, PROBLEM), "noise must be a Noise, got float"),
        ((noise.Replay([[0]]), PROBLEM), "noise must be a law, got Replay"),
        ((Own(), PROBLEM.X), "problem must be a Problem, got ndarray"),
        ((Own(), PROBLEM, TANH), "net and params must be given together"),
        ((Own(), PROBLEM, None, None, 10), "draws must be a whole number of at least 100"),
        (
            (noise.Minibatch(2), POPULATION, TANH, gb.init.gaussian(TANH, 0.5)),
            "net must be linear on Population, got MLP",
        ),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        check_noise(*arguments)
