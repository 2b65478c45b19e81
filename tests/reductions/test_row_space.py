"""The first layer minus its start stays in the row space of the data, whatever the noise."""

import numpy as np
import pytest

import gradbias as gb
from cases import NETS, PAIRS, STEPS, case, dynamics

FIRST = {"TwoLayer": "W1", "Deep": "W1", "Rank1": "v1"}
WITHOUT_DECAY = [pair for pair in PAIRS if pair[1] not in ("weight decay", "all together")]


def outside(problem, run, params):
    """The part of the first layer's motion outside the row space, relative to the motion."""
    name = FIRST[type(run.setup.net).__name__]
    motion = run.final[name] - params[name]
    basis = problem.row_space
    return np.linalg.norm(motion - basis @ (basis.T @ motion)), np.linalg.norm(motion)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize(("name", "motion"), [*WITHOUT_DECAY, *((name, "flow") for name in NETS)])
def test_frozen(name, motion, reduce):
    problem, net, params = case(name)
    until = gb.Until(time=8.0) if motion == "flow" else gb.Until(steps=STEPS)
    moves = gb.Flow() if motion == "flow" else dynamics(motion, problem.k)
    run = gb.simulate(gb.Setup(problem, net, params, moves, until), reduce=reduce)
    left, moved = outside(problem, run, params)
    assert moved > 0.01
    assert left <= 1e-12


def test_weight_decay_is_the_control():
    problem, net, params = case("two layers")
    setup = gb.Setup(problem, net, params, gb.Descent(0.03, weight_decay=0.05), gb.Until(steps=50))
    left, _ = outside(problem, gb.simulate(setup), params)
    assert left > 0.01
