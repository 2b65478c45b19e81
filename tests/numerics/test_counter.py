"""The counter generator: the same bits in NumPy and jax, uniform, independent along every axis."""

import functools
import itertools

import jax
import numpy as np
import pytest
from scipy import stats

import gradbias as gb
from gradbias.numerics import counter_rng

LARGEST_Z = 4.5  # one in 150 000; the keys are fixed, so a test either holds or does not


def draws(key):
    """One of everything, with odd shapes, below and above the size where subsets use a loop."""
    return {
        "uniform": counter_rng.uniform(key, (3, 5)),
        "one uniform": counter_rng.uniform(key),
        "sign": counter_rng.sign(key, 9),
        "integers": counter_rng.integers(key, 40, 7),
        "one integer": counter_rng.integers(key, 1, 3),
        "many integers": counter_rng.integers(key, 2**32 - 1, 7),
        "subset": counter_rng.subset(key, 40, 4),
        "looped subset": counter_rng.subset(key, 40, 17),
        "everything": counter_rng.subset(key, 11, 11),
        "normal": counter_rng.normal(key, (4, 7)),
        "one normal": counter_rng.normal(key),
        "no normal": counter_rng.normal(key, (3, 0)),
    }


@functools.cache
def jitted():
    return jax.jit(lambda key, step: draws(counter_rng.stream(key, step, "test")))


@functools.cache
def table(name, keys=40, steps=50, lanes=64):
    """(keys, steps, lanes) numbers of one law."""
    function = getattr(counter_rng, name)

    @jax.jit
    def fill(key, step):
        return function(counter_rng.stream(key, step, "table"), (lanes,))

    with gb.float64():
        seeds = np.array([counter_rng.seed(key) for key in range(keys)])
        over_steps = jax.vmap(fill, in_axes=(None, 0))
        return np.asarray(jax.vmap(over_steps, in_axes=(0, None))(seeds, np.arange(steps)))


def assert_frequencies(counts, expected):
    """Chi², as a standard normal number (Wilson and Hilferty)."""
    degrees = len(counts) - 1
    chi2 = np.sum((counts - expected) ** 2 / expected)
    z = ((chi2 / degrees) ** (1 / 3) - (1 - 2 / (9 * degrees))) / np.sqrt(2 / (9 * degrees))
    assert abs(z) < LARGEST_Z, z


# --- the same in NumPy and in jax -------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.parametrize("key", [0, 1, 2**64 - 1, 2**64, 3**90])
@pytest.mark.parametrize("step", [0, 1, 2**31, 2**53 + 1])
def test_the_same_bits_in_numpy_and_jax(key, step):
    ours = draws(counter_rng.stream(key, step, "test"))
    with gb.float64():
        theirs = jax.tree.map(np.asarray, jitted()(counter_rng.seed(key), np.int64(step)))
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype and value.shape == theirs[name].shape, name
        if "normal" in name:
            np.testing.assert_allclose(theirs[name], value, rtol=0, atol=1e-14)
        else:
            np.testing.assert_array_equal(theirs[name], value)


def test_many_normals_agree_with_numpy():
    numpy = counter_rng.normal(counter_rng.stream(5, 6, "normals"), (100, 1001))
    with gb.float64():
        compiled = jax.jit(lambda key: counter_rng.normal(key, (100, 1001)))
        ours = compiled(counter_rng.stream(5, 6, "normals"))
    np.testing.assert_allclose(np.asarray(ours), numpy, rtol=0, atol=1e-14)


def test_many_normals_side_by_side_are_those_of_each_key():
    keys = [counter_rng.stream(seed, 0, "normals") for seed in range(3)]
    with gb.float64():
        together = jax.jit(jax.vmap(lambda key: counter_rng.normal(key, (64, 65))))(
            np.asarray(keys)
        )
    alone = np.stack([counter_rng.normal(key, (64, 65)) for key in keys])
    np.testing.assert_allclose(np.asarray(together), alone, rtol=0, atol=1e-14)


def test_integer_keys_inside_jit():
    with gb.float64():
        ours = jax.jit(lambda step: counter_rng.uniform(counter_rng.stream(7, step, "x"), 3))(2)
    np.testing.assert_array_equal(
        np.asarray(ours), counter_rng.uniform(counter_rng.stream(7, 2, "x"), 3)
    )


def test_the_written_out_logarithm_is_one():
    x = np.concatenate([np.linspace(2e-16, 1, 100_001), 2.0 ** -np.arange(60.0)])
    near_one = 1 - 2.0 ** -np.arange(2, 54.0)
    for values in (x, near_one):
        np.testing.assert_allclose(counter_rng._log(values), np.log(values), rtol=5e-16, atol=0)


def test_splitmix64_has_its_published_values():
    """The first outputs of the reference implementation for the seed 1234567."""
    state = np.uint64(1234567)
    ours = [int(counter_rng.fold(state, i)) for i in range(3)]
    assert ours == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("name", ["uniform", "sign", "normal"])
def test_a_smaller_shape_is_the_corner_of_a_larger_one(name):
    function, key = getattr(counter_rng, name), counter_rng.stream(1, 2, "corner")
    large = function(key, (6, 9))
    for rows, columns in ((1, 1), (3, 4), (6, 5), (2, 9)):
        np.testing.assert_array_equal(function(key, (rows, columns)), large[:rows, :columns])
    np.testing.assert_array_equal(function(key, 9), large[0])
    np.testing.assert_array_equal(function(key, (2, 3, 9)).reshape(6, 9), large)


# --- the laws ---------------------------------------------------------------------------------


def test_uniform_numbers_are_uniform():
    u = table("uniform")
    assert u.min() >= 0 and u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 1e-4
    for shift in (1, 2**10, 2**20, 2**40):  # leading bits and trailing ones
        cells = np.floor(u.ravel() * shift % 1 * 64).astype(int)
        assert_frequencies(np.bincount(cells, minlength=64), u.size / 64)


def test_each_of_the_53_bits_is_fair():
    words = (table("uniform").ravel() * 2**53).astype(np.uint64)
    ones = np.array([np.mean((words >> np.uint64(bit)) & np.uint64(1)) for bit in range(53)])
    assert np.max(np.abs(ones - 0.5) * 2 * np.sqrt(words.size)) < LARGEST_Z


@pytest.mark.parametrize("lag", [1, 2, 7])
@pytest.mark.parametrize("axis", ["keys", "steps", "lanes"])
@pytest.mark.parametrize("name", ["uniform", "sign", "normal"])
def test_no_serial_correlation(name, axis, lag):
    values = np.moveaxis(table(name), ["keys", "steps", "lanes"].index(axis), 0)
    for power in (1, 2) if name != "sign" else (1,):
        x = (values - values.mean()) ** power
        x = (x - x.mean()) / x.std()
        products = x[lag:] * x[:-lag]
        assert abs(products.mean()) * np.sqrt(products.size) < LARGEST_Z


def test_no_correlation_between_any_two_lanes_or_keys():
    u = table("normal")
    for values in (u.reshape(-1, u.shape[2]), u.reshape(u.shape[0], -1).T):
        z = (values.T @ values) / np.sqrt(len(values))
        off = z[np.triu_indices(len(z), 1)]
        assert np.max(np.abs(off)) < 5 and abs(np.std(off) - 1) < 0.1


def test_names_give_independent_streams():
    names = ["Minibatch", "LabelNoise", "Diffusion", "a", "b", "", "ab", "ba"]
    u = np.stack([counter_rng.normal(counter_rng.stream(0, 0, name), 4000) for name in names])
    v = np.stack([counter_rng.normal(counter_rng.stream(0, 1, name), 4000) for name in names])
    both = np.concatenate([u, v])
    z = (both @ both.T)[np.triu_indices(len(both), 1)] / np.sqrt(4000)
    assert np.max(np.abs(z)) < LARGEST_Z


def test_functions_of_one_key_are_independent():
    key = counter_rng.stream(0, 0, "x")
    columns = [
        counter_rng.uniform(key, 20_000) - 0.5,
        counter_rng.sign(key, 20_000),
        counter_rng.normal(key, 20_000),
        counter_rng.integers(key, 1000, 20_000) - 499.5,
    ]
    for a, b in itertools.combinations(columns, 2):
        assert abs(np.mean(a * b) / (a.std() * b.std())) * np.sqrt(20_000) < LARGEST_Z


def test_signs_are_fair():
    signs = table("sign")
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert abs(signs.mean()) * np.sqrt(signs.size) < LARGEST_Z


def test_normal_numbers_are_normal():
    z = table("normal").ravel()
    assert stats.kstest(z, "norm").pvalue > 1e-4
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs(np.mean(z**power) - mean) * np.sqrt(z.size / variance) < LARGEST_Z, power
    tail = np.sum(np.abs(z) > 3)
    expected = z.size * 2 * stats.norm.sf(3)
    assert abs(tail - expected) < LARGEST_Z * np.sqrt(expected)


def test_pairs_of_normals_have_no_preferred_direction():
    """The two numbers of one Box–Muller pair, also in their squares and their signs."""
    z = table("normal").reshape(-1, 2)
    eighths = np.floor((np.arctan2(z[:, 1], z[:, 0]) / (2 * np.pi) % 1) * 32).astype(int)
    assert_frequencies(np.bincount(eighths, minlength=32), len(z) / 32)
    radius = stats.rankdata(np.hypot(*z.T)) / len(z) - 0.5
    for wave in (np.cos, np.sin):
        turn = wave(4 * np.arctan2(z[:, 1], z[:, 0]))
        assert abs(np.mean(radius * turn)) * np.sqrt(len(z) * 24) < LARGEST_Z


@pytest.mark.parametrize("n", [2, 3, 7, 40, 100])
def test_integers_are_uniform(n):
    values = counter_rng.integers(counter_rng.stream(n, 0, "integers"), n, 100_000)
    assert values.min() >= 0 and values.max() < n
    assert_frequencies(np.bincount(values, minlength=n), 100_000 / n)


def test_multiply_high_is_exact():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**64, 1000, dtype=np.uint64)
    bits[:2] = 0, 2**64 - 1
    for n in (1, 2, 40, 10**6 + 3, 2**31, 2**32 - 1):
        exact = [int(b) * n >> 64 for b in bits]
        np.testing.assert_array_equal(counter_rng._below(bits, np.uint64(n)), exact)


@pytest.mark.parametrize(
    ("n", "b"), [(2, 1), (5, 2), (6, 3), (5, 4), (11, 9), (20, 19), (19, 17)], ids=lambda v: str(v)
)
def test_every_subset_is_as_likely_as_any_other(n, b):
    steps = np.arange(44_000)
    with gb.float64():
        draw = jax.jit(
            jax.vmap(lambda k: counter_rng.subset(counter_rng.stream(1, k, "law"), n, b))
        )
        drawn = np.sort(np.asarray(draw(steps)), axis=1)
    assert (np.diff(drawn, axis=1) > 0).all() and drawn.min() >= 0 and drawn.max() < n
    subsets = {subset: i for i, subset in enumerate(itertools.combinations(range(n), b))}
    counts = np.bincount([subsets[tuple(row)] for row in drawn], minlength=len(subsets))
    assert_frequencies(counts, len(steps) / len(subsets))


@pytest.mark.parametrize("n", [1, 2, 30])
def test_all_of_them(n):
    np.testing.assert_array_equal(counter_rng.subset(0, n, n), np.arange(n))


def test_keys_differ_in_every_digit():
    keys = [0, 1, 2, 2**32, 2**63, 2**64, 2**64 + 1, 2**128, 2**64 * (2**64 + 1)]
    assert len({int(counter_rng.seed(key)) for key in keys}) == len(keys)


# --- what it refuses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: counter_rng.seed(-1), "key must be a whole number of at least 0, got -1"),
        (lambda: counter_rng.uniform(1.5), "key must be an integer.*got float 1.5"),
        (lambda: counter_rng.uniform(True), "key must be an integer.*got bool True"),
        (lambda: counter_rng.uniform(np.arange(3)), "key must be an integer.*got ndarray"),
        (lambda: counter_rng.subset(0, 3, 4), "b must be at most n=3.*got 4"),
        (lambda: counter_rng.subset(0, 0, 0), "n must be a whole number of at least 1, got 0"),
        (lambda: counter_rng.integers(0, 2**32, 1), r"n must be below 2\*\*32, got 4294967296"),
        (
            lambda: counter_rng.integers(0, 3, 0),
            "count must be a whole number of at least 1, got 0",
        ),
        (lambda: counter_rng.normal(0, (2, -1)), "shape must be a whole number.*got -1"),
        (lambda: counter_rng.fold(0, -3), "salt must be a whole number of at least 0, got -3"),
    ],
)
def test_wrong_arguments(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_keys_of_jax_are_refused():
    with pytest.raises(ValueError, match="key must be an integer"):
        counter_rng.uniform(jax.random.key(0))
