"""Steps that are compiled as one kernel: the same numbers, and only where the compiler can."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias._engine import single_kernel
from gradbias._engine.single_kernel import TRIED, _suits, compiled_steps

NETS = {
    "deep": gb.Deep([6, 5, 4, 1]),
    "two layers": gb.TwoLayer(6, 1, width=30),
    "rank-1": gb.Rank1(6, 3, 4),
    "diagonal": gb.Diagonal(6),
}
MOVES = {
    "GD": gb.Descent(0.02),
    "momentum": gb.Descent(0.02, momentum=0.5, weight_decay=0.01),
    "schedule": gb.Descent(lambda k: 0.02 / (1 + k)),
    "minibatch": gb.Descent(0.02, gb.Minibatch(2)),
    "replaced": gb.Descent(0.02, gb.Minibatch(2, replace=True)),
    "labels": gb.Descent(0.02, gb.LabelNoise(0.1, 2)),
}


@pytest.fixture
def one_by_one(monkeypatch):
    """Turns it off."""
    return lambda: monkeypatch.setenv(single_kernel.SWITCH, "0")


def setup(net, moves):
    problem = gb.problems.gaussian(n=4, d=6, informative=2, key=0)
    start = gb.init.gaussian(net, 0.3, key=1)
    return gb.Setup(problem, net, start, moves, gb.Until(steps=200), key=2)


def equal_up_to_rounding(one, other):
    """In digits of the largest entry: those that pass through zero have no digits of their own."""
    one, other = np.asarray(one), np.asarray(other)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-14 * np.abs(other).max())


def test_this_jax_was_tried():
    """A newer one runs the slow road until somebody looks.

    To do that: add it to `TRIED`, run this file with `-m "slow or not slow"`, and keep it if all
    passes.
    """
    assert jax.__version_info__[:2] <= max(TRIED), f"jax {jax.__version__} is not in TRIED"


def test_the_switch_turns_it_off_at_once(monkeypatch, one_by_one):
    """The same process, the same setup, and the same numbers."""
    told = []
    tell = single_kernel.set_xla_metadata

    def noted(value, **options):
        told.append(options)
        return tell(value, **options)

    monkeypatch.setattr(single_kernel, "set_xla_metadata", noted)
    jax.clear_caches()
    whole = gb.simulate(setup(NETS["deep"], MOVES["labels"])).data["theta"]
    assert bool(told) == (jax.__version_info__[:2] in TRIED)
    told.clear()
    one_by_one()
    equal_up_to_rounding(whole, gb.simulate(setup(NETS["deep"], MOVES["labels"])).data["theta"])
    assert not told


@pytest.mark.one_in(3)
@pytest.mark.parametrize("moves", MOVES)
def test_one_kernel_gives_the_same_numbers(moves, one_by_one):
    setups = {name: setup(net, MOVES[moves]) for name, net in NETS.items()}
    whole = {name: gb.simulate(s) for name, s in setups.items()}
    one_by_one()
    for name, s in setups.items():
        equal_up_to_rounding(whole[name].data["theta"], gb.simulate(s).data["theta"])


@pytest.mark.parametrize("moves", ["GD", "labels"])
def test_members_alone_are_members_side_by_side(moves, one_by_one):
    """Above a kilobyte each member is a kernel of its own; without that, all share one loop."""
    net = gb.Diagonal(100)
    problem = gb.problems.gaussian(n=8, d=100, informative=2, key=0)

    def build(seed):
        start = gb.init.gaussian(net, 0.1, key=seed)
        until = gb.Until(steps=100 + 50 * seed)
        moved = MOVES[moves]
        return gb.Setup(problem, net, start, moved, until, save_at=range(0, 101, 20), key=seed)

    alone = gb.sweep(build, {"seed": range(3)})
    one_by_one()
    together = gb.sweep(build, {"seed": range(3)})
    for name in ("theta", "theta_end"):
        equal_up_to_rounding(alone[name], together[name])
    for name in ("status", "stopped_at"):
        np.testing.assert_array_equal(alone[name], together[name])


def traced(function, *args):
    """What the compiler would be given of function(steps, *args), all of them captured."""
    found = []

    def look(*args):
        found.append(jax.jit(lambda: function(*args)).trace().jaxpr)
        return 0

    jax.make_jaxpr(look)(3, *args)
    return found[0]


def loop(step):
    """As many steps as it is told; else jax would make a scan of it."""
    return lambda steps, x, *rest: jax.lax.fori_loop(0, steps, lambda _, x: step(x, *rest), x)


W, X = jnp.ones((5, 5)), jnp.ones(5)
SUITED = {
    "a matrix and a vector": (loop(lambda x, W: x - W @ x), X, W),
    "an outer product": (loop(lambda W, x: W - jnp.outer(x, x @ W)), W, X),
    "rows": (loop(lambda V, W, i: V - W[i]), W, W, jnp.arange(5)),
    "a number of a table": (loop(lambda x, t, i: x - t[i]), X, X, jnp.arange(5)[2]),
}
NOT = {
    "two matrices": (loop(lambda V, W: V - W @ V), W, W),
    "several matrices": (
        loop(lambda V, W: V - jnp.einsum("aij,aj->ai", W, V)),
        W,
        jnp.ones((5,) * 3),
    ),
    "an input without use": (loop(lambda x, W: (W[0], x)[1]), X, W),
    "rows of one": (loop(lambda V, W, i: V - W[i]), W, W[:1], jnp.arange(5)),
    "a row of one": (loop(lambda x, W, i: x - W[i]), X, W[:1], jnp.arange(5)[2]),
    "a loop in a loop": (loop(lambda x, n: loop(lambda x: x - 1.0)(n, x)), X, 3),
    "much data": (loop(lambda x, W: x - W @ x), jnp.ones(400), jnp.ones((400, 400))),
    "something else": (loop(lambda x, W: jnp.sort(x) - W @ x), X, W),
}


@pytest.mark.parametrize("case", SUITED)
def test_products_of_vectors_suit_it(case):
    assert _suits(traced(*SUITED[case]))


@pytest.mark.parametrize("case", NOT)
def test_what_the_compiler_cannot_do_is_left_to_many_kernels(case):
    assert not _suits(traced(*NOT[case]))


def test_the_compiler_is_told():
    def advance(x, W, count):
        def steps():
            return jax.lax.fori_loop(0, count, lambda _, x: x - W @ x, x)

        return compiled_steps(steps, allowed=True).call()

    lowered = jax.jit(advance).lower(jnp.ones(50), jnp.ones((50, 50)), 3)
    assert 'xla_cpu_small_call = "true"' in lowered.as_text()
    np.testing.assert_allclose(lowered.compile()(jnp.ones(50), jnp.eye(50) / 2, 3), 1 / 8)


ODD = """
import numpy as np, gradbias as gb
rng = np.random.default_rng(0)
for n, batch, d in [(1, 1, 1), (1, 1, 3), (2, 1, 1), (3, 3, 2), (9, 9, 3), (40, 33, 2)]:
    problem = gb.Regression.mean(rng.normal(size=(n, d)), rng.normal(size=n))
    for net in [gb.Deep([d, 1]), gb.Deep([d, 2, 1]), gb.Rank1(d, 2, 1), gb.Diagonal(d)]:
        for noise in [gb.Minibatch(batch), gb.Minibatch(batch, replace=True),
                      gb.LabelNoise(.1, batch), gb.LabelNoise(.1, batch, law="gaussian")]:
            start = gb.init.gaussian(net, .1, key=1)
            gb.simulate(gb.Setup(problem, net, start, gb.Descent(.01, noise), gb.Until(steps=3)))
print("all of them")
"""


@pytest.mark.slow
def test_odd_sizes_do_not_crash_the_compiler():
    """In a process of its own: a crash would take the tests with it."""
    done = subprocess.run([sys.executable, "-c", ODD], capture_output=True, text=True, check=False)
    assert "all of them" in done.stdout, done.stderr[-2000:]
