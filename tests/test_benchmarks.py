"""The benchmarks' bookkeeping, and that both of their arms take the same path. Nothing is timed."""

import importlib.util
import json
import pathlib
import sys

import numpy as np
import pytest

import gradbias as gb

sys.path.append(str(pathlib.Path(__file__).parent.parent))  # benchmarks are not installed

from benchmarks.__main__ import row, write
from benchmarks.protocol import Check, Part, Workload, check, compare


class Slow:
    """A loop that takes a known number of steps and does nothing."""

    def __init__(self):
        self.taken = []

    def run(self, steps, tuned=False):
        self.taken.append((steps, tuned))

    def path(self, steps):
        return np.zeros((steps + 1, 1))


def test_a_workload_keeps_what_it_measured():
    loop, jobs = Slow(), []

    def clock(work):
        work()
        return 2.0, 4.0

    work = Workload("W0", 10, lambda: jobs.append(1), lambda: [Part("GD", lambda: loop, 1000)],
                    lambda: 1e-12, rounds=3, clock=clock)  # fmt: skip
    result = compare(work)
    raw = result["raw_seconds_cpu_wall"]
    assert len(jobs) == 4  # once to warm up, then in turns with the loop
    assert loop.taken == [(20, False), *[(200, False), (200, True)] * 3]
    assert [len(raw["torch"]["GD"]), len(raw["torch_tuned"]["GD"])] == [3, 3]
    per_step = np.median([cpu for cpu, _ in raw["torch"]["GD"]]) / 200
    assert result["ratio"] == pytest.approx(per_step * 1000 / 2.0)
    assert (result["target"], result["max_difference"]) == (10, 1e-12)


def test_a_check_is_met_where_its_ratio_is_one():
    result = check(Check("start", lambda: (0.5, {"raw": [0.5]}), 2.0, "s"))
    assert (result["ratio"], result["target"], result["max_difference"]) == (4.0, 1.0, 0.0)
    assert "0.5 s, at most 2" in row("start", result)


def test_results_of_some_workloads_are_added_to_those_of_others(tmp_path):
    path = tmp_path / "new" / "bench.json"
    write(path, {"W1": {"ratio": 1.0}})
    write(path, {"W2": {"ratio": 2.0}}, only="W2")
    assert [entry["ratio"] for entry in json.loads(path.read_text()).values()] == [1.0, 2.0]
    write(path, {"W3": {"ratio": 3.0}})
    assert list(json.loads(path.read_text())) == ["W3"]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_both_arms_take_the_same_path():
    from benchmarks import torch_loops as loops
    from benchmarks.agreement import largest_difference

    problem = gb.problems.gaussian(n=4, d=6, informative=2, key=0)
    cases = [
        (gb.Rank1(6, 3, 5), None, loops.full_batch),
        (gb.Deep([6, 4, 1]), gb.Minibatch(2), loops.minibatch),
        (gb.Diagonal(6), gb.LabelNoise(0.1, 1), loops.minibatch),
    ]
    for net, noise, loop in cases:
        start, dynamics = gb.init.gaussian(net, 0.3), gb.Descent(0.01, noise)
        setup = gb.Setup(problem, net, start, dynamics, key=3)
        assert largest_difference([setup], loop, steps=5) < 1e-13
        other = setup.replace(dynamics=gb.Descent(0.0101, noise))
        assert largest_difference([other], lambda _, s=setup, f=loop: f(s), steps=5) > 1e-8
    net = gb.TwoLayer(5, 5, 7)
    setup = gb.Setup(gb.problems.autoencoding(5, phi=0.6), net, gb.init.gaussian(net, 0.3),
                     gb.Descent(0.01, gb.Minibatch(3)), key=3)  # fmt: skip
    assert largest_difference([setup], lambda s: loops.fresh(s, False), steps=5) < 1e-13
