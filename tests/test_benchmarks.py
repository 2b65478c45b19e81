"""The benchmarks' bookkeeping, and that both of their arms take the same path. Nothing is timed."""

import functools
import importlib.util
import json
import pathlib
import sys

import numpy as np
import pytest

import gradbias as gb

sys.path.append(str(pathlib.Path(__file__).parent.parent))  # benchmarks are not installed

from benchmarks.__main__ import row, write
from benchmarks.protocol import Arm, Check, Part, Workload, check, compare


class Counted:
    """A loop that takes a known number of steps and does nothing."""

    def __init__(self):
        self.taken = []

    def run(self, steps):
        self.taken.append(steps)

    def path(self, steps):
        return np.zeros((1, steps + 1, 1))


def by_the_hand_of(seconds):
    """A clock that says what it is told."""

    def clock(work):
        work()
        return seconds, 2 * seconds

    return clock


def test_a_workload_is_compared_with_the_fastest_of_each_part():
    loops, jobs = {name: Counted() for name in "abc"}, []
    one = {
        "a": Arm(lambda: loops["a"], 1000, 10, by_the_hand_of(0.1)),  # 10 s
        "b": Arm(lambda: loops["b"], 100, 50, by_the_hand_of(2.0)),  # 4 s
    }
    two = {"a": Arm(lambda: loops["c"], 300, 100, by_the_hand_of(1.0))}  # 3 s
    parts = lambda: [Part("one", one), Part("two", two)]  # noqa: E731
    work = Workload("W0", 5, lambda: jobs.append(1), parts, lambda: 1e-12, 3, by_the_hand_of(2.0))
    result = compare(work)
    assert len(jobs) == 4  # once to warm up, then in turns with the loops
    assert [loop.taken for loop in loops.values()] == [[10] * 4, [50] * 4, [100] * 4]
    assert result["ratio"] == pytest.approx((4 + 3) / 2)
    assert result["best"] == {"one": "b", "two": "a"}
    assert result["ratios"] == {"a": pytest.approx((10 + 3) / 2)}  # b does not do part two
    assert result["ratio_wall"] == pytest.approx(3.5)
    assert len(result["raw_seconds_cpu_wall"]["one"]["b"]) == 3
    assert (result["target"], result["max_difference"]) == (5, 1e-12)
    assert "b and a" in row("W0", result)


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
def test_all_arms_take_the_same_path():
    from benchmarks import batched_torch, plain_jax
    from benchmarks import torch_loops as loops
    from benchmarks.agreement import difference_together, largest_difference

    problem = gb.problems.gaussian(n=4, d=6, informative=2, key=0)
    cases = [
        (gb.Rank1(6, 3, 5), None, "full_batch"),
        (gb.Deep([6, 4, 1]), gb.Minibatch(2), "minibatch"),
        (gb.Diagonal(6), gb.LabelNoise(0.1, 1), "minibatch"),
    ]
    for net, noise, kind in cases:
        loop, stack = getattr(loops, kind), getattr(batched_torch, kind)
        dynamics = gb.Descent(0.01, noise)
        both = [gb.Setup(problem, net, gb.init.gaussian(net, 0.3, key=key), dynamics, key=key)
                for key in (3, 4)]  # fmt: skip
        assert largest_difference(both, loop, steps=5) < 1e-13
        assert difference_together(both, stack, steps=5) < 1e-13
        for vmap in (False, True):
            jax = functools.partial(getattr(plain_jax, kind), vmap=vmap)
            assert difference_together(both, jax, steps=5) < 1e-13
        other = [setup.replace(dynamics=gb.Descent(0.0101, noise)) for setup in both]
        assert largest_difference(other[:1], lambda _, s=both[0], f=loop: f(s), steps=5) > 1e-8
        assert difference_together(other, lambda _, s=both, f=stack: f(s), steps=5) > 1e-8
    net = gb.TwoLayer(5, 5, 7)
    setup = gb.Setup(gb.problems.autoencoding(5, phi=0.6), net, gb.init.gaussian(net, 0.3),
                     gb.Descent(0.01, gb.Minibatch(3)), key=3)  # fmt: skip
    assert largest_difference([setup], lambda s: loops.fresh(s, False), steps=5) < 1e-13
    assert largest_difference([setup], lambda s: plain_jax.fresh(s, False), steps=5) < 1e-13
