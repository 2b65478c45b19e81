"""The budget of weight decay against dense arithmetic, closed forms and white noise."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gradbias.torch as gbt  # noqa: E402
from gradbias.torch._measure.spectral_norm import spectral_norm  # noqa: E402

torch.set_num_threads(1)
LR = 0.01
DECAY = 0.1


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(1).mean()


def case(dtype=torch.float64, linear=False):
    torch.manual_seed(3)
    middle = nn.Identity() if linear else nn.Tanh()
    layers = (nn.Linear(6, 9), middle, nn.Linear(9, 9, bias=False), nn.Tanh(), nn.Linear(9, 2))
    return nn.Sequential(*layers).to(dtype), (
        torch.randn(64, 6, dtype=dtype),
        torch.randn(64, 2, dtype=dtype),
    )


def train(model, optimizer, batch, steps, key=1):
    """Batches of eight; parameters before the last step."""
    draw = torch.Generator().manual_seed(key)
    before = {}
    for _ in range(steps):
        chosen = torch.randint(0, len(batch[0]), (8,), generator=draw)
        optimizer.zero_grad()
        squared(model, (batch[0][chosen], batch[1][chosen])).backward()
        before = {n: p.detach().clone() for n, p in model.named_parameters()}
        optimizer.step()
    return before


def numbers(model):
    return {n: p.detach().double().numpy() for n, p in model.named_parameters()}


def angle(a, b):
    """By the cosine of halved differences, which is not how the code has it."""
    a, b = a.ravel() / np.linalg.norm(a), b.ravel() / np.linalg.norm(b)
    return 2 * math.asin(np.linalg.norm(a - b) / 2)


@pytest.mark.parametrize("name", ["adamw", "adamw maximised", "adam", "amsgrad"])
def test_adam_against_dense_arithmetic(name):
    model, batch = case()
    kind = torch.optim.AdamW if "w" in name else torch.optim.Adam
    options = {"maximize": "max" in name, "amsgrad": name == "amsgrad"}
    optimizer = kind(model.parameters(), LR, weight_decay=DECAY, betas=(0.8, 0.95), **options)
    before = train(model, optimizer, batch, 30)
    found = gbt.budget(model, optimizer, before)
    alone = gbt.budget(model, optimizer)
    shrink = 1 - LR * DECAY if "w" in name else 1.0
    for key, p in model.named_parameters():
        w, old, g = (v.detach().numpy() for v in (p, before[key], p.grad))
        row = found[key]
        assert (row.lr, row.weight_decay, row.steps) == (LR, DECAY, 30)
        assert row.rms == pytest.approx(math.sqrt(np.mean(w**2)), rel=1e-12)
        assert row.largest == pytest.approx(np.abs(w).max(), rel=1e-12)
        u = (shrink * old - w) / LR
        for one in (row, alone[key]):
            assert one.update_rms == pytest.approx(math.sqrt(np.mean(u**2)), rel=1e-6)
            assert one.angle == pytest.approx(angle(old, w), rel=1e-6)
        if "w" not in name:
            assert math.isnan(row.max_use) and row.place == "no ball"
            assert math.isnan(row.noise_angle) and math.isnan(row.signal)
            assert math.isnan(row.noise_update) == (name == "amsgrad")
            continue
        sign = -1 if "max" in name else 1
        assert row.max_use == pytest.approx(DECAY * np.abs(w).max(), rel=1e-12)
        assert row.rms_use == pytest.approx(DECAY * math.sqrt(np.mean(w**2)), rel=1e-12)
        assert row.floor == pytest.approx(math.sqrt(LR * DECAY / 2), rel=1e-12)
        gap = (np.abs(g).sum() + sign * DECAY * np.sum(old * g)) / np.abs(g).sum()
        assert row.gap == pytest.approx(gap, rel=1e-9)
        f = (1 - 0.8) / (1 + 0.8)
        assert row.noise_update == pytest.approx(math.sqrt(f), rel=1e-12)
        assert row.signal == pytest.approx((np.mean(u**2) - f) / (1 - f), rel=1e-6)


@pytest.mark.parametrize("adjust", [None, "match_rms_adamw"])
def test_muon_against_a_decomposition(adjust):
    model, batch = case()
    matrices = [p for p in model.parameters() if p.ndim == 2]
    optimizer = torch.optim.Muon(matrices, LR, weight_decay=DECAY, adjust_lr_fn=adjust)
    before = train(model, optimizer, batch, 5)
    found = gbt.budget(model, optimizer, before)
    assert [row.name for row in found.tensors] == ["0.weight", "2.weight", "4.weight"]
    for row in found.tensors:
        w = numbers(model)[row.name]
        rows, columns = w.shape
        c = 0.2 * max(rows, columns) ** 0.5 if adjust else max(1, rows / columns) ** 0.5
        largest = np.linalg.svd(w, compute_uv=False)[0]
        assert row.spectral_use == pytest.approx(DECAY * largest / c, rel=1e-6)
        step = ((1 - LR * DECAY) * before[row.name].numpy() - w) / LR
        assert row.update_rms == pytest.approx(math.sqrt(np.mean(step**2)), rel=1e-9)
        # c is what the step is in the spectral norm, up to torch's iteration.
        assert 0.6 * c < np.linalg.svd(step, compute_uv=False)[0] < 1.3 * c
        assert math.isnan(row.max_use) and math.isnan(row.gap) and math.isnan(row.floor)


@pytest.mark.parametrize("shape", [(40, 40), (3, 50), (64, 5, 3), (1, 7), (300, 200)])
def test_spectral_norm(shape):
    torch.manual_seed(0)
    weight = 1e-30 * torch.randn(shape, dtype=torch.float64)
    wanted = np.linalg.svd(weight.flatten(1).numpy(), compute_uv=False)[0]
    value, vector = spectral_norm(weight)
    assert value == pytest.approx(wanted, rel=1e-6)
    assert spectral_norm(weight, vector)[0] == pytest.approx(wanted, rel=1e-6)
    assert spectral_norm(0 * weight)[0] == 0
    assert math.isnan(spectral_norm(weight * math.nan)[0])


@pytest.mark.parametrize("nesterov", [False, True])
def test_rotations_of_a_hidden_space(nesterov):
    """Heavy ball from rest makes none; Nesterov and Adam do."""
    model, batch = case(linear=True)
    families = tuple(f for f in gbt.symmetries(model, batch[0]) if f.kind == "pair")
    assert families
    settings = {"lr": LR, "momentum": 0.9, "weight_decay": DECAY, "nesterov": nesterov}
    optimizer = torch.optim.SGD(model.parameters(), **settings)
    with gbt.Monitor(model, optimizer, squared, batch, every=5, extras=["budget"]) as monitor:
        before = train(model, optimizer, batch, 20)
    assert monitor.weight_budget is not None
    share = monitor.weight_budget.angular_momentum[families[0].name]
    assert share > 1e-4 if nesterov else share < 1e-12
    row = monitor.weight_budget["0.weight"]
    turned = angle(before[row.name].numpy(), numbers(model)[row.name])
    wanted = math.nan if nesterov else math.sqrt(2 * LR * DECAY / 1.9)
    assert row.noise_angle == pytest.approx(wanted, nan_ok=True)
    assert row.angle == pytest.approx(turned, rel=1e-6)


def test_white_noise_is_on_the_floor_and_a_signal_is_not():
    """Gradients from a generator: rms of w and u, and the angle, are those of the closed forms."""
    torch.manual_seed(1)
    model = nn.ParameterDict({n: nn.Parameter(torch.zeros(20_000)) for n in ("noise", "signal")})
    optimizer = torch.optim.AdamW(model.parameters(), LR, (0.9, 0.999), 1e-12, weight_decay=DECAY)
    for _ in range(4000):
        model["noise"].grad = torch.randn(20_000)
        model["signal"].grad = torch.randn(20_000) + 1.0
        optimizer.step()
    found = gbt.budget(model, optimizer)
    noise = found["noise"]
    assert noise.place == "noise floor"
    assert noise.rms_use == pytest.approx(noise.floor, rel=0.02)
    assert noise.update_rms == pytest.approx(0.2294, rel=0.02)
    assert noise.angle == pytest.approx(noise.noise_angle, rel=0.02)
    assert abs(noise.signal) < 0.01 and noise.gap == pytest.approx(1, abs=0.01)
    signal = found["signal"]
    assert signal.signal == pytest.approx(0.5, abs=0.01)
    assert signal.rms_use > 20 * signal.floor
    words = str(found)
    assert "this layer sits on its noise floor: decay, not the loss" in " ".join(words.split())
    assert max(map(len, words.splitlines())) <= 80


def test_the_box_holds_what_pulls_without_end():
    model = nn.ParameterDict({"w": nn.Parameter(torch.zeros(50, dtype=torch.float64))})
    optimizer = torch.optim.AdamW(model.parameters(), LR, weight_decay=1.0)
    for k in range(1500):
        model["w"].grad = torch.ones(50, dtype=torch.float64)
        optimizer.step()
        if k == 50:
            assert gbt.budget(model, optimizer)["w"].place == "too early"
    row = gbt.budget(model, optimizer)["w"]
    assert row.place == "box" and row.at_box == 1 and row.signal == pytest.approx(1)
    assert row.max_use == pytest.approx(1 - (1 - LR) ** 1500, rel=1e-6)
    assert row.gap < 1e-5


def test_what_is_not_known_is_named():
    model, _ = case()

    class Own(torch.optim.AdamW):
        """Might do anything."""

    for kind, name in ((Own, "Own"), (torch.optim.RMSprop, "torch.optim.rmsprop.RMSprop")):
        optimizer = kind(model.parameters())
        found = gbt.budget(model, optimizer)
        assert not found.tensors and name in found.not_known[0]
        assert "it is not known what a step is: nothing is said of 5 tensors" in str(found).replace(
            "\n  ", " "
        )
    some = torch.optim.AdamW([model[0].weight], LR)
    found = gbt.budget(model, some)
    assert [row.name for row in found.tensors] == ["0.weight"] and not found.not_known
    with pytest.raises(KeyError, match=r"no tensor 'bias'; there are \['0.weight'\]"):
        found["bias"]
    with pytest.raises(ValueError, match="optimizer must be a torch.optim.Optimizer, got int"):
        gbt.budget(model, 3)


def test_the_monitor_logs_it_and_changes_no_bit(tmp_path):
    ends = []
    for watched in (False, True):
        model, batch = case(torch.float32)
        groups = [
            {"params": [model[0].weight], "weight_decay": 0.0},
            {"params": list(model.parameters())[1:]},
        ]
        optimizer = torch.optim.AdamW(groups, LR, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.5)
        options = {"every": 7, "budget": 1e9, "extras": ["budget"], "arrays": tmp_path}
        monitor = gbt.Monitor(model, optimizer, squared, batch, **options) if watched else None
        for k in range(60):
            before = train(model, optimizer, batch, 1, key=k)
            schedule.step()
            if monitor is not None and (k + 1) % 7 == 0:
                rows = gbt.budget(model, optimizer, before).scalars()
                told = monitor.history[-1][1]
                # the schedule has moved lr by now: what does not depend on it is the same
                for name in ("budget_max", "budget_median", "frank_wolfe_gap", "signal_share"):
                    assert told[name] == pytest.approx(rows[name], rel=1e-9), name
        ends.append([p.detach().clone() for p in model.parameters()])
        if monitor is not None:
            monitor.finish()
            assert monitor.weight_budget["0.weight"].place == "no ball"
            assert "of 5 tensors" in monitor.summary()
            assert "The budget of weight decay" in monitor.report(tmp_path / "x.html").read_text()
            monitor.close()
            saved = np.load(tmp_path / "step_00000056.npz")
            assert list(saved["budget/name"])[:2] == ["0.weight", "0.bias"]
            assert np.isnan(saved["budget/max_use"][0]) and saved["budget/max_use"][1] > 0
    assert all(torch.equal(a, b) for a, b in zip(*ends, strict=True))


def test_decay_of_muon_is_told_apart():
    """Its steps contain −lr·λ·w, which is no first order of the rest."""
    _, batch = case()
    layers = (nn.Linear(6, 5, bias=False), nn.ReLU(), nn.Linear(5, 2, bias=False))
    model = nn.Sequential(*layers).double()
    muon = torch.optim.Muon(model.parameters(), LR, weight_decay=DECAY)
    monitor = gbt.Monitor(model, muon, squared, batch, every=10**6, exact=True)
    (family,) = monitor.families
    before = train(model, muon, batch, 1)
    split = monitor._sums[family.name]
    wanted = -2 * LR * DECAY * family.form(before, before)
    np.testing.assert_allclose(split.decay.numpy(), wanted.numpy(), rtol=1e-12)
    monitor.close()
