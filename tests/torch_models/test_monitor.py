"""The monitor inside training loops: exact charges, cheap, and never in the way."""

import csv
import math
import subprocess
import sys
import types

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from gradbias.torch._measure.curvature import TopEigenpair  # noqa: E402
from gradbias.torch._measure.unwrap import unwrap_model  # noqa: E402
from gradbias.torch._monitor.charge_law import ChargeLaw  # noqa: E402
from gradbias.torch._monitor.clock import Clock  # noqa: E402
from gradbias.torch._monitor.headline import HEADLINE  # noqa: E402
from gradbias.torch._monitor.huggingface import trainer_callback  # noqa: E402
from gradbias.torch._monitor.lightning import lightning_callback  # noqa: E402
from gradbias.torch._monitor.monitor import Monitor  # noqa: E402
from gradbias.torch._monitor.page import page  # noqa: E402

torch.set_num_threads(1)


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(1).mean()


def case(key=0, n=64, width=6, dtype=torch.float64):
    torch.manual_seed(key)
    model = nn.Sequential(
        nn.Linear(4, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.LeakyReLU(0.3),
        nn.Linear(width, 2),
    ).to(dtype)
    return model, (torch.randn(n, 4, dtype=dtype), torch.randn(n, 2, dtype=dtype))


def train(model, optimizer, batch, steps, size=4, clip=None, key=1):
    draw = torch.Generator().manual_seed(key)
    for _ in range(steps):
        chosen = torch.randint(0, len(batch[0]), (size,), generator=draw)
        optimizer.zero_grad()
        squared(model, (batch[0][chosen], batch[1][chosen])).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()


def measured(monitor):
    """C from the weights themselves, without the monitor's own arithmetic."""
    w0, b0, w1, b1, w2, _ = (p.detach().double().numpy() for p in monitor.model.parameters())
    return [
        (w0**2).sum(1) + b0**2 - (w1**2).sum(0),
        (w1**2).sum(1) + b1**2 - (w2**2).sum(0),
    ]


SGDS = {
    "sgd": {"lr": 0.02, "weight_decay": 1e-2},
    "momentum": {"lr": 0.005, "momentum": 0.9, "weight_decay": 1e-2},
    "nesterov": {"lr": 0.005, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-2},
    "nesterov without decay": {"lr": 0.005, "momentum": 0.9, "nesterov": True},
}


def optimizer_of(name, model):
    if name == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    return torch.optim.SGD(model.parameters(), **SGDS[name])


@pytest.mark.parametrize("name", [*SGDS, "adamw"])
def test_followed_charges_are_the_real_ones_after_1000_steps(name):
    model, batch = case()
    optimizer = optimizer_of(name, model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 200, 0.5)
    monitor = Monitor(model, optimizer, squared, batch, every=10**6, exact=True)
    law = None if name == "adamw" else ChargeLaw(model, optimizer, monitor.families)
    start = np.concatenate(measured(monitor))
    for k in range(250):
        train(model, optimizer, batch, 1, clip=1.0, key=k)
        schedule.step()
    if law is not None:
        off = followed_by(law, monitor) - np.concatenate(measured(monitor))
        assert np.abs(off).max() < 1e-10
        for family in monitor.families:  # control: with another cross term, momentum's law is wrong
            law._cross[family.name] = law._cross[family.name] + 0.1
        train(model, optimizer, batch, 1)
        off = followed_by(law, monitor) - np.concatenate(measured(monitor))
        assert (np.abs(off).max() > 1e-5) == (name != "sgd")
        law.close()
    for k in range(0 if "without" in name else 750):
        train(model, optimizer, batch, 1, clip=1.0, key=k)
        schedule.step()
    now = np.concatenate(measured(monitor))
    assert np.abs(now - start).max() > 1e-2  # they have moved
    followed = np.concatenate([monitor.charge[f.name] for f in monitor.families])
    assert np.abs(followed - now).max() < 1e-10
    decay, first_order, step2 = (
        sum(float(part.abs().sum()) for part in parts)
        for parts in zip(*monitor._sums.values(), strict=True)
    )
    assert (decay > 0) == ("without" not in name)
    if name == "adamw":
        assert first_order > 50 * step2
    assert (first_order < 1e-10 * step2) == (name == "sgd")


def followed_by(law, monitor):
    return np.concatenate([law.charge[family.name].numpy() for family in monitor.families])


def test_the_split_of_one_step_by_hand():
    model, batch = case()
    optimizer = optimizer_of("adamw", model)
    optimizer.param_groups[0]["lr"] = 0.1
    monitor = Monitor(model, optimizer, squared, batch, every=1, budget=1e9, exact=True)
    family = monitor.families[0]
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    train(model, optimizer, batch, 1)
    moved = {n: p.detach() - before[n] for n, p in model.named_parameters()}
    split = monitor._sums[family.name]
    np.testing.assert_allclose(split.decay, -2 * 0.1 * 0.05 * family.form(before, before))
    np.testing.assert_allclose(split.step2, family.form(moved, moved))
    np.testing.assert_allclose(split.first_order + split.decay, 2 * family.form(before, moved))


def test_names_files_and_page(tmp_path):
    model, batch = case()
    optimizer = optimizer_of("momentum", model)
    seen = []
    extras = ("equilibrium", "spectrum", "ranks", "trace", "label_noise")
    monitor = Monitor(
        *(model, optimizer, squared, batch, 5, 1e9),
        log=lambda values, step: seen.append((step, dict(values))),
        batch_size=4,
        extras=extras,
        arrays=tmp_path / "arrays",
    )
    train(model, optimizer, batch, 20)
    assert [step for step, _ in seen] == [5, 10, 15, 20] == [step for step, _ in monitor.history]
    plain = [name.removeprefix("gradbias/") for name in seen[-1][1]]
    assert plain[: len(HEADLINE)] == list(HEADLINE) and len(HEADLINE) <= 13
    values = monitor.latest
    assert all(math.isfinite(v) for v in values.values()), values
    assert values["imbalance_max"] >= values["imbalance_median"] >= 1
    assert values["noise_ratio_max"] >= 1 and values["sharpness"] > 0
    with np.load(tmp_path / "arrays" / "step_00000020.npz") as arrays:
        charge = arrays[f"charge/{monitor.families[0].name}"]
        np.testing.assert_allclose(charge, measured(monitor)[0])
        assert f"lambda/{monitor.families[0].name}" in arrays
        spectrum = arrays[f"spectrum/{monitor.families[1].name}"]
        assert abs(spectrum.sum() - measured(monitor)[1].sum()) < 1e-10  # the trace of the matrix
    text = monitor.report(tmp_path / "run.html").read_text()
    assert text.count("<svg") >= 8 and "http" not in text and "<script" not in text
    assert "Sequential trained with SGD" in text and "lr/(1 − β)" in text
    said = monitor.summary()
    assert "4 measurements in 20 steps" in said and max(map(len, said.splitlines())) < 200


def test_the_equilibrium_is_at_distance_zero():
    """After the jump by λ* the noise of both sides of every unit is the same."""
    model, batch = case()
    model[2] = nn.Linear(6, 2).double()
    model = model[:3]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor = Monitor(model, optimizer, squared, batch, 1, 1e9, extras=("equilibrium",))
    assert monitor.measure()["equilibrium_distance"] > 0.1
    family, lam = monitor.families[0], monitor.readings.arrays[f"lambda/{monitor.families[0].name}"]
    with torch.no_grad():
        params = dict(model.named_parameters())
        for name, value in family.move(params, torch.tensor(np.nan_to_num(lam))).items():
            params[name].copy_(value)
    after = monitor.measure()
    assert after["equilibrium_distance"] < 1e-9 and abs(after["noise_ratio_max"] - 1) < 1e-9


def test_csv(tmp_path):
    model, batch = case()
    optimizer = optimizer_of("sgd", model)
    with Monitor(model, optimizer, squared, batch, 2, 1e9, log=str(tmp_path / "a" / "run.csv")):
        train(model, optimizer, batch, 4)
    train(model, optimizer, batch, 4)  # closed: nothing is added
    with open(tmp_path / "a" / "run.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows] == ["2", "4"]
    assert float(rows[0]["gradbias/sharpness"]) > 0


def test_training_is_the_same_with_and_without():
    finals = []
    for watched in (False, True):
        model, batch = case()
        model.insert(1, nn.Dropout(0.3))
        model.insert(2, nn.BatchNorm1d(6).double())
        optimizer = optimizer_of("momentum", model)
        torch.manual_seed(5)
        if watched:
            Monitor(model, optimizer, squared, batch, 2, 1e9, exact=True, extras=("trace",))
        train(model, optimizer, batch, 6)
        assert all(m.training for m in model.modules())
        finals.append(model.state_dict())
    assert all(torch.equal(finals[0][name], value) for name, value in finals[1].items())


class _Syncs(TorchDispatchMode):
    """Counts operations that would wait for a GPU."""

    waits = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.waits += any(
            word in str(func) for word in ("_local_scalar_dense", "nonzero", "is_nonzero")
        )
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("exact", [False, True])
def test_nothing_waits_for_the_device_between_measurements(exact):
    model, batch = case()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)
    train(model, optimizer, batch, 1)
    monitor = Monitor(model, optimizer, squared, batch, every=50, budget=1e9, exact=exact)
    monitor._before()
    monitor._after()  # caches of the families
    with _Syncs() as mode:
        for _ in range(3):
            monitor._before()
            monitor._after()
        assert mode.waits == 0
        monitor.measure()
        assert mode.waits > 0  # the counter counts


def test_the_clock_keeps_the_budget():
    now = [0.0]
    clock = Clock(every=10, budget=0.05)
    clock.now = lambda: now[0]
    with clock.ours():
        now[0] += 1.0  # setting up
    clock.expect(1.0)
    steps = []
    for _ in range(4000):
        clock.tick()
        now[0] += 0.02  # training
        if clock.due():
            with clock.ours(measurement=True):
                now[0] += 1.0
            steps.append(clock.step)
            assert clock.used <= 0.05 + 1e-9
    assert len(steps) >= 2 and all(step % 10 == 0 for step in steps)
    assert clock.used > 0.6 * 0.05  # and uses it
    # Interval from cost: 1 s of 5 % is 20 s of training, 1000 steps, and a quarter for safety.
    assert 900 <= steps[-1] - steps[-2] <= 1300


def test_a_failing_measurement_warns_once_and_training_goes_on(monkeypatch, capsys):
    model, batch = case()
    optimizer = optimizer_of("sgd", model)
    monitor = Monitor(model, optimizer, squared, batch, 1, 1e9, log=lambda *_: 1 / 0)

    def broken(*_, **__):
        raise RuntimeError("out of memory")

    monkeypatch.setattr("gradbias.torch._monitor.readings.sharpness", broken)
    monkeypatch.setattr("gradbias.torch._monitor.monitor.Steps.before", broken)
    with pytest.warns(RuntimeWarning) as told:
        train(model, optimizer, batch, 3)
    said = [str(w.message) for w in told]
    assert len(said) == 3 and any("the sharpness; training goes on" in s for s in said)
    assert any("the log" in s for s in said) and any("the start of a step" in s for s in said)
    assert len(monitor.history) == 3 and math.isnan(monitor.latest["sharpness"])
    assert monitor.latest["imbalance_max"] > 1
    monitor.close()
    # Where warnings are errors, as in this test session, it is said on stderr.
    Monitor(model, optimizer, squared, batch, 1, 1e9)
    train(model, optimizer, batch, 1)
    assert "out of memory" in capsys.readouterr().err


def test_ctrl_c_is_not_caught(monkeypatch):
    model, batch = case()
    optimizer = optimizer_of("sgd", model)
    Monitor(model, optimizer, squared, batch, 1, 1e9)

    def pressed(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("gradbias.torch._monitor.readings.sharpness", pressed)
    with pytest.raises(KeyboardInterrupt):
        train(model, optimizer, batch, 1)


def test_dead_units_are_masked_and_counted():
    model, batch = case()
    with torch.no_grad():
        model[0].bias[2] = -1e3  # never active
        model[4].weight[:, 1] = 0.0
        model[4].weight[:, 3] = 0.0
    monitor = Monitor(model, optimizer_of("sgd", model), squared, batch, 1, 1e9)
    values = monitor.measure()
    assert values["dead_units"] == 3
    assert values["imbalance_max"] < 1e2 and math.isfinite(values["noise_ratio_max"])
    assert "3 units are dead" in monitor.summary()


def test_models_without_symmetries_and_of_one_unit():
    torch.manual_seed(0)
    smooth = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    _, batch = case()
    monitor = Monitor(smooth, torch.optim.SGD(smooth.parameters(), lr=0.1), squared, batch, 1, 1e9)
    values = monitor.measure()
    assert monitor.families == () and values["sharpness"] > 0
    assert math.isnan(values["imbalance_max"]) and values["dead_units"] == 0
    assert "No function-preserving rescaling" in __import__(
        "gradbias.torch._monitor.page", fromlist=["page"]
    ).page(monitor)
    narrow = nn.Sequential(nn.Linear(4, 1), nn.ReLU(), nn.Linear(1, 2)).double()
    monitor = Monitor(narrow, torch.optim.SGD(narrow.parameters(), lr=0.1), squared, batch, 1, 1e9)
    assert monitor.families[0].units == 1 and monitor.measure()["imbalance_max"] >= 1


def drift(steps, every, key):
    """The net 10-12-12-4 with its full data as the probe; once with a wrong batch size."""
    torch.manual_seed(key)
    model = nn.Sequential(
        nn.Linear(10, 12), nn.ReLU(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 4)
    ).double()
    x = torch.randn(1000, 10).double()
    y = torch.tanh(x @ torch.randn(10, 4).double()) + 0.5 * torch.randn(1000, 4).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitors = [
        Monitor(model, optimizer, squared, (x, y), every, 1e9, batch_size=s) for s in (4, 8)
    ]
    for monitor in monitors:
        monitor.measure()
    train(model, optimizer, (x, y), steps)
    found = []
    for monitor in monitors:
        sides = zip(*monitor.drift.moved.values(), strict=True)
        predicted, observed = (np.concatenate(side) for side in sides)
        slope = predicted @ observed / (predicted @ predicted)
        correlation = np.corrcoef(predicted, observed)[0, 1]
        found.append((slope, correlation, monitor.drift.explained()))
    return found


def test_weight_decay_alone_is_predicted(flat):
    """A loss too small to matter: C falls by −2·lr·wd·C a step, biases not decayed included."""
    model, batch = case()
    weights = [p for p in model.parameters() if p.ndim == 2]
    biases = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.SGD(
        [{"params": weights, "weight_decay": 0.1}, {"params": biases}], lr=0.01
    )
    monitor = Monitor(
        *(model, optimizer, lambda m, b: 1e-9 * squared(m, b), batch, 10, 1e9), batch_size=4
    )
    monitor.measure()
    for _ in range(50):
        optimizer.zero_grad()
        (1e-9 * squared(model, batch)).backward()
        optimizer.step()
    for moved in monitor.drift.moved.values():
        np.testing.assert_allclose(moved.predicted, moved.observed, rtol=2e-3, atol=1e-8)
    assert monitor.drift.explained() > 0.999
    before = monitor.drift.moved
    monitor.measure()  # no step since the last
    for name, moved in monitor.drift.moved.items():
        np.testing.assert_array_equal(moved.predicted, before[name].predicted)
    # Another rate on one side of a unit: there is no such law, and nothing is predicted.
    optimizer.param_groups[1]["lr"] = 0.02
    optimizer.step()
    monitor.measure()
    assert all(np.isnan(moved.predicted).all() for moved in monitor.drift.moved.values())


def test_gradient_descent_without_noise_is_predicted(flat):
    """Batches of all samples: the mean gradient alone moves C, by lr²·ḡᵀAḡ a step."""
    model, (x, y) = case()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor = Monitor(model, optimizer, squared, (x, y + 3), 1, 1e9, batch_size=64)
    monitor.measure()
    for _ in range(10):
        optimizer.zero_grad()
        squared(model, (x, y + 3)).backward()
        optimizer.step()
    assert monitor.drift.explained() > 0.99


def test_numbers_by_hand():
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False))
    model.double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[6.0, 0, 0], [0, 1, 0]]))
        model[2].weight.copy_(torch.tensor([[2.0, 4.0]]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    batch = (torch.rand(8, 3).double() + 0.1, torch.rand(8, 1).double())
    extras = ("spectrum", "ranks")
    values = Monitor(model, optimizer, squared, batch, 1, 1e9, extras=extras).measure()
    assert abs(values["imbalance_max"] - 4) < 1e-12  # 1 in, 4 out
    assert abs(values["imbalance_median"] - 3.5) < 1e-12
    assert values["lr_over_limit"] == 0.5 * values["sharpness"] / 2
    # in·inᵀ − outᵀ·out = diag(36, 1) − [[4, 8], [8, 16]], over all squares, 57.
    top = np.abs(np.linalg.eigvalsh([[32, -8], [-8, -15]])).max()
    assert abs(values["imbalance_spectral"] - top / 57) < 1e-12
    assert abs(values["stable_rank_min"] - 1) < 1e-12  # of the one row
    assert abs(values["effective_rank_min"] - 1) < 1e-12


def test_label_noise_flattens_as_the_formula_says():
    """L = Σθ⁴: Tr H = 12‖θ‖², its gradient 24θ, so that the trace falls by lr²/4·576‖θ‖²."""
    model = nn.Linear(3, 1, bias=False).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def quartic(model, batch):
        return model.weight.pow(4).sum() + 0 * model(batch).sum()

    monitor = Monitor(
        *(model, optimizer, quartic, torch.ones(2, 3).double(), 1, 1e9), extras=("label_noise",)
    )
    wanted = 0.01 / 4 * 576 * float(model.weight.detach().square().sum())
    assert abs(monitor.measure()["label_noise_drift"] - wanted) < 1e-6 * wanted


def test_a_diverging_run_is_survived():
    model, batch = case()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e3)
    monitor = Monitor(model, optimizer, squared, batch, 1, 1e9, exact=True)
    with pytest.warns(RuntimeWarning, match="training goes on"):
        train(model, optimizer, batch, 12)
    assert not all(bool(torch.isfinite(p).all()) for p in model.parameters())
    assert len(monitor.history) == 12 and math.isnan(monitor.latest["sharpness"])
    assert monitor.summary() and "<svg" in page(monitor)


def test_other_optimisers_and_named_arguments():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = case()[0]

        def forward(self, *, inputs):
            return {"logits": self.net(inputs)}

    def loss_fn(model, batch):
        return (model(inputs=batch["x"])["logits"] - batch["y"]).square().mean()

    model, (x, y) = Named(), case()[1]
    rate = torch.tensor(0.01)  # a learning rate on the device
    for optimizer in (
        torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2),
        torch.optim.Adam(model.parameters(), lr=rate, weight_decay=0.1, capturable=False),
        torch.optim.SGD(model.net[0].parameters(), lr=rate, weight_decay=0.1),
    ):
        monitor = Monitor(
            model, optimizer, loss_fn, {"x": x, "y": y}, 1, 1e9, exact=True, batch_size=4
        )

        def closure(optimizer=optimizer):
            optimizer.zero_grad()
            loss = loss_fn(model, {"x": x, "y": y})
            loss.backward()
            return loss

        optimizer.step(closure)
        now = np.concatenate([f.charge(monitor._params).detach() for f in monitor.families])
        assert np.abs(np.concatenate(list(monitor.charge.values())) - now).max() < 1e-12
        assert len(monitor.families) == 2 and monitor.latest["sharpness"] != 0
        monitor.close()


@pytest.fixture
def flat(monkeypatch):
    """No sharpness, which takes most of the time."""
    none = TopEigenpair(1.0, 0.0, 1, True, torch.ones(1))
    monkeypatch.setattr("gradbias.torch._monitor.readings.sharpness", lambda *_, **__: none)


def test_predicted_drift_is_the_observed_one(flat):
    (slope, correlation, explained), wrong = drift(steps=500, every=50, key=0)
    assert 0.85 < slope < 1.15 and correlation > 0.97 and explained > 0.9
    assert wrong[0] > 1.3 and wrong[2] < explained - 0.1


@pytest.mark.slow
@pytest.mark.parametrize("key", [0, 1, 2])
def test_predicted_drift_slope_within_5_percent(key, flat):
    (slope, correlation, _), _ = drift(steps=4000, every=40, key=key)
    assert abs(slope - 1) < 0.05 and correlation >= 0.99


def test_wrapped_models_are_unwrapped_and_sharded_ones_refused():
    model, batch = case()
    assert unwrap_model(nn.DataParallel(model)).model is model
    sharded = type("FullyShardedDataParallel", (nn.Sequential,), {})(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="sharded.*gradbias.torch.inspect"):
        Monitor(sharded, torch.optim.SGD(sharded.parameters(), lr=0.1), squared, batch)
    assert unwrap_model(torch.compile(model, backend="eager")).model is model


def test_data_parallel_processes_measure_on_rank_0(monkeypatch, tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        model, batch = case()
        wrapped = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
        assert Monitor(wrapped, optimizer, squared, batch, 1, 1e9).measure()["sharpness"] > 0
        monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
        silent = Monitor(wrapped, optimizer, squared, batch, 1, 1e9, log=lambda *_: 1 / 0)
        train(wrapped, optimizer, batch, 1)
        assert silent.history == [] and silent.measure() == {} and silent.report("x.html") is None
        assert silent.families == () and silent.charge == {} and silent.summary() == ""
    finally:
        torch.distributed.destroy_process_group()


def test_adapters(monkeypatch, tmp_path):
    """With stand-ins for the libraries: what they call, in their order."""
    model, batch = case()
    optimizer = optimizer_of("sgd", model)
    logged = []
    pytorch = types.SimpleNamespace(Callback=object)
    monkeypatch.setitem(sys.modules, "lightning", types.SimpleNamespace(pytorch=pytorch))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", pytorch)
    logger = types.SimpleNamespace(log_metrics=lambda values, step: logged.append((step, values)))
    wrapped = types.SimpleNamespace(optimizer=optimizer)  # as Lightning hands it over
    trainer = types.SimpleNamespace(optimizers=[wrapped], loggers=[logger])
    callback = lightning_callback(squared, batch, every=1, budget=1e9)
    callback.on_train_start(trainer, model)
    train(model, optimizer, batch, 2)
    callback.on_train_end(trainer, model)
    train(model, optimizer, batch, 2)
    assert [step for step, _ in logged] == [1, 2] and "gradbias/sharpness" in logged[0][1]

    monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(TrainerCallback=object))
    callback = trainer_callback(batch, squared, every=1, budget=1e9)
    args = types.SimpleNamespace(output_dir=str(tmp_path))
    callback.on_train_begin(args, None, None, model=model, optimizer=optimizer, lr_scheduler=None)
    train(model, optimizer, batch, 2)
    callback.on_train_end(args, None, None, model=model)
    assert len((tmp_path / "gradbias.csv").read_text().splitlines()) == 3


def test_wrong_arguments_are_named():
    model, batch = case()
    optimizer = optimizer_of("sgd", model)
    with pytest.raises(ValueError, match="every must be a whole number of at least 1"):
        Monitor(model, optimizer, squared, batch, every=0)
    with pytest.raises(ValueError, match="budget must be greater than 0"):
        Monitor(model, optimizer, squared, batch, budget=0)
    with pytest.raises(ValueError, match="extras must be one of 'equilibrium'"):
        Monitor(model, optimizer, squared, batch, extras=("rank",))
    with pytest.raises(ValueError, match="optimizer must be a torch.optim.Optimizer, got list"):
        Monitor(model, [], squared, batch)
    with pytest.raises(ValueError, match="model must be a torch.nn.Module, got int"):
        Monitor(3, optimizer, squared, batch)
    with pytest.raises(ValueError, match="must call the model"):
        Monitor(model, optimizer, lambda m, b: m[0].weight.square().sum(), batch)
    with pytest.raises(ValueError, match="SGD for an exact law.*got AdamW"):
        ChargeLaw(model, optimizer_of("adamw", model), [])


def test_jax_is_never_imported():
    code = """
import sys, torch, gradbias.torch as gbt
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
loss_fn = lambda m, b: m(b).square().mean()
monitor = gbt.Monitor(model, torch.optim.SGD(model.parameters(), lr=.1), loss_fn, torch.randn(8, 2),
                      extras=("equilibrium", "trace", "budget"))
monitor.measure()
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
