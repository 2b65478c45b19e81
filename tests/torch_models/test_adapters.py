"""The monitor in the libraries that people train with: the real ones, where they are installed."""

import csv
import json
import math
import types

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)
# Other people's libraries warn of their own affairs.
theirs = pytest.mark.filterwarnings("ignore")
STEPS = 12


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(1).mean()


def case():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    return model, (torch.randn(48, 4), torch.randn(48, 2))


def trained(log, steps=STEPS, **options):
    model, batch = case()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    monitor = gbt.Monitor(model, optimizer, squared, batch, 4, 1e9, log=log, **options)
    train(model, optimizer, batch, steps)
    monitor.close()
    return monitor


def train(model, optimizer, batch, steps):
    for step in range(steps):
        part = slice(4 * step % 48, 4 * step % 48 + 4)
        optimizer.zero_grad()
        squared(model, (batch[0][part], batch[1][part])).backward()
        optimizer.step()


def values(monitor, name):
    return {step: row[name] for step, row in monitor.history}


def test_files_have_what_the_history_has(tmp_path):
    monitor = trained(gbt.JsonlLog(tmp_path / "run.jsonl"))
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert {row["step"]: row["gradbias/sharpness"] for row in lines} == values(monitor, "sharpness")
    assert [math.isnan(v) for v in values(monitor, "drift_explained").values()] == [True] * 3
    assert not any("gradbias/drift_explained" in row for row in lines)  # JSON has no NaN
    trained(gbt.JsonlLog(tmp_path / "run.jsonl"))
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 6

    monitor = trained(tmp_path / "run.csv")
    with (tmp_path / "run.csv").open() as file:
        rows = list(csv.DictReader(file))
    read = {int(row["step"]): float(row["gradbias/loss"]) for row in rows}
    assert read == values(monitor, "loss") and list(read) == [4, 8, 12]


def test_trackers_get_what_was_measured():
    """With stand-ins: the names and steps, and nothing that is NaN."""
    seen = []
    writer = types.SimpleNamespace(add_scalar=lambda *row: seen.append(row))
    monitor = trained(gbt.tensorboard_log(writer))
    loss = {step: value for name, value, step in seen if name == "gradbias/loss"}
    assert loss == values(monitor, "loss")
    assert not any(math.isnan(value) for _, value, _ in seen)

    seen, axes = [], {}
    run = types.SimpleNamespace(
        log=seen.append,
        define_metric=lambda name, *, step_metric: axes.update({name: step_metric}),
    )
    monitor = trained(gbt.wandb_log(run))
    assert {r["gradbias/step"]: r["gradbias/loss"] for r in seen} == values(monitor, "loss")
    assert axes["gradbias/*"] == "gradbias/step"

    seen = []
    accelerator = types.SimpleNamespace(log=lambda row, step: seen.append((step, row)))
    monitor = trained(gbt.accelerate_log(accelerator))
    assert {step: row["gradbias/loss"] for step, row in seen} == values(monitor, "loss")


@theirs
def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "mine")) as writer:
        monitor = trained(gbt.tensorboard_log(writer))
    trained(gbt.tensorboard_log(tmp_path / "folder"), steps=4)
    assert list((tmp_path / "folder").glob("events.*"))
    events = EventAccumulator(str(tmp_path / "mine"))
    events.Reload()
    read = {e.step: e.value for e in events.Scalars("gradbias/sharpness")}
    assert read == pytest.approx(values(monitor, "sharpness"), rel=1e-6)


@theirs
def test_wandb_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="Weights & Biases is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    with pytest.raises(ValueError, match="call wandb.init first"):
        gbt.wandb_log()
    run = wandb.init(project="test", dir=str(tmp_path))
    for _ in range(40):
        run.log({"loss of the loop": 1.0})  # the run's own step is ahead of ours
    monitor = trained(gbt.wandb_log())
    last = run.summary["gradbias/sharpness"]
    assert last == pytest.approx(values(monitor, "sharpness")[12], rel=1e-12)
    assert run.summary["gradbias/step"] == 12
    run.finish()
    assert list(tmp_path.rglob("*.wandb"))


@theirs
def test_mlflow_in_a_folder(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        monitor = trained(gbt.mlflow_log())
    named = trained(gbt.mlflow_log(run.info.run_id), steps=4)
    found = mlflow.MlflowClient().get_metric_history(run.info.run_id, "gradbias/sharpness")
    read = [(m.step, m.value) for m in found]
    assert sorted(read) == sorted(
        [*values(monitor, "sharpness").items(), *values(named, "sharpness").items()]
    )
    assert mlflow.active_run() is None


@theirs
def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate", reason="accelerate is not installed")
    from accelerate.tracking import GeneralTracker

    class Rows(GeneralTracker):
        name = "rows"
        requires_logging_directory = False
        tracker = None

        def __init__(self):
            super().__init__()
            self.rows = []

        def store_init_configuration(self, values):
            pass

        def log(self, values, step=None, **_):
            self.rows.append((step, values))

    tracker = Rows()
    accelerator = accelerate.Accelerator(log_with=tracker, cpu=True)
    accelerator.init_trackers("test")
    model, batch = case()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    model, optimizer = accelerator.prepare(model, optimizer)
    log = gbt.accelerate_log(accelerator)
    monitor = gbt.Monitor(model, optimizer, squared, batch, 4, 1e9, log=log)
    train(model, optimizer, batch, STEPS)
    monitor.close()
    assert {s: row["gradbias/loss"] for s, row in tracker.rows} == values(monitor, "loss")
    assert [s for s, _ in tracker.rows] == [4, 8, 12]
    assert values(monitor, "loss") == values(trained(None), "loss")  # as without accelerate


@theirs
def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    from lightning.pytorch.loggers import CSVLogger

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = case()[0]

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, _):
            return squared(self, batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.02)

    _, batch = case()
    loader = DataLoader(TensorDataset(*batch), batch_size=4)

    def fit(callback, epochs, folder, **options):
        trainer = lightning.Trainer(
            max_epochs=epochs,
            **{"accelerator": "cpu", "callbacks": [callback], "default_root_dir": folder},
            **{"logger": CSVLogger(folder), "enable_progress_bar": False},
            **{"enable_model_summary": False, "log_every_n_steps": 1},
        )
        trainer.fit(Module(), loader, **options)
        return trainer

    def callback():
        return gbt.lightning_callback(squared, batch, every=4, budget=1e9, exact=True)

    whole = callback()
    trainer = fit(whole, 2, tmp_path / "whole")
    assert values(whole.monitor, "loss").keys() == {4, 8, 12, 16, 20, 24}
    by_hand = trained(None)
    for step, loss in values(by_hand, "loss").items():
        assert values(whole.monitor, "loss")[step] == pytest.approx(loss, rel=1e-5)
    with open(f"{trainer.logger.log_dir}/metrics.csv") as file:
        rows = [row for row in csv.DictReader(file) if row.get("gradbias/sharpness")]
    assert float(rows[0]["gradbias/sharpness"]) == values(whole.monitor, "sharpness")[4]

    first = fit(callback(), 1, tmp_path / "parts")
    first.save_checkpoint(tmp_path / "run.ckpt")
    second = callback()
    fit(second, 2, tmp_path / "parts", ckpt_path=tmp_path / "run.ckpt")
    for name in ("loss", "imbalance_max", "first_order_share"):
        taken_up = values(second.monitor, name)
        assert taken_up == pytest.approx(values(whole.monitor, name), rel=1e-6, nan_ok=True)


@theirs
def test_transformers_trainer(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = case()[0]

        def forward(self, x, labels):
            loss = (self.net(x) - labels).square().sum(1).mean()
            return transformers.utils.ModelOutput(loss=loss)

    _, (x, y) = case()
    args = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        **{"max_steps": STEPS, "report_to": "none", "use_cpu": True, "save_strategy": "no"},
        **{"disable_tqdm": True, "optim": "sgd", "learning_rate": 0.02},
    )
    callback = gbt.trainer_callback({"x": x, "labels": y}, every=4, budget=1e9, batch_size=4)
    data = [{"x": a, "labels": b} for a, b in zip(x, y, strict=True)]
    trainer = transformers.Trainer(
        model=Model(), args=args, train_dataset=data, callbacks=[callback]
    )
    trainer.train()
    with (tmp_path / "gradbias.csv").open() as file:
        read = {int(row["step"]): float(row["gradbias/loss"]) for row in csv.DictReader(file)}
    assert read == values(callback.monitor, "loss") and list(read) == [4, 8, 12]
    assert read[12] < read[4] and callback.monitor.families
