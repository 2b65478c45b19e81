"""Room for compiled programs."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import gradbias as gb
from gradbias.numerics import compilations
from gradbias.numerics.compilations import count_compilations, memory_maps

pytestmark = pytest.mark.skipif(memory_maps() == 0, reason="the system does not tell")


def simulate(width):
    """A program of its own for every width."""
    net = gb.Deep([2, width, width, 1])
    problem = gb.Regression.half_sum(np.eye(2), np.ones((2, 1)))
    start = gb.init.gaussian(net, 0.5, key=width)
    setup = gb.Setup(problem, net, start, gb.Descent(0.01), gb.Until(steps=3))
    return gb.simulate(setup, reduce=False, progress=False)


def test_many_different_setups_hold_no_more_maps_than_they_may(monkeypatch):
    simulate(20)
    jax.clear_caches()
    first = memory_maps()
    allowed = 2 * (first + 150)
    monkeypatch.setattr(compilations, "_most_memory_maps", lambda: allowed)
    monkeypatch.setattr(compilations, "LOOK_EVERY", 5)
    held = []
    for width in range(21, 33):
        simulate(width)
        held.append(memory_maps())
    # A setup takes 170; all twelve would be 2000.
    assert max(held) < first + 1000


def test_programs_stay_where_there_is_room(monkeypatch):
    monkeypatch.setattr(compilations, "LOOK_EVERY", 1)
    simulate(20)
    with count_compilations() as counter:
        simulate(20)
    assert counter.count == 0


LISTENERS = """
from jax._src import monitoring
import gradbias as gb, gradbias._engine.simulate
from gradbias.numerics.compilations import count_compilations
print(*map(type, monitoring.get_event_duration_listeners()))
for _ in range(3):
    with count_compilations():
        print(len(monitoring.get_event_duration_listeners()))
"""


def test_jax_has_one_listener_of_ours_and_none_before_it_is_needed():
    done = subprocess.run(
        [sys.executable, "-c", LISTENERS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n") == ["", "1", "1", "1", ""]


def test_compilations_are_counted():
    """The name of the event is jax's own: a new release may call it something else."""
    jax.clear_caches()
    with count_compilations() as counter:
        jax.jit(lambda x: x + 1)(np.ones(3))
    assert counter.count >= 1
