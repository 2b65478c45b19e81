"""A monitor over two processes sees what it sees in one; a stopped run is taken up again."""

import math
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import ddp_worker  # noqa: E402
import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)


@pytest.mark.slow  # two processes import torch: 13 to 17 s
def test_two_ranks_measure_what_one_does(tmp_path):
    ddp_worker.run(0, 1, tmp_path)
    torch.multiprocessing.spawn(ddp_worker.run, (2, tmp_path), nprocs=2)
    one, two, silent = (torch.load(tmp_path / f"{name}.pt") for name in ("1-0", "2-0", "2-1"))
    assert [step for step, _ in two["history"]] == [step for step, _ in one["history"]]
    names = set(one["history"][-1][1]) - {"overhead"}
    assert len(names) >= 19 and set(two["history"][-1][1]) - {"overhead"} == names
    for (_, a), (_, b) in zip(one["history"], two["history"], strict=True):
        for name in names:
            assert a[name] == pytest.approx(b[name], rel=1e-6, nan_ok=True), name
        assert a["sharpness"] != pytest.approx(1.03 * b["sharpness"], rel=1e-6)
    for part in ("charge", "arrays"):
        assert set(one[part]) == set(two[part]) and one[part]
        for name, value in one[part].items():
            torch.testing.assert_close(
                value, two[part][name], rtol=1e-6, atol=1e-12, equal_nan=True
            )
    # The other process trains the same weights, measures nothing and has nothing to save.
    assert silent["history"] == [] and silent["charge"] == {} and silent["state"] == {}
    for p, q in zip(two["theta"], silent["theta"], strict=True):
        assert torch.equal(p, q)


def started(**options):
    model, batch = ddp_worker.case()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.5, weight_decay=0.01)
    options = {"every": 4, "budget": 1e9, "exact": True, "batch_size": 8, **options}
    return model, optimizer, gbt.Monitor(model, optimizer, ddp_worker.squared, batch, **options)


def train(model, optimizer, steps):
    _, batch = ddp_worker.case()
    for step in steps:
        mine = ddp_worker.chosen(step)
        optimizer.zero_grad()
        ddp_worker.squared(model, (batch[0][mine], batch[1][mine])).backward()
        optimizer.step()


@pytest.mark.parametrize("stop", [6, 8])
def test_a_run_that_is_taken_up_again_is_the_run_that_was_not_stopped(stop, tmp_path):
    """Also between two measurements, and with its file."""
    model, optimizer, whole = started(log=tmp_path / "whole.csv")
    train(model, optimizer, range(20))

    model, optimizer, first = started(log=tmp_path / "parts.csv")
    train(model, optimizer, range(stop))
    torch.save([x.state_dict() for x in (model, optimizer, first)], tmp_path / "run.pt")
    del first
    model, optimizer, _ = started()
    saved = torch.load(tmp_path / "run.pt", weights_only=True)
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    _.close()
    options = {"every": 4, "budget": 1e9, "exact": True, "batch_size": 8}
    second = gbt.Monitor(
        *(model, optimizer, ddp_worker.squared, ddp_worker.case()[1]),
        **{**options, "log": tmp_path / "parts.csv"},
    )
    second.load_state_dict(saved[2])
    train(model, optimizer, range(stop, 20))

    assert [step for step, _ in second.history] == [4, 8, 12, 16, 20]
    for (_, a), (_, b) in zip(whole.history, second.history, strict=True):
        for name in set(a) - {"overhead"}:
            assert a[name] == pytest.approx(b[name], rel=1e-9, nan_ok=True), name
    assert math.isfinite(second.latest["drift_explained"])
    for name, charge in whole.charge.items():
        np.testing.assert_allclose(second.charge[name], charge, rtol=1e-12)
    assert second.clock.step == 20 and second.clock.measurements == 5
    rows = [(tmp_path / f"{n}.csv").read_text().splitlines() for n in ("whole", "parts")]
    assert rows[0][0] == rows[1][0] and len(rows[0]) == len(rows[1]) == 6


def test_time_between_two_parts_of_a_run_is_not_training_time():
    model, optimizer, first = started()
    train(model, optimizer, range(8))
    state = first.state_dict()
    model, optimizer, second = started()
    second.clock.now = lambda: 1e6
    second.load_state_dict(state)
    assert second.clock.training == pytest.approx(state["clock"]["training"], rel=1e-6, abs=1e-6)
    assert second.clock.spent >= state["clock"]["spent"]


def test_the_state_of_another_model_is_refused():
    state = started()[2].state_dict()
    other = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)).double()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    monitor = gbt.Monitor(other, optimizer, ddp_worker.squared, ddp_worker.case()[1])
    with pytest.raises(ValueError, match="state must be of a monitor of the same families"):
        monitor.load_state_dict(state)


def test_an_error_of_the_monitor_is_told_once_and_training_goes_on(monkeypatch):
    model, optimizer, monitor = started(every=1)
    alone, other, unwatched = started(every=1)
    unwatched.close()
    train(model, optimizer, range(2))
    calls = []

    def fails(*_):
        calls.append(1)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(monitor._steps, "after", fails)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        train(model, optimizer, range(2, 9))
        monitor.close()
    assert len(calls) == 7 and len(monitor.history) == 2
    (warning,) = told
    assert "the end of a step; training goes on. RuntimeError: out of memory" in str(
        warning.message
    )
    train(alone, other, range(9))
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(p, q)


def test_a_summary_that_fails_does_not_end_the_run(monkeypatch):
    _, _, monitor = started()
    monkeypatch.setattr(type(monitor), "summary", lambda self: 1 / 0)
    with pytest.warns(RuntimeWarning, match="could not do the summary"), monitor:
        pass
