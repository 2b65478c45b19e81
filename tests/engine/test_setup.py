"""Bad input is refused before anything is compiled, with a sentence that names the argument."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from cases import case
from gradbias._engine.setup import log_spaced_steps
from gradbias.numerics.compilations import count_compilations

PROBLEM, NET, PARAMS = case("two layers")


def made(**changes):
    given = {"problem": PROBLEM, "net": NET, "params": PARAMS, "dynamics": gb.Descent(0.1)}
    return gb.Setup(**{**given, **changes})


BAD = {
    "problem": [("X", "problem"), (None, "problem")],
    "net": [
        (gb.TwoLayer, "net"),
        (gb.nets.linear(lambda p: p["W1"]), "shape"),
        (gb.TwoLayer(9, 3, 30), "W2"),
    ],
    "dynamics": [(0.1, "dynamics"), (gb.Descent, "dynamics")],
    "params": [
        ({"W1": PARAMS["W1"]}, "missing"),
        ({**PARAMS, "W3": 1.0}, "W3"),
        ({**PARAMS, "W1": PARAMS["W1"].T}, "W1"),
        ({**PARAMS, "W2": np.full((30, 2), np.nan)}, "W2"),
        ({**PARAMS, "W2": "hello"}, "W2"),
        ([1, 2], "params"),
    ],
    "until": [(100, "until"), ("gap", "until")],
    "save_at": [
        ([5, 3], "save_at"),
        ([-1, 3], "save_at"),
        ([0.5], "whole"),
        ([], "save_at"),
        ([10**7], "beyond"),
        ([[1, 2]], "save_at"),
    ],
    "record": [(3, "record"), ({"a": 3}, "record"), ([gb.observe.gap], "Rank1")],
    "key": [(-1, "key"), (0.5, "key"), ("a", "key"), (True, "key")],
}
CASES = [(name, value, word) for name, pairs in BAD.items() for value, word in pairs]


@pytest.mark.parametrize(("name", "value", "word"), CASES)
def test_bad_argument(name, value, word):
    with count_compilations() as compiled, pytest.raises(ValueError, match=word):
        gb.simulate(made(**{name: value}))
    assert compiled.count == 0


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: gb.Until(), "steps"),
        (lambda: gb.Until(steps=0), "until.steps"),
        (lambda: gb.Until(steps=1.5), "until.steps"),
        (lambda: gb.Until(gap=-1.0), "until.gap"),
        (lambda: gb.Until(time=np.nan), "until.time"),
        (lambda: gb.Until(steps=1, check_every=0), "check_every"),
        (lambda: gb.Descent(0.0), "lr"),
        (lambda: gb.Descent(-0.1), "lr"),
        (lambda: gb.Descent(np.inf), "lr"),
        (lambda: gb.Descent("fast"), "lr"),
        (lambda: gb.Descent([0.1]), "lr"),
        (lambda: gb.Descent(0.1, momentum=1.0), "momentum"),
        (lambda: gb.Descent(0.1, weight_decay=-1), "weight_decay"),
        (lambda: gb.Descent(0.1, noise=4), "noise"),
        (lambda: gb.Flow(rtol=0), "rtol"),
        (lambda: gb.Flow(atol=-1), "atol"),
        (lambda: gb.Flow(weight_decay=-1), "weight_decay"),
        (lambda: gb.dynamics.piecewise({5: 0.1}), "start at 0"),
        (lambda: gb.dynamics.piecewise({0: -0.1}), "rates"),
        (lambda: gb.Replay(), "Replay"),
        (lambda: gb.Replay(np.zeros((3, 2))), "indices"),
        (lambda: gb.Replay(np.zeros((3, 0), int)), "indices"),
        (lambda: gb.Replay(np.zeros((3, 2), int), np.zeros((4, 2, 1))), "steps"),
        (lambda: gb.Replay(np.zeros((3, 2), int), samples=(1, 2)), "both"),
        (lambda: gb.Replay(label_noise=[[np.inf]]), "label_noise"),
        (lambda: gb.Replay(samples=np.zeros(3)), "samples"),
        (lambda: made(until=gb.Until(time=1.0)).replace(until=gb.Until(gap=1.0), step=3), "step"),
        (lambda: made(dynamics=gb.Flow(), until=gb.Until(steps=3)), "time"),
        (lambda: made(dynamics=gb.Descent(lambda k: -1.0)), "lr"),
        (lambda: gb.simulate(3), "setup"),
        (lambda: gb.Deep([4]), "dims"),
        (lambda: gb.Deep("45"), "dims"),
        (lambda: gb.Deep([4, 0, 1]), r"dims\[1\]"),
        (lambda: gb.TwoLayer(3, 1, -1), "width"),
        (lambda: gb.Rank1(3, 0, 4), "depth"),
        (lambda: gb.MLP([3, 2, 1], "sine"), "activation"),
        (lambda: gb.MLP([3, 2, 1], bias="yes"), "bias"),
        (lambda: gb.Diagonal(2.5), "d must"),
        (lambda: gb.nets.linear(3), "function"),
    ],
)
def test_bad_call(make, word):
    with pytest.raises(ValueError, match=word):
        make()


def replayed(noise, steps=10):
    return made(dynamics=gb.Descent(0.1, noise), until=gb.Until(steps=steps))


@pytest.mark.parametrize(
    ("noise", "word"),
    [
        (gb.Replay(np.zeros((9, 2), int)), "shorter"),
        (gb.Replay(np.full((10, 2), 6)), "rows 0 … 5"),
        (gb.Replay(np.full((10, 2), -1)), "rows 0 … 5"),
        (gb.Replay(label_noise=np.zeros((10, 5, 2))), "label_noise"),
        (gb.Replay(np.zeros((10, 2), int), np.zeros((10, 6, 2))), "label_noise"),
        (gb.Replay(samples=(np.zeros((10, 2, 8)), np.zeros((10, 2, 2)))), "columns"),
        (gb.Replay(samples=(np.zeros((10, 2, 9)), np.zeros((10, 2, 3)))), "samples: y"),
    ],
)
def test_replay_that_does_not_fit(noise, word):
    with pytest.raises(ValueError, match=word):
        replayed(noise)


def test_replay_needs_a_limit_of_steps():
    with pytest.raises(ValueError, match="no limit"):
        made(dynamics=gb.Descent(0.1, gb.Replay(np.zeros((9, 2), int))), until=gb.Until(gap=1e-3))


def test_population_refuses_what_it_cannot_know():
    problem = gb.Population(np.eye(9), np.ones((2, 9)), np.eye(2))
    with pytest.raises(ValueError, match="samples"):
        made(problem=problem, dynamics=gb.Descent(0.1, gb.Replay(np.zeros((9, 2), int))),
             until=gb.Until(steps=9))  # fmt: skip
    net = gb.MLP([9, 2], "tanh")
    laws = (gb.Descent(0.1, gb.Isotropic(0.1)), gb.Diffusion(0.1, gb.Minibatch(2), 0.01))
    for moves in (gb.Descent(0.1), gb.Flow(), *laws):
        with pytest.raises(ValueError, match="linear nets only"):
            made(problem=problem, net=net, params=gb.init.gaussian(net, 1.0), dynamics=moves)


def test_single_precision_is_said():
    with pytest.warns(UserWarning, match=r"params\['W1'\] is float32"):
        made(params={**PARAMS, "W1": PARAMS["W1"].astype(np.float32)})


@jax.numpy_dtype_promotion("standard")  # as people have it
def test_single_precision_constants_of_own_functions_are_said():
    """Made at import, outside the library's context, as people do."""
    mask = jnp.ones(9, jnp.float32)
    problem, _, _ = case("rank one")
    net = gb.nets.linear(lambda p: p["w"] * mask)
    with pytest.warns(UserWarning, match="single precision"):
        made(problem=problem, net=net, params={"w": np.ones(9)})
    losses = gb.Samples(lambda f, y: (f - y) ** 2 * mask[0], problem.X, problem.Y)
    with pytest.warns(UserWarning, match="loss of Samples"):
        made(problem=losses, net=gb.Deep([9, 1]), params={"W1": np.ones((9, 1))})
    setup = made(record={"masked": lambda problem, net, params: mask.sum() * params["W1"].sum()})
    with pytest.warns(UserWarning, match="masked"):
        gb.simulate(setup.replace(until=gb.Until(steps=3)))


def test_the_jax_level_needs_double_precision():
    with pytest.raises(ValueError, match="gradbias.float64"):
        gb.dynamics.gradient(PROBLEM, NET, PARAMS)
    with gb.float64():
        grads = gb.dynamics.gradient(PROBLEM, NET, PARAMS)
    assert grads["W1"].dtype == np.float64


def test_tracers_are_refused():
    with pytest.raises(ValueError, match="traced"):
        jax.grad(lambda lr: gb.Descent(lr).lr)(0.1)


@hypothesis.given(
    st.sampled_from(["X", "Y"]),
    st.sampled_from([np.nan, np.inf, -np.inf]),
    st.integers(0, 5),
)
def test_what_is_not_finite_is_named(where, value, row):
    arrays = {"X": PROBLEM.X.copy(), "Y": PROBLEM.Y.copy()}
    arrays[where][row, 0] = value
    with pytest.raises(ValueError, match=f"{where} must be finite, got"):
        gb.Regression.mean(arrays["X"], arrays["Y"])


@hypothesis.given(st.sampled_from(["W1", "W2"]), st.lists(st.integers(1, 31), max_size=3))
def test_any_wrong_shape_is_named(name, shape):
    hypothesis.assume(tuple(shape) != PARAMS[name].shape)
    with pytest.raises(ValueError, match=f"params\\['{name}'\\] must have shape"):
        made(params={**PARAMS, name: np.zeros(shape)})


@hypothesis.given(
    st.one_of(
        st.floats(max_value=0), st.just(np.nan), st.just(np.inf), st.none(), st.text(max_size=3),
        st.booleans(), st.lists(st.floats(), max_size=2), st.complex_numbers(),
    )
)  # fmt: skip
def test_any_wrong_learning_rate_is_named(lr):
    with pytest.raises(ValueError, match="lr must be"):
        gb.Descent(lr)


@hypothesis.given(st.integers(1, 10**7))
def test_log_spaced_steps(last):
    steps = log_spaced_steps(last)
    assert steps[0] == 0
    assert steps[-1] == last
    assert len(steps) == min(200, last + 1)
    assert np.all(np.diff(steps) > 0)


def test_replace_keeps_what_was_given():
    first = made(until=gb.Until(steps=30), save_at=[0, 30])
    second = first.replace(dynamics=gb.Descent(0.2), until=gb.Until(steps=40))
    np.testing.assert_array_equal(second.save_at, [0, 30])
    assert first.until.steps == 30
    assert float(second.dynamics.lr) == 0.2
    flow = made().replace(dynamics=gb.Flow())
    assert flow.until.time == 1e4


def test_numpy_in_an_own_net_is_answered_with_jax_numpy():
    problem = gb.problems.gaussian(n=3, d=4, key=0)
    start = {"a": np.ones(4), "b": np.ones(4)}
    nets = [
        gb.nets.linear(lambda p: np.tanh(p["a"])),
        gb.nets.general(lambda p, X: np.dot(X, p["a"])),
        gb.nets.linear(lambda p: p["a"] * float(p["b"][0])),
        gb.nets.linear(lambda p: p["a"] if p["b"][0] > 0 else p["b"]),
    ]
    for net in nets:
        with pytest.raises(ValueError, match=r"use jax.numpy \(import jax.numpy as jnp\)"):
            gb.Setup(problem, net, start, gb.Descent(0.1))
    missing = gb.nets.linear(lambda p: p["c"])
    with pytest.raises(ValueError, match=r"asks for 'c', which params does not have: .*'a', 'b'"):
        gb.Setup(problem, missing, start, gb.Descent(0.1))
