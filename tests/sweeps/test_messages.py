"""What a sweep says: warnings, estimates, refusals before anything runs."""

import io
import re

import numpy as np
import pytest

import gradbias as gb
from gradbias._sweeps.grid import Grid
from gradbias._sweeps.progress import SweepProgress
from gradbias._sweeps.results import Outline, check_names, warn_if_large
from gradbias.numerics import progress

PROBLEM = gb.problems.gaussian(n=6, d=4, key=1, loss="half_mean")
NET = gb.TwoLayer(4, 1, 3)


def build(seed, key=None, noise=None, **changes):
    noise = gb.Minibatch(2) if noise is None else noise
    return gb.Setup(PROBLEM, NET, gb.init.gaussian(NET, 0.4, key=seed), gb.Descent(0.01, noise),
                    gb.Until(steps=40), save_at=[0, 40], key=seed if key is None else key,
                    record=[gb.observe.loss])  # fmt: skip


def test_equal_keys_are_warned_of():
    with pytest.warns(UserWarning, match="all 3 members have key=7.*key=seed"):
        gb.sweep(lambda seed: build(seed, key=7), {"seed": range(3)})
    gb.sweep(lambda seed: build(seed, key=7), {"seed": [0]})
    replayed = gb.Replay(np.zeros((40, 2), int))
    gb.sweep(lambda seed: build(seed, key=7, noise=replayed), {"seed": range(3)})


def test_unequal_observables_are_refused_before_anything_runs(monkeypatch):
    from gradbias._sweeps import executors

    monkeypatch.setattr(executors, "perform", None)

    def make(width):
        net = gb.TwoLayer(4, 1, width)
        return build(0).replace(
            net=net, params=gb.init.gaussian(net, 0.4, key=0), record=[gb.observe.params]
        )

    with pytest.raises(ValueError, match=r"\(4, 2\) at \{'width': 2\} and \(4, 3\) at .*3"):
        gb.sweep(make, {"width": [2, 3]})


@pytest.mark.parametrize(
    ("axis", "dims", "word"),
    [("loss", {"loss": ()}, "loss"), ("loss_end", {"loss": ()}, "loss_end"),
     ("mode", {"sv": ("mode",)}, "mode"), ("a", {"x": (), "x_end": ()}, "x"),
     ("a", {"status": ()}, "status")],
)  # fmt: skip
def test_names_that_clash(axis, dims, word):
    outline = Outline(dims, {name: (2,) * len(d) for name, d in dims.items()})
    with pytest.raises(ValueError, match=f"record: '{word}'"):
        check_names(Grid.of({axis: [1]}), [(0, outline)])


def test_results_that_fill_the_memory_are_warned_of():
    outline = Outline({"x": ("a",)}, {"x": (10**6,)})
    with pytest.warns(UserWarning, match=r"7.5 GiB of memory.*store="):
        warn_if_large(Grid.of({"a": range(10)}), outline, 100)


@pytest.mark.parametrize("values", [["a", 1], "abc", [None], 3, [2**70], [[1], [2, 3]]])
def test_odd_axes(values):
    with pytest.raises(ValueError, match=r"over\['a'\] must be a list of numbers or of strings"):
        Grid.of({"a": values})


@pytest.mark.parametrize("executor", [0, -1, True, "dask", 2.0])
def test_odd_executors(executor):
    with pytest.raises(ValueError, match="executor must be"):
        gb.sweep(build, {"seed": [0]}, executor=executor)


def test_a_long_sweep_is_announced_once_and_in_a_log_too(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    stream = io.StringIO()
    bar = SweepProgress("sweep of 9", None, total=4.0, stream=stream)
    bar.update(0.0, "")
    for second in range(1, 4):
        clock[0] = float(second)
        bar.part(1.0).update(0.01 * second, "")  # a quarter of it: 1 % in 4 s
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    said = re.fullmatch(r"sweep of 9: about ([\d.]+) min", lines[0])
    assert said
    assert float(said.group(1)) == pytest.approx(400 / 60, rel=0.02)


@pytest.mark.parametrize(("show", "rate"), [(False, 0.001), (None, 0.1)])
def test_short_or_silenced_sweeps_are_not(monkeypatch, show, rate):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    stream = io.StringIO()
    bar = SweepProgress("sweep", show, total=1.0, stream=stream)
    for second in range(4):
        clock[0] = float(second)
        bar.part(1.0).update(rate * second, "")
    assert stream.getvalue() == ""
