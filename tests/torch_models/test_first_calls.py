"""What people try first: criteria, loaders, losses that are sums, and a monitor as it comes."""

import math

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)


def setting(n=64):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    return model, (torch.randn(n, 5).double(), torch.randint(0, 3, (n,)))


def mean(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def test_a_criterion_is_put_around_the_model():
    model, batch = setting()
    ours, theirs = gbt.inspect(model, nn.CrossEntropyLoss(), batch), gbt.inspect(model, mean, batch)
    assert ours.loss == pytest.approx(theirs.loss, rel=1e-12)
    assert ours.sharpness.value == pytest.approx(theirs.sharpness.value, rel=1e-6)
    with pytest.raises(ValueError, match=r"batch must be \(inputs, targets\) for CrossEntropyLoss"):
        gbt.inspect(model, nn.CrossEntropyLoss(), batch[0])


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_a_criterion_that_is_no_mean_is_refused(reduction):
    model, batch = setting()
    with pytest.raises(ValueError, match=f"reduction='{reduction}'.*: use CrossEntropyLoss"):
        gbt.inspect(model, nn.CrossEntropyLoss(reduction=reduction), batch)


def test_a_loss_that_is_a_sum_is_noticed():
    model, batch = setting()
    total = lambda model, batch: nn.functional.cross_entropy(  # noqa: E731
        model(batch[0]), batch[1], reduction="sum"
    )
    with pytest.raises(ValueError, match="doubles on a batch taken twice.*here 64"):
        gbt.inspect(model, total, batch)
    with pytest.raises(ValueError, match="doubles on a batch"):
        gbt.Monitor(model, torch.optim.SGD(model.parameters(), 0.1), total, batch)


def test_a_loss_with_its_arguments_swapped():
    model, batch = setting()
    with pytest.raises(ValueError, match=r"loss_fn\(model, batch\), in this order"):
        gbt.inspect(model, lambda batch, model: mean(model, batch), batch)
    with pytest.raises(ValueError, match="loss_fn must be a function"):
        gbt.inspect(model, "cross_entropy", batch)


def test_balance_takes_a_loader_as_inspect_does():
    model, batch = setting()
    with torch.no_grad():
        model[0].weight *= 8
    loader = DataLoader(TensorDataset(*batch), batch_size=32)
    gbt.inspect(model, mean, loader)
    jump = gbt.balance(model, loss_fn=nn.CrossEntropyLoss(), batch=loader)
    assert jump.after.sharpness.value < jump.before.sharpness.value
    into, out = model[0], model[2]
    squares = into.weight.square().sum(1) + into.bias.square()
    torch.testing.assert_close(squares, out.weight.square().sum(0))


def trained(steps, **options):
    model, batch = setting(256)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    monitor = gbt.Monitor(model, optimizer, mean, batch, **options)
    draw = torch.Generator().manual_seed(1)
    for _ in range(steps):
        chosen = torch.randint(0, 256, (16,), generator=draw)
        optimizer.zero_grad()
        mean(model, (batch[0][chosen], batch[1][chosen])).backward()
        optimizer.step()
    monitor.close()
    monitor.finish()
    return monitor


def test_a_run_of_a_thousand_steps_has_curves(tmp_path):
    """Loss and imbalance at twenty points; what is dear within the budget, and at the end."""
    monitor = trained(1000, log=tmp_path / "run.csv", extras=("ranks",))
    rows = monitor.history
    assert [step for step, _ in rows] == list(range(50, 1001, 50))
    for name in ("loss", "imbalance_median", "imbalance_max"):
        assert all(math.isfinite(values[name]) for _, values in rows)
    assert rows[-1][1]["loss"] < rows[0][1]["loss"]
    assert rows[-1][1]["loss"] == pytest.approx(
        float(mean(monitor.model, setting(256)[1]).detach())
    )
    assert math.isfinite(rows[-1][1]["sharpness"])
    assert math.isfinite(monitor.latest["stable_rank_min"])
    header = (tmp_path / "run.csv").read_text().splitlines()[0]
    assert "gradbias/stable_rank_min" in header


def test_dear_measurements_keep_the_budget():
    """By a clock that says what each kind takes."""
    monitor = trained(1000, budget=1e-9)
    dear = [step for step, values in monitor.history if math.isfinite(values["sharpness"])]
    assert dear == [1000]
    assert len(monitor.history) == 20
    everything = trained(400, budget=1e9)
    assert all(math.isfinite(values["sharpness"]) for _, values in everything.history)


def test_the_page_has_the_loss_and_is_dark_at_night(tmp_path):
    page = trained(200).report(tmp_path / "run.html").read_text()
    assert "Loss of the probe" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<circle") >= 4


def test_a_version_that_is_not_tested_is_named(monkeypatch):
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.8.0+cpu"))
    with pytest.warns(UserWarning, match=r"tested with PyTorch 2.13, got 2.8.0\+cpu"):
        gbt.__getattr__("sharpness")  # a name that was asked for before is kept
    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion("2.14.1"))
    gbt.__getattr__("sharpness")
