"""Records: names, functions, and observables as values."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias.observe import Observable, as_observable, named


def my_norm(problem, net, params):
    return jnp.sum(params["W1"] ** 2)


def problem_and_net():
    rng = np.random.default_rng(0)
    problem = gb.Regression.mean(rng.standard_normal((3, 4)), rng.standard_normal((3, 2)))
    return problem, gb.TwoLayer(4, 2, 5)


ALL = [
    gb.observe.theta,
    gb.observe.params,
    gb.observe.loss,
    gb.observe.singular_values("W1"),
    gb.observe.effective_rank("W1"),
    gb.observe.distance_to(np.ones((4, 2))),
    gb.observe.imbalance,
    gb.observe.imbalance_of(1),
    gb.observe.imbalance_of(matrix=True),
    gb.observe.imbalance_of(row_space=True),
    gb.observe.gap,
    gb.observe.pair_imbalance,
    gb.observe.sharpness,
    gb.observe.hessian_trace,
    gb.observe.interpolator_dimension,
]


@pytest.mark.smoke
def test_a_list_is_named_after_its_observables():
    record = named([*ALL, my_norm])
    assert list(record)[:3] == ["theta", "params", "loss"]
    assert len(record) == len(ALL) + 1
    assert all(isinstance(f, Observable) for f in record.values())


def test_dict_single_and_empty_records():
    assert named({"mine": gb.observe.loss}) == {"mine": gb.observe.loss}
    assert named(gb.observe.loss) == {"loss": gb.observe.loss}
    assert named(my_norm) == {"my_norm": as_observable("my_norm", my_norm)}
    assert named([]) == {} and named({}) == {}


@pytest.mark.parametrize(
    "record",
    [
        None,
        3,
        "loss",
        {"": gb.observe.loss},
        {"a/b": gb.observe.loss},
        {"time": gb.observe.loss},
        {3: gb.observe.loss},
        {"x": 3},
        {"x": "loss"},
        {"x": gb.observe.singular_values},
        {"x": gb.observe.distance_to},
        {"x": lambda params: params},
        {"x": type(gb.observe.loss)},
        [gb.observe.loss, gb.observe.loss],
        [lambda problem, net, params: 0.0],
        [None],
        {gb.observe.loss},
    ],
)
def test_bad_records_are_refused_by_name(record):
    with pytest.raises(ValueError, match="record"):
        named(record)


def test_a_factory_that_was_not_called_is_told_so():
    with pytest.raises(ValueError, match="is it to be called"):
        named({"x": gb.observe.effective_rank})


def test_observables_are_values():
    assert len(set(ALL)) == len(ALL)
    assert gb.observe.singular_values("W1") == gb.observe.singular_values("W1")
    assert gb.observe.singular_values("W1") != gb.observe.effective_rank("W1")
    one, same = gb.observe.distance_to([[1.0, 2.0]]), gb.observe.distance_to([[1.0, 2.0]])
    other, vector = gb.observe.distance_to([[1.0, 3.0]]), gb.observe.distance_to([1.0, 2.0])
    assert one == same and hash(one) == hash(same)
    assert one != other and one != vector and one != 3
    assert as_observable("a", my_norm) == as_observable("a", my_norm)
    assert as_observable("a", my_norm) != as_observable("b", my_norm)


def test_functions_become_arrays(measure, draw):
    problem, net = problem_and_net()
    params = draw(net)
    value = measure(as_observable("n", my_norm), problem, net, params)
    np.testing.assert_allclose(value, np.sum(params["W1"] ** 2), rtol=1e-14)

    def both(problem, net, params):
        return {"one": 1.0, "W": params["W2"]}

    value = measure(as_observable("both", both), problem, net, params)
    assert value["one"] == 1.0 and value["W"].shape == (5, 2)


def test_numpy_functions_keep_their_digits_outside_compiled_code(draw):
    problem, net = problem_and_net()
    params = draw(net)
    third = as_observable("third", lambda problem, net, params: np.sum(params["W1"]) / 3)
    value = third(problem, net, params)
    assert value.dtype == np.float64 and value == np.sum(params["W1"]) / 3


@pytest.mark.parametrize("value", ["text", None, {1: 2.0}, 1j])
def test_a_function_that_returns_no_array_is_named(value, measure, draw):
    problem, net = problem_and_net()
    bad = as_observable("bad", lambda problem, net, params: value)
    with pytest.raises(ValueError, match="'bad' must return an array"):
        measure(bad, problem, net, draw(net))


def test_a_callable_with_arrays_is_pointed_to_the_base_class():
    class Holder(eqx.Module):
        weights: np.ndarray

        def __call__(self, problem, net, params):
            return self.weights

    with pytest.raises(ValueError, match=r"subclass gb\.observe\.Observable"):
        as_observable("x", Holder(np.ones(2)))


def test_one_compilation_for_other_data_and_targets_of_the_same_shape(draw):
    problem, net = problem_and_net()
    traces = []

    @eqx.filter_jit
    def run(bound, problem, net, params):
        traces.append(1)
        return bound(problem, net, params)

    for make in (gb.observe.distance_to, lambda _: gb.observe.imbalance_of(row_space=True)):
        traces.clear()
        for seed in (1, 2):
            rng = np.random.default_rng(seed)
            data = gb.Regression(rng.standard_normal((3, 4)), problem.Y, 1.0 + seed)
            with jax.enable_x64(True):
                bound = make(rng.standard_normal((4, 2))).bind(data, net)
                arrays = jax.tree.map(jnp.asarray, (bound, data, net, draw(net)))
                run(*arrays)
        assert len(traces) == 1


@pytest.mark.parametrize("observable", [o for o in ALL if o.name not in ("gap", "pair_imbalance")])
def test_dims_have_the_result_s_number_of_axes(observable, measure, draw):
    problem, net = problem_and_net()
    value = measure(observable, problem, net, draw(net))
    dims = observable.dims(problem, net)
    if isinstance(value, dict):
        assert dims is None
    else:
        assert len(dims) == value.ndim == len(set(dims))
        assert value.dtype == np.float64


@pytest.mark.parametrize("observable", [o for o in ALL if o.name not in ("gap", "pair_imbalance")])
def test_a_diverged_state_is_not_a_crash(observable, measure, draw):
    problem, net = problem_and_net()
    params = {name: np.full(a.shape, np.nan) for name, a in draw(net).items()}
    measure(observable, problem, net, params)


def test_states_in_a_row_are_states_alone(measure, draw):
    # as the engine calls them: one program, lax.map over saved states, a diverged one among them
    problem, net = problem_and_net()
    states = [draw(net, seed) for seed in range(2)]
    states.append({name: np.full(a.shape, np.nan) for name, a in states[0].items()})
    chosen = [o for o in ALL if o.name not in ("gap", "pair_imbalance")]
    with jax.enable_x64(True):
        bound = [o.bind(problem, net) for o in chosen]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        run = eqx.filter_jit(lambda fs, p, n, s: jax.lax.map(lambda q: [f(p, n, q) for f in fs], s))
        rows = jax.tree.map(np.asarray, run(bound, problem, net, stacked))
    for observable, together in zip(chosen, rows, strict=True):
        for i, state in enumerate(states[:2]):
            alone = measure(observable, problem, net, state)
            jax.tree.map(
                lambda a, b, i=i: np.testing.assert_allclose(b[i], a, rtol=1e-10, atol=1e-12),
                alone,
                together,
            )
