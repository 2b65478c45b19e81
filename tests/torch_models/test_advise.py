"""Advice on a run: no theorem is said to hold where it does not, by oracles of their own."""

import copy
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import gradbias  # noqa: E402
import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)
L = nn.Linear
SAID = ("applies", "approximately")
ALWAYS = {"own step", "noise", "dead units", "balance"}
SGD = ALWAYS | {"learning rate", "conservation", "noise balance"}


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(1).mean()


def penalised(model, batch):
    return squared(model, batch) + 0.1 * sum(p.square().sum() for p in model.parameters())


def net(*middle, scale=1.0):
    middle = middle or (nn.ReLU(),)
    model = nn.Sequential(L(6, 10), *middle, L(10, 3)).double()
    with torch.no_grad():
        model[0].weight *= scale
        model[-1].weight /= scale
    return model


def sgd(model, lr=0.02, **options):
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr, **options)


class Signs(torch.optim.SGD):
    """An optimiser that calls itself SGD."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["lr"] * p.grad.sign()


class Attention(nn.Module):
    """Its dropout is a number, not a module."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, dropout=0.3, batch_first=True)
        self.out = L(6, 3)

    def forward(self, x):
        y = torch.stack([x, x.roll(1, 1), x.roll(2, 1)], 1)
        return self.out(self.attention(y, y, y, need_weights=False)[0].mean(1))


class OfItsOwn(torch.optim.Optimizer):
    """Without a learning rate."""

    def __init__(self, params):
        super().__init__(params, {"scale": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["scale"] * p.grad


def frozen():
    model = net()
    model[0].requires_grad_(False)
    return model, sgd(model)


def last_alone():
    model = net()
    return model, torch.optim.SGD(model[-1].parameters(), 0.02)


def two_rates(**options):
    model = net()
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), **options}]
    return model, torch.optim.SGD(groups, lr=0.02, weight_decay=0.01)


def tied():
    model = nn.Sequential(L(6, 6, bias=False), nn.ReLU(), L(6, 6, bias=False), L(6, 3)).double()
    model[2].weight = model[0].weight
    return model, sgd(model)


def killed(units):
    model = net()
    with torch.no_grad():
        model[0].bias[:units] = -1e3
    return model, sgd(model)


def given(make, optimizer=sgd, **options):
    def build():
        model = make()
        return model, optimizer(model, **options)

    return build


def adam(model, kind="Adam", lr=1e-3, **options):
    return getattr(torch.optim, kind)(model.parameters(), lr=lr, **options)


def evaluated():
    return net(nn.BatchNorm1d(10).double(), nn.ReLU()).eval()


def normalised():
    return nn.Sequential(L(6, 10, bias=False), nn.LayerNorm(10, eps=0.0), L(10, 3)).double()


def weight_normed():
    model = net()
    nn.utils.parametrizations.weight_norm(model[0])
    return model


def zero_start():
    model = net()
    nn.init.zeros_(model[2].weight)
    return model


# What may be said to apply, at most; (model and optimiser, topics, loss).
CASES = {
    "sgd": (given(net), SGD, squared),
    "mis-scaled": (given(lambda: net(scale=4.0)), SGD, squared),
    "leaky": (given(lambda: net(nn.LeakyReLU(0.1))), SGD, squared),
    "deep": (given(lambda: net(nn.ReLU(), L(10, 10), nn.ReLU())), SGD, squared),
    "two linear maps": (given(lambda: net(nn.Identity())), SGD, squared),
    "momentum": (given(net, momentum=0.9), SGD, squared),
    "nesterov": (given(net, momentum=0.9, nesterov=True), SGD, squared),
    "decay": (given(net, weight_decay=0.01), SGD | {"decay"}, squared),
    "decay and momentum": (
        given(net, momentum=0.9, weight_decay=0.01),
        SGD | {"decay"},
        squared,
    ),
    "decay and nesterov": (
        given(net, momentum=0.8, nesterov=True, weight_decay=0.01),
        SGD | {"decay"},
        squared,
    ),
    "dampening": (given(net, momentum=0.9, dampening=0.5), ALWAYS, squared),
    "maximize": (given(net, maximize=True), ALWAYS - {"own step"}, squared),
    "adam": (given(net, adam), ALWAYS, squared),
    "adam with L2": (given(net, adam, weight_decay=0.1), ALWAYS, squared),
    "adamw": (given(net, adam, kind="AdamW", lr=0.01), ALWAYS | {"decay"}, squared),
    "rmsprop": (given(net, adam, kind="RMSprop"), ALWAYS, squared),
    "nadam": (given(net, adam, kind="NAdam"), ALWAYS, squared),
    "adagrad": (given(net, adam, kind="Adagrad"), ALWAYS, squared),
    "signs by another name": (
        given(net, lambda m: Signs(m.parameters(), 1e-3)),
        ALWAYS,
        squared,
    ),
    "no learning rate": (
        given(net, lambda m: OfItsOwn(m.parameters())),
        ALWAYS - {"own step"},
        squared,
    ),
    "lr of 0": (given(net, lr=0.0), SGD - {"own step"}, squared),
    "lbfgs": (
        given(net, lambda m: torch.optim.LBFGS(m.parameters())),
        {"balance", "noise"},
        squared,
    ),
    "frozen first layer": (frozen, ALWAYS | {"learning rate"}, squared),
    "optimiser of one layer": (last_alone, ALWAYS, squared),
    "two learning rates": (lambda: two_rates(lr=0.1), ALWAYS, squared),
    "decay on one side": (lambda: two_rates(weight_decay=0.0), ALWAYS, squared),
    "tied": (tied, SGD, squared),
    "tanh": (given(lambda: net(nn.Tanh())), {"own step", "noise", "learning rate"}, squared),
    "gelu": (given(lambda: net(nn.GELU())), {"own step", "noise", "learning rate"}, squared),
    "penalty in the loss": (given(net), {"own step", "noise", "learning rate"}, penalised),
    "weight norm": (given(weight_normed), {*SGD, "scale invariance"}, squared),
    "batch norm in training": (
        given(lambda: net(nn.BatchNorm1d(10).double(), nn.ReLU())),
        {*SGD, "scale invariance"},
        squared,
    ),
    "batch norm in evaluation": (given(evaluated), SGD, squared),
    "layer norm": (given(normalised), {*SGD, "scale invariance"}, squared),
    "layer norm under adam": (given(normalised, adam), {*ALWAYS, "scale invariance"}, squared),
    "dropout": (given(lambda: net(nn.ReLU(), nn.Dropout(0.3))), SGD, squared),
    "dropout without a module": (given(lambda: Attention().double()), SGD, squared),
    "all units dead": (lambda: killed(10), SGD - {"noise balance", "balance"}, squared),
    "some dead": (lambda: killed(3), SGD, squared),
    "zero last layer": (given(zero_start), SGD, squared),
    "far beyond the limit": (given(net, lr=5.0), SGD, squared),
}


def data(key):
    draw = torch.Generator().manual_seed(key)
    x = torch.randn(64, 6, generator=draw).double()
    return x, torch.randn(64, 3, generator=draw).double()


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_said_that_does_not_hold(name):
    build, allowed, loss = CASES[name]
    key = list(CASES).index(name)
    torch.manual_seed(key)
    model, optimizer = build()
    batch = data(key)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    seen = gbt.advise(model, optimizer, loss, batch)
    assert str(before) == str((model.state_dict(), optimizer.state_dict()))
    assert len(seen) <= 12 and all(row.theorem and row.statement for row in seen)
    said = {row.topic for row in seen if row.verdict in SAID}
    assert said <= allowed
    sure = {row.topic for row in seen if row.verdict == "applies"}
    if other_loss_in_training(model, loss, batch):
        assert not sure & {"own step", "learning rate", "noise"}
    for topic in said & set(ORACLES):
        ORACLES[topic](model, optimizer, loss, batch, seen[topic])


def other_loss_in_training(model, loss, batch):
    losses = []
    for mode in (model.training, False):
        twin = copy.deepcopy(model).train(mode)
        with torch.no_grad(), torch.random.fork_rng():
            losses.append(float(loss(twin, batch)))
    return abs(losses[0] - losses[1]) > 1e-4


def hand_charges(model):
    """in² − out² of neurons between two Linear layers, from the weights themselves."""
    layers = [m for m in model if isinstance(m, L)]
    found = []
    for a, b in itertools.pairwise(layers):
        into = a.weight.detach().square().sum(1)
        if a.bias is not None:
            into = into + a.bias.detach().square()
        found.append((into - b.weight.detach().square().sum(0)).numpy())
    return np.concatenate(found)


def drift(model, optimizer, loss, batch, times):
    """How far charges move in a fixed time lr·steps, with steps `times` smaller."""
    twin, inner = copy.deepcopy((model, optimizer))
    twin.eval()
    for group in inner.param_groups:
        group["lr"] /= times
        group["weight_decay"] = 0.0
    start = hand_charges(twin)
    for _ in range(20 * times):
        inner.zero_grad()
        loss(twin, batch).backward()
        inner.step()
    return np.abs(hand_charges(twin) - start).max()


def kept(model, optimizer, loss, batch, row):
    """What is kept by gradient flow moves less, the smaller the steps."""
    usual = all(isinstance(m, L | nn.ReLU | nn.LeakyReLU | nn.Dropout) for m in model.children())
    if usual and optimizer.param_groups[0]["lr"] < 1:
        coarse, fine = (drift(model, optimizer, loss, batch, times) for times in (2, 8))
        assert fine < 0.5 * coarse + 1e-12


def decays(model, optimizer, loss, batch, row):
    """With no gradient but decay, charges halve in the time that is said."""
    twin, inner = copy.deepcopy((model, optimizer))
    start = hand_charges(twin)
    for _ in range(round(row.evidence["steps to half"])):
        for p in twin.parameters():
            p.grad = torch.zeros_like(p)
        inner.step()
    np.testing.assert_allclose(hand_charges(twin), start / 2, rtol=0.005)
    assert not np.allclose(hand_charges(twin), 1.03 * start / 2, rtol=0.005)


def limit_is_true(model, optimizer, loss, batch, row):
    """The iteration on the sharpest direction, as a matrix: it grows exactly beyond the limit."""
    params = [p for p in model.parameters() if p.requires_grad]
    model = copy.deepcopy(model).eval()
    params = [p for p in model.parameters() if p.requires_grad]
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):  # differentiable twice
        slopes = torch.autograd.grad(loss(model, batch), params, create_graph=True)
    flat = torch.cat([g.reshape(-1) for g in slopes])
    rows = [torch.autograd.grad(g, params, retain_graph=True, allow_unused=True) for g in flat]
    full = [
        torch.cat(
            [
                (torch.zeros_like(p) if h is None else h).reshape(-1)
                for h, p in zip(r, params, strict=True)
            ]
        )
        for r in rows
    ]
    top = float(np.linalg.eigvalsh(torch.stack(full).numpy())[-1])
    group = optimizer.param_groups[0]
    for factor in (0.97, 1.03):
        lr, beta = factor * row.evidence["limit"], group["momentum"]
        h = top + group["weight_decay"]
        # (θ, b) after b' = βb + hθ and θ' = θ − lr·b', or θ − lr(hθ + βb') with Nesterov
        if group["nesterov"]:
            step = [[1 - lr * h * (1 + beta), -lr * beta**2], [h, beta]]
        else:
            step = [[1 - lr * h, -lr * beta], [h, beta]]
        radius = np.abs(np.linalg.eigvals(np.array(step))).max()
        assert (radius > 1) == (factor > 1)


def nothing_without_them(model, optimizer, loss, batch, row):
    if sum(isinstance(m, L) for m in model) > 2:
        return
    twin = copy.deepcopy(model).eval()
    with torch.no_grad():
        silent = (twin[0](batch[0]) <= 0).all(0)
        assert int(silent.sum()) == int(row.statement.split()[0])
        before = loss(twin, batch)
        twin[-1].weight[:, silent] = 0
        assert float((loss(twin, batch) - before).abs()) < 1e-12


def size_means_nothing(model, optimizer, loss, batch, row):
    twin = copy.deepcopy(model)
    with torch.no_grad():
        before = float(loss(twin, batch))
        into = twin[0]
        weight = into.parametrizations.weight.original1 if hasattr(into, "parametrizations") else 0
        if torch.is_tensor(weight):
            weight.mul_(1.3)
        else:
            into.weight.mul_(1.3)
            if into.bias is not None:
                into.bias.mul_(1.3)
        assert abs(float(loss(twin, batch)) - before) < 1e-3 * before


def less_sharp(model, optimizer, loss, batch, row):
    twin = copy.deepcopy(model).eval()
    before = gbt.sharpness(twin, loss, batch).value
    gbt.balance(twin, batch[0][:4])
    assert gbt.sharpness(twin, loss, batch).value < 0.95 * before


def back_where_it_was(model, optimizer, loss, batch, row):
    """One real step at the largest learning rate leaves the loss as it is."""
    twin, inner = copy.deepcopy((model, optimizer))
    twin.eval()
    scale = row.evidence["largest lr"] / row.evidence["lr"]
    start = copy.deepcopy(twin)
    slope = loss(twin, batch)
    slope.backward()
    before = float(slope.detach())
    inner.step()
    with torch.no_grad():
        for p, q in zip(twin.parameters(), start.parameters(), strict=True):
            p.copy_(q + scale * (p - q))
        after = float(loss(twin, batch))
        for p, q in zip(twin.parameters(), start.parameters(), strict=True):
            p.copy_(q + 0.5 * (p - q))
        half = float(loss(twin, batch))
    assert abs(after - before) < 0.05 * (before - half)


ORACLES = {
    "conservation": kept,
    "decay": decays,
    "learning rate": limit_is_true,
    "dead units": nothing_without_them,
    "scale invariance": size_means_nothing,
    "balance": less_sharp,
    "own step": back_where_it_was,
}


def test_what_is_true_is_said():
    torch.manual_seed(0)
    model = net(scale=4.0)
    batch = data(0)
    seen = gbt.advise(model, sgd(model, weight_decay=0.01), squared, batch)
    balance = seen["balance"]
    assert balance.verdict == "applies"
    assert balance.evidence["after"] < balance.evidence["sharpness before"]
    assert balance.evidence["lr after"] > balance.evidence["largest stable lr before"]
    assert seen["conservation"].verdict == "approximately"
    assert seen["conservation"].evidence["first-order share"] < 1e-6
    assert seen["decay"].verdict == seen["learning rate"].verdict == "applies"
    adamw = gbt.advise(model, adam(model), squared, batch)
    assert adamw["not conserved"].evidence["first-order share"] > 0.5
    assert "law of Adam" in adamw["learning rate"].statement
    with pytest.raises(KeyError, match="no row about 'conservation': balance"):
        adamw["conservation"]


def test_noise_by_layer_against_per_sample_gradients():
    """Labels without a pattern at the least squares solution: there is no gradient but noise."""
    torch.manual_seed(0)
    x, y = data(3)
    model = nn.Sequential(L(6, 3, bias=False)).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.linalg.lstsq(x, y).solution.T)
    loader = DataLoader(TensorDataset(x, y), batch_size=64)
    seen = gbt.advise(model, sgd(model), squared, loader)
    row = seen["noise"]
    assert row.verdict == "applies" and row.statement.startswith("in 1 of 1 layers (0)")
    each = 2 * (x @ model[0].weight.detach().T - y)[:, :, None] * x[:, None, :]
    trace = float((each - each.mean(0)).square().sum() / 63)
    assert row.evidence["Tr Σ/S"] * 64 == pytest.approx(trace, rel=0.35)  # 15 degrees of freedom
    far = nn.Sequential(L(6, 3, bias=False)).double()
    with torch.no_grad():
        far[0].weight.copy_(model[0].weight + 5)
    clear = gbt.advise(far, sgd(far), squared, (x, y), batch_size=64)
    assert clear["noise"].verdict == "does not apply"


def test_it_is_shown():
    torch.manual_seed(0)
    model = net()
    seen = gbt.advise(model, sgd(model), squared, data(0))
    assert max(map(len, repr(seen).splitlines())) <= 80
    assert seen._repr_html_().startswith("<table>") and "equilibrium.eq98" in seen._repr_html_()


def test_theorems_have_names_of_the_catalogue():
    package = Path(gradbias.__file__).parent
    catalogue = "".join(p.read_text() for p in (package / "theorems").rglob("*.py"))
    rows = "".join(p.read_text() for p in (package / "torch" / "_inspect").glob("rows_*.py"))
    named = set(re.findall(r'"((?:equilibrium|optimiser)\.\w+)"', rows))
    assert len(named) >= 6
    assert [name for name in named if f'"{name}"' not in catalogue] == []
