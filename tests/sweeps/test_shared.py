"""What members have in common is made once, and no member falls out of its group by rounding."""

import pickle

import numpy as np
import pytest

import gradbias as gb
from gradbias._sweeps import pickling
from gradbias._sweeps.chunking import chunks_of
from gradbias._sweeps.grid import Grid
from gradbias._sweeps.members import Members
from gradbias.reductions._closure import closed, invariant_bases, polished

X = np.random.default_rng(1).normal(size=(6, 4))


def starts_of(build, seeds):
    """The starts of all members of a sweep over `seeds`."""
    with gb.float64():
        roster = Members(build, Grid.of({"seed": seeds}), None, stored=False)
        return [start for chunk in chunks_of(roster, None) for start in chunk.starts(roster)]


@pytest.mark.parametrize(
    ("make", "start"),
    [
        (lambda: gb.TwoLayer(4, 1, 9), lambda net, seed: gb.init.gaussian(net, 0.4, key=seed)),
        (lambda: gb.Diagonal(4), lambda net, seed: gb.init.gaussian(net, 0.4, key=seed)),
    ],
)
def test_members_that_build_makes_anew_share_what_is_equal(make, start):
    """Reduced, and not reduced; the data of one member are another's only if they are equal."""

    def build(seed):
        problem = gb.Regression.mean(X * (2.0 if seed == 3 else 1.0), X[:, 0])
        net, dynamics = make(), gb.Descent(0.01, gb.Minibatch(2))
        return gb.Setup(problem, net, start(net, seed), dynamics, gb.Until(steps=3), key=seed)

    first, second, third, other = starts_of(build, range(4))
    for start_ in (second, third):
        assert start_.system is first.system
        assert start_.dynamics is first.dynamics
        assert start_.record is first.record
        assert start_.stepper.key != first.stepper.key
    assert other.system is not first.system
    assert other.record is not first.record


def test_subspaces_are_polished_before_a_reduction_is_given_up():
    """Rounding that is as large as the certificate allows, three times over."""
    rng = np.random.default_rng(0)
    units = [np.linalg.qr(rng.normal(size=(30, 30)))[0] for _ in range(3)]
    units.append(rng.normal(size=(30, 1)) / 6)
    first = np.linalg.qr(rng.normal(size=(30, 12)))[0]
    found = invariant_bases(units, first)
    bent = [np.linalg.qr(b + 3e-15 * rng.normal(size=b.shape))[0] for b in found[1:-1]]
    bent = [first, *bent, None]
    assert closed(units, bent).residual > 2e-14
    assert closed(units, polished(units, bent)).residual <= 1e-14
    # Control: what is not invariant does not become so.
    wrong = [first, *(np.linalg.qr(rng.normal(size=b.shape))[0] for b in found[1:-1]), None]
    assert closed(units, polished(units, wrong)).residual > 1e-3


def test_what_a_function_refers_to_is_packed_anew_for_every_sweep():
    """A cell that is run again changes it; the function stays the same object."""
    space = {"__name__": "cell", "factor": 2.0}
    exec("def f():\n    return factor\n", space)
    packed = {}
    before = [pickling.pack(space["f"], packed) for _ in range(2)]
    assert before[0] == before[1]
    assert len(packed) == 1
    space["factor"] = 3.0
    assert [pickling.unpack(content)() for content in (before[0], pickling.pack(space["f"]))] == [
        2.0,
        3.0,
    ]
    assert pickle.loads(before[0])[1].keys() != pickle.loads(pickling.pack(space["f"]))[1].keys()
