"""Nothing that a run depends on can change under it: attempts are refused, with a way out."""

import copy
import dataclasses
import pickle

import cloudpickle
import jax
import numpy as np
import pytest

import gradbias as gb
from cases import case
from gradbias.numerics.constants import is_constant

PROBLEM, NET, PARAMS = case("two layers")


def made(**changes):
    given = {"problem": PROBLEM, "net": NET, "params": PARAMS, "dynamics": gb.Descent(0.1)}
    given |= {"until": gb.Until(steps=10), "save_at": [0, 10]}
    return gb.Setup(**{**given, **changes})


class OwnNet(gb.nets.LinearNet):
    scale: np.ndarray
    parts: list

    def predictor(self, params):
        return self.scale * params["a"] + self.parts[0]


POPULATION = gb.Population(np.eye(2), np.ones((1, 2)), np.eye(1))
VALUES = {
    "regression": (PROBLEM, "X"),
    "population": (POPULATION, "V"),
    "samples": (gb.Samples(lambda o, y: (o - y) ** 2, np.eye(2), np.ones(2)), "Y"),
    "net": (NET, "width"),
    "own net": (OwnNet(np.ones(2), [np.ones(2)]), "scale"),
    "descent": (gb.Descent(0.1, gb.Minibatch(2)), "lr"),
    "flow": (gb.Flow(), "rtol"),
    "diffusion": (gb.Diffusion(0.1, gb.Minibatch(2), 0.01), "dt"),
    "limit": (gb.Limit(gb.LabelNoise(0.1)), "rtol"),
    "noise": (gb.LabelNoise(0.1), "std"),
    "replay": (gb.Replay(indices=[[0, 1]]), "indices"),
    "observable": (gb.observe.singular_values("W1"), "layer"),
    "until": (gb.Until(steps=3), "steps"),
    "schedule": (gb.dynamics.piecewise({0: 0.1}), "rates"),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("field", ["its own", "a new one"])
def test_no_field_can_be_assigned(name, field):
    value, own = VALUES[name]
    with pytest.raises(dataclasses.FrozenInstanceError) as error:
        setattr(value, own if field == "its own" else "something", 3)
    if name != "schedule":
        assert "replace(" in str(error.value)
    with pytest.raises(AttributeError):
        delattr(value, own)


@pytest.mark.parametrize(
    "field", ["problem", "net", "params", "dynamics", "until", "record", "save_at", "key", "note"]
)
def test_no_part_of_a_setup_can_be_assigned(field):
    setup = made()
    with pytest.raises(dataclasses.FrozenInstanceError, match=rf"setup\.replace\({field}=…\)"):
        setattr(setup, field, getattr(setup, field, None))
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(setup, field)


def arrays_of(setup):
    return [
        *jax.tree.leaves((setup.problem, setup.dynamics, setup.params)),
        setup.save_at,
        setup.save_clock,
    ]


def travelled(setup):
    return {
        "made": setup,
        "copied": copy.copy(setup),
        "copied deeply": copy.deepcopy(setup),
        "pickled": pickle.loads(pickle.dumps(setup)),
        "sent": cloudpickle.loads(cloudpickle.dumps(setup)),
        "replaced": setup.replace(key=3),
    }


DYNAMICS = [gb.Descent(0.1), gb.Flow(), gb.Diffusion(0.1, gb.Minibatch(2), 0.1)]


@pytest.mark.parametrize("dynamics", DYNAMICS)
def test_all_arrays_are_read_only_also_of_copies(dynamics):
    until = gb.Until(time=10.0) if dynamics.axis == "time" else gb.Until(steps=10)
    for way, setup in travelled(made(dynamics=dynamics, until=until)).items():
        for array in arrays_of(setup):
            assert not array.flags.writeable, way
        assert setup.params is setup.params
        with pytest.raises(ValueError, match="read-only"):
            setup.params["W1"][...] = 0


def test_what_is_computed_from_data_cannot_change_either():
    for problem in (gb.Regression.mean(np.eye(3), np.ones(3)), POPULATION):
        for array in (*problem.svd, problem.row_space, problem.weight):
            assert not array.flags.writeable


def test_the_users_own_arrays_stay_theirs():
    X, Y, start, times = np.eye(2), np.ones(2), {"a": np.zeros(2)}, np.array([0, 5])
    scale, part = np.ones(2), np.ones(2)
    record, parts = {"loss": gb.observe.loss}, [part]
    net = OwnNet(scale, parts)
    setup = gb.Setup(
        gb.Regression.half_sum(X, Y), net, start, gb.Descent(0.1), gb.Until(steps=5),
        record=record, save_at=times,
    )  # fmt: skip
    before = gb.simulate(setup, progress=False)
    for array in (X, Y, start["a"], times, scale, part):
        array[...] = 7  # still writable, and nobody looks at it any more
    start["b"], record["theta"] = 1.0, gb.observe.theta
    parts.append(part)
    after = gb.simulate(setup, progress=False)
    assert after.data.equals(before.data)
    assert list(setup.replace(key=1).record) == ["loss"]
    assert setup.replace(key=1).save_at.tolist() == [0, 5]


def test_a_view_of_an_array_that_can_change_is_copied():
    base = np.arange(6.0)
    view = base.reshape(2, 3)
    view.setflags(write=False)
    assert not is_constant(view)
    problem = gb.Regression.mean(view, np.ones(2))
    base[...] = 0
    assert problem.X[1, 2] == 5
    again = gb.Regression.mean(problem.X, np.ones(2))
    assert again.X is problem.X  # what is constant is not copied


def test_dicts_of_a_setup_cannot_change():
    setup = made()
    with pytest.raises(dataclasses.FrozenInstanceError, match="replace"):
        setup.record["x"] = gb.observe.loss
    with pytest.raises(dataclasses.FrozenInstanceError, match="replace"):
        setup.given.update(until=None)


@pytest.mark.parametrize("use", [gb.simulate, gb.predict, lambda s: s.replace(key=1)])
def test_an_exchanged_parameter_is_noticed(use):
    setup = made()
    setup.params["W1"] = 2 * setup.params["W1"]
    with pytest.raises(AttributeError, match=r"setup\.replace\(params=…\)"):
        use(setup)
    other = made()
    other.params["W3"] = np.ones(2)
    with pytest.raises(AttributeError, match=r"setup\.replace\(params=…\)"):
        use(other)


def test_an_exchanged_parameter_in_a_nested_tree_is_noticed():
    net = gb.nets.linear(lambda p: p["in"]["a"] * p["out"][0])
    params = {"in": {"a": np.ones(2)}, "out": [np.ones(2)]}
    setup = gb.Setup(gb.Regression.mean(np.eye(2), np.ones(2)), net, params, gb.Descent(0.1))
    assert not setup.params["in"]["a"].flags.writeable
    assert setup.params["out"][0] is not params["out"][0]
    setup.params["out"][0] = np.zeros(2)
    with pytest.raises(AttributeError, match=r"setup\.replace\(params=…\)"):
        gb.simulate(setup)
