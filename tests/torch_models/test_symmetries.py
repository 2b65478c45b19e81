"""Symmetries of torch models: none is false, none is missed, what is left out is named."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations  # noqa: E402

import gradbias  # noqa: E402
import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)
L = nn.Linear


@pytest.fixture(autouse=True)
def in_float64():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


class Net(nn.Module):
    """A forward function with its modules and parameters."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args):
        return self.function(self, *args)


def free(*shape):
    return nn.Parameter(torch.randn(*shape))


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def turned(x):
    """Rotary positions: planes (i, i + d/2), one frequency each."""
    half, time = x.shape[-1] // 2, torch.arange(x.shape[-2])[:, None]
    angle = time / 10.0 ** torch.arange(half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def attend(net, x, rotary=False, share=1):
    q, k, v = heads(net.q(x), 2), heads(net.k(x), 2 // share), heads(net.v(x), 2 // share)
    if rotary:
        q, k = turned(q), turned(k)
    k, v = k.repeat_interleave(share, 1), v.repeat_interleave(share, 1)
    scores = q @ k.transpose(-1, -2) / 2
    scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -torch.inf)
    return net.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def einsum_attend(net, x):
    q, k, v = (torch.einsum("btd,dhk->bthk", x, w) for w in (net.wq, net.wk, net.wv))
    scores = torch.einsum("bthk,bshk->bhts", q, k).softmax(-1)
    mixed = torch.einsum("bhts,bshk->bthk", scores, v)
    return torch.einsum("bthk,hkd->btd", mixed, net.wo)


def standard(x):
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True))


def rms(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) * gain


class Block(nn.Module):
    """A transformer block with a packed projection, gated units and both kinds of norms."""

    def __init__(self, d=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d, eps=0.0), nn.RMSNorm(d, eps=0.0)
        self.attention = nn.MultiheadAttention(d, 2, batch_first=True)
        self.gate, self.up, self.down = L(d, 5), L(d, 5), L(5, d)

    def forward(self, x):
        y = self.n1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Gpt(nn.Module):
    """Everything that writes to the stream is read through normalisations only."""

    def __init__(self, d=4):
        super().__init__()
        self.words, self.places = nn.Embedding(5, d), free(3, d)
        self.n1, self.nf = nn.LayerNorm(d, eps=0.0), nn.LayerNorm(d, eps=0.0)
        self.inner = nn.Sequential(L(d, 6), nn.ReLU(inplace=True), L(6, d))
        self.head = L(d, 5)

    def forward(self, x):
        x = self.words(x) + self.places
        return self.head(self.nf(x + self.inner(self.n1(x))))


def residual(net, x):
    x = F.relu(net.c0(x))
    x = F.relu(x + net.c2(F.relu(net.c1(x))))
    return net.f(x.mean((2, 3)))


def states(net, x):
    b, c = net.bc(x).chunk(2, -1)
    return net.o((b * c).sum(-1, keepdim=True) + net.d * x[..., :1])


def four(d=4, kv=4):
    return {"q": L(d, d), "k": L(d, kv), "v": L(d, kv), "o": L(d, d)}


# Model, input, and the units of its families in order.
CASES = {
    "relu": (
        lambda: nn.Sequential(L(3, 4), nn.ReLU(), L(4, 5), nn.LeakyReLU(0.1), L(5, 2)),
        (3,),
        [4, 5],
    ),
    "width 1": (lambda: nn.Sequential(L(1, 1), nn.ReLU(), L(1, 1)), (1,), [1]),
    "prelu": (lambda: nn.Sequential(L(3, 4), nn.PReLU(), L(4, 2)), (3,), [4]),
    "tanh": (lambda: nn.Sequential(L(3, 4), nn.Tanh(), L(4, 2)), (3,), []),
    "gelu": (lambda: nn.Sequential(L(3, 4), nn.GELU(), L(4, 2)), (3,), []),
    "no activation": (lambda: nn.Sequential(L(4, 3), L(3, 4)), (4,), [3]),
    "squared relu": (
        lambda: Net(lambda n, x: n.b(F.relu(n.a(x)) ** 2), a=L(3, 4), b=L(4, 2)),
        (3,),
        [4],
    ),
    "two gates": (
        lambda: Net(lambda n, x: n.d(F.relu(n.g(x)) * n.u(x)), g=L(3, 4), u=L(3, 4), d=L(4, 2)),
        (3,),
        [4, 4],
    ),
    "packed gate": (lambda: nn.Sequential(L(3, 8), nn.GLU(), L(4, 2)), (3,), [4]),
    "conv1d": (
        lambda: nn.Sequential(
            *(nn.Conv1d(2, 3, 2), nn.ReLU(), nn.Conv1d(3, 4, 2), nn.ReLU()),
            *(nn.AdaptiveMaxPool1d(2), nn.Flatten(), L(8, 2)),
        ),
        (2, 6),
        [3, 4],
    ),
    "conv2d": (
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 4, 2), nn.BatchNorm2d(4, eps=1e-30), nn.ReLU(inplace=True)),
            *(nn.MaxPool2d(2), nn.Conv2d(4, 4, 2, groups=2), nn.ReLU()),
            *(nn.ConvTranspose2d(4, 2, 2, groups=2), nn.ReLU(), nn.Flatten(), L(18, 2)),
        ),
        (1, 7, 7),
        [4, 4, 4, 2],
    ),
    "group norm": (
        lambda: nn.Sequential(
            *(nn.Conv1d(1, 4, 2), nn.GroupNorm(2, 4, eps=0.0), nn.ReLU(), nn.Flatten(), L(16, 2))
        ),
        (1, 5),
        [2, 4],
    ),
    "layer norm": (
        lambda: nn.Sequential(L(3, 4), nn.LayerNorm(4, eps=0.0), nn.ReLU(), L(4, 2)),
        (3,),
        [1, 4],
    ),
    "own rms norm": (
        lambda: Net(lambda n, x: n.b(rms(n.a(x), n.g)), a=L(3, 4), b=L(4, 2), g=free(4)),
        (3,),
        [1, 4],
    ),
    "own layer norm": (
        lambda: Net(lambda n, x: n.b(standard(n.a(x)).abs()), a=L(3, 4), b=L(4, 2)),
        (3,),
        [1],
    ),
    "residual": (
        lambda: Net(
            *(residual,),
            **{"c0": nn.Conv2d(1, 3, 2), "c1": nn.Conv2d(3, 2, 1)},
            **{"c2": nn.Conv2d(2, 3, 1), "f": L(3, 2)},
        ),
        (1, 4, 4),
        [3, 2],
    ),
    "layer scale": (
        lambda: Net(lambda n, x: x + n.g * n.b(F.relu(n.a(x))), a=L(3, 4), b=L(4, 3), g=free(3)),
        (3,),
        [4, 3],
    ),
    "plain products": (
        lambda: Net(
            lambda n, x: F.relu(x @ n.a + n.c) @ n.b, a=free(3, 4), b=free(4, 2), c=free(4)
        ),
        (3,),
        [4],
    ),
    "attention": (lambda: Net(attend, **four()), (3, 4), [4, 4]),
    "rotary": (lambda: Net(lambda n, x: attend(n, x, rotary=True), **four(8, 8)), (3, 8), [4, 8]),
    "shared keys": (lambda: Net(lambda n, x: attend(n, x, share=2), **four(4, 2)), (3, 4), [2, 2]),
    "einsum": (
        lambda: Net(
            einsum_attend, wq=free(4, 2, 2), wk=free(4, 2, 2), wv=free(4, 2, 2), wo=free(2, 2, 4)
        ),
        (3, 4),
        [4, 4],
    ),
    # B·C + D, B and C from one weight: three B against C, and one size of C and D.
    "states": (lambda: Net(states, bc=L(3, 6), d=free(1), o=L(1, 2)), (3,), [2, 2]),
    "block": (Block, (3, 4), [4, 4, 4, 4, 5]),
    "gpt": (Gpt, "words", [1, 4, 6, 4]),
    "frozen middle": (
        lambda: frozen(nn.Sequential(L(3, 4), nn.ReLU(), L(4, 5, bias=False), nn.ReLU(), L(5, 2))),
        (3,),
        [1],
    ),
}
PAIRS = {  # how many units mix, by case; elsewhere none do
    "no activation": {3},
    "attention": {2},
    "rotary": {None, 4},
    "shared keys": {2},
    "einsum": {2},
    "states": {None, 2},
    "block": {None, 2},
}


def frozen(net):
    net[2].weight.requires_grad = False
    return net


def case(name):
    make, shape, units = CASES[name]
    x = torch.randint(0, 5, (4, 3)) if shape == "words" else torch.randn(4, *shape)
    return make(), x, units


def generators(model, families):
    """μ of every unit, over all trainable parameters."""
    names = {n: p.shape for n, p in model.named_parameters() if p.requires_grad}
    rows = []
    for family in families:
        for unit in torch.eye(family.units):
            ones = {n: torch.ones(s) for n, s in names.items()}
            moved = ones | family.move(ones, unit)
            rows.append(torch.cat([moved[n].log().flatten() for n in names]))
    size = sum(s.numel() for s in names.values())
    return torch.stack(rows).numpy() if rows else np.zeros((0, size))


def invisible(model, x):
    """All μ with Σ μθg = 0 for outputs at many random θ, by a null space; and what has a gradient.

    Entries without any gradient (a key's bias, a bias before a norm) are trivially free: left out.
    """
    for module in model.modules():
        module.training = hasattr(module, "running_mean")
    params = [p for p in model.parameters() if p.requires_grad]
    size, rows, slopes = sum(p.numel() for p in params), [], []
    while len(rows) < 1.3 * size + 20:
        with torch.no_grad():
            for p in params:
                p.copy_(torch.randn_like(p))
        out = model(x)
        g = torch.autograd.grad((torch.randn_like(out) * out).sum(), params)
        row = torch.cat([(p * s).flatten() for p, s in zip(params, g, strict=True)])
        rows.append((row / row.norm()).detach().numpy())
        slopes.append(torch.cat([s.flatten() for s in g]).detach().numpy())
    seen = np.abs(slopes).max(0) > 1e-9 * np.abs(slopes).max()
    R = np.stack(rows)[:, seen]
    _, s, Vt = np.linalg.svd(R)
    return Vt[np.sum(s > 1e-9 * s[0]) :], seen


@pytest.mark.parametrize("name", CASES)
def test_every_symmetry_holds_and_none_is_missed(name):
    model, x, units = case(name)
    before = {n: t.clone() for n, t in model.state_dict().items()}
    found = gbt.symmetries(model, x)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert [family.units for family in found] == units, found
    assert not found.approximate and not found.rejected and not found.unknown
    assert all(family.holds <= 1e-10 and family.exact for family in found)
    assert {f.block for f in found if f.two_sided} <= PAIRS.get(name, {None})
    mu = generators(model, found)
    null, seen = invisible(model, x)
    mu = mu[:, seen]
    assert np.linalg.matrix_rank(mu, tol=1e-9) == len(mu) == len(null)
    assert np.abs(mu - mu @ null.T @ null).max(initial=0.0) < 1e-7


@pytest.mark.parametrize("name", [n for n in CASES if CASES[n][2]])
def test_moves_change_no_output(name):
    model, x, _ = case(name)
    found = gbt.symmetries(model, x)
    for module in model.modules():
        module.training = hasattr(module, "running_mean")
    params = {n: p.detach() for n, p in model.named_parameters()}
    first = model(x).detach()
    for family in found:
        moved = params | family.move(params, 0.7 * torch.randn(family.units))
        second = torch.func.functional_call(model, moved, x).detach()
        assert (second - first).abs().max() <= 1e-10 * first.abs().max()


def test_detection_by_numbers_agrees():
    """The other road: gradbias.symmetry.detect, on the same functions written for jax."""
    import jax
    import jax.numpy as jnp

    import gradbias as gb

    def linear(p, name, x):
        return p[f"{name}.weight"] @ x + p[f"{name}.bias"]

    def mlp(p, x):
        return linear(p, "2", jax.nn.relu(linear(p, "0", x)))

    def gated(p, x):
        return linear(p, "d", jax.nn.silu(linear(p, "g", x)) * linear(p, "u", x))

    def normed(p, x):
        z = linear(p, "0", x)
        z = (z - z.mean()) / jnp.sqrt(jnp.mean((z - z.mean()) ** 2))
        return linear(p, "3", jax.nn.relu(z * p["1.weight"] + p["1.bias"]))

    models = [
        (mlp, nn.Sequential(L(3, 4), nn.ReLU(), L(4, 2))),
        (
            gated,
            Net(lambda n, x: n.d(F.silu(n.g(x)) * n.u(x)), g=L(3, 4), u=L(3, 4), d=L(4, 2)),
        ),
        (normed, nn.Sequential(L(3, 4), nn.LayerNorm(4, eps=0.0), nn.ReLU(), L(4, 2))),
    ]
    rng = np.random.default_rng(0)
    data = (rng.standard_normal((4, 3)), rng.standard_normal((4, 2)))
    for function, model in models:
        shapes = {n: tuple(p.shape) for n, p in model.named_parameters()}

        def sampler(key, shapes=shapes):
            rng = np.random.default_rng(key)
            return {n: rng.standard_normal(s) for n, s in shapes.items()}

        def loss(p, x, y, function=function):
            return jnp.sum((function(p, x) - y) ** 2)

        detected = gb.symmetry.detect(loss, sampler, data)
        ours = gbt.symmetries(model, torch.from_numpy(data[0]))
        assert len(detected.symmetries) == sum(f.units for f in ours)
        theirs = [
            np.concatenate([np.ravel(s.mu[n]) for n in shapes])
            for s in detected.symmetries.values()
        ]
        basis = np.linalg.qr(np.stack(theirs).T)[0]
        mu = generators(model, ours)
        assert np.abs(mu - mu @ basis @ basis.T).max() < 1e-7


def test_an_epsilon_is_approximate_and_carries_its_size():
    model = nn.Sequential(L(3, 4), nn.LayerNorm(4, eps=1e-5), nn.ReLU(), L(4, 2))
    found = gbt.symmetries(model, torch.randn(4, 3))
    assert [f.kind for f in found] == ["scaling", "rescaling"]
    assert [f.name for f in found.approximate] == ["0 (layer_norm)"]
    assert 1e-9 < found[0].holds < 1e-2 and found[1].exact
    assert "holds to" in repr(found) and "exact" in repr(found)


def test_running_statistics_are_no_symmetry_but_training_is():
    """The same layers, whichever mode the model is in: what counts is training."""
    model = nn.Sequential(L(3, 4), nn.BatchNorm1d(4), nn.ReLU(), L(4, 2)).eval()
    found = gbt.symmetries(model, torch.randn(4, 3))
    assert [f.name for f in found] == ["0 (batch_norm)", "1 -> 3 (relu)"]
    assert not model.training and int(model[1].num_batches_tracked) == 0


def test_tied_frozen_parametrised_and_shared_weights_are_named():
    x = torch.randn(4, 3)
    tied = nn.Sequential(L(3, 3), nn.ReLU(), L(3, 3))
    tied[2].weight = tied[0].weight
    found = gbt.symmetries(tied, x)
    assert found.tied == ("0.weight", "2.weight") and not len(found)

    net = frozen(nn.Sequential(L(3, 4), nn.ReLU(), L(4, 5), nn.ReLU(), L(5, 2), nn.ReLU(), L(2, 2)))
    net[2].bias.requires_grad = False
    found = gbt.symmetries(net, x)
    assert found.frozen == ("2.weight", "2.bias")
    assert [f.name for f in found] == ["4 -> 6 (relu)"]

    for normed in (parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm):
        net = nn.Sequential(normed(L(3, 4)), nn.ReLU(), L(4, 5), nn.ReLU(), L(5, 2))
        found = gbt.symmetries(net, x)
        assert all(n.startswith("0.parametrizations.weight") for n in found.parametrised)
        assert found.parametrised and found[-1].name == "2 -> 4 (relu)"

    layers = {"a": L(3, 4), "m": L(4, 4), "b": L(4, 2)}
    twice = Net(lambda n, x: n.b(F.relu(n.m(F.relu(n.m(F.relu(n.a(x))))))), **layers)
    found = gbt.symmetries(twice, x)
    assert found.shared == ("m.bias", "m.weight") and not len(found)
    assert "used in several places, not moved: m.bias, m.weight" in repr(found)


def test_what_is_not_understood_is_listed_and_fixes_what_it_touches():
    class Odd(nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x, dim=-1).real

    model = nn.Sequential(L(3, 4), nn.ReLU(), L(4, 4), Odd(), L(3, 2))
    found = gbt.symmetries(model, torch.randn(4, 3))
    assert [f.name for f in found] == ["0 -> 2 (relu)"]
    assert any("fft_rfft in 3" in word for word in found.unknown), found.unknown


class Branching(nn.Module):
    """No graph: what it does depends on the data."""

    def __init__(self, leak):
        super().__init__()
        self.leak = leak
        self.a = nn.Sequential(L(3, 4), nn.ReLU(), L(4, 5))
        self.b = nn.Sequential(nn.ReLU(), L(5, 2))

    def forward(self, x):
        if float(x.detach().sum()) > 1e9:
            x = 2 * x
        h = self.a(x)
        return self.b(h) + (self.leak * torch.tanh(h).sum() if self.leak else 0)


def test_modules_in_order_where_there_is_no_graph(capfd):
    found = gbt.symmetries(Branching(0.0), torch.randn(4, 3))
    assert [f.name for f in found] == ["a.0 -> a.2 (relu)", "a.2 -> b.1 (relu)"]
    assert "the graph of Branching" in found.unknown[0]
    assert capfd.readouterr() == ("", "")
    # A use between modules that nobody sees: the numbers find it.
    found = gbt.symmetries(Branching(0.3), torch.randn(4, 3))
    assert [f.name for f in found] == ["a.0 -> a.2 (relu)"]
    assert [f.name for f in found.rejected] == ["a.2 -> b.1 (relu)"]


def test_declared_symmetries_are_checked():
    """exp(x) has one that no rule knows; a wrong one is found out."""
    model = Net(lambda n, x: n.b(torch.special.xlogy(F.relu(n.a(x)), 3.0)), a=L(3, 4), b=L(4, 2))
    x = torch.randn(5, 3)
    assert not len(gbt.symmetries(model, x))
    good = gbt.declare(model, "mine", {"a.weight": 0, "a.bias": 0}, {"b.weight": 1})
    assert (good.units, good.holds, good.kind) == (4, None, "declared")
    assert gbt.check(model, good, x).exact
    bad = gbt.declare(model, "mine", {"a.weight": 0}, {"b.weight": 1})
    assert gbt.check(model, bad, x).holds > 1e-3
    square = Net(lambda n, x: n.b(F.relu(n.a(x)) ** 3), a=L(3, 4), b=L(4, 2))
    own = np.tile(np.arange(4), (2, 1))
    cubic = gbt.declare(square, "c", {"a.weight": 0, "a.bias": 0}, {"b.weight": own}, degree=3)
    assert gbt.check(square, cubic, x).exact
    whole = gbt.declare(
        square, "w", {"a.weight": None, "a.bias": None}, {"b.weight": None}, degree=3
    )
    assert whole.units == 1 and gbt.check(square, whole, x).exact


@pytest.mark.parametrize(
    ("into", "out", "words"),
    [
        ({"a": 0}, {}, "into must name parameters of the model .*got 'a'"),
        ({}, {"2.weight": 1}, "into must name at least one parameter"),
        ({"0.weight": 2}, {}, "must be an axis of shape .* got 2"),
        ({"0.weight": 0}, {"2.weight": 0}, "must agree on the number of units"),
        ({"0.weight": np.zeros(3)}, {}, "must be an axis, None, or whole numbers"),
    ],
)
def test_wrong_declarations_are_refused(into, out, words):
    model = nn.Sequential(L(3, 4), nn.ReLU(), L(4, 2))
    with pytest.raises(ValueError, match=words):
        gbt.declare(model, "x", into, out)


def test_wrong_models_are_refused():
    with pytest.raises(ValueError, match="model must be a torch.nn.Module, got str"):
        gbt.symmetries("model", torch.zeros(2, 3))
    with pytest.raises(ValueError, match="example_input must be what the model is called with"):
        gbt.symmetries(nn.Sequential(L(3, 4), nn.ReLU(), L(4, 2)), torch.zeros(2, 5))
    with pytest.raises(ValueError, match="needs at least 2 samples"):
        gbt.symmetries(nn.Sequential(L(3, 4), nn.BatchNorm1d(4), L(4, 2)), torch.randn(1, 3))
    still = nn.Sequential(L(3, 4), nn.ReLU(), L(4, 2)).requires_grad_(False)
    assert len(gbt.symmetries(still, torch.randn(2, 3))) == 0
    broken = nn.Sequential(L(3, 4), nn.ReLU(), L(4, 2))
    with torch.no_grad():
        broken[0].weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="finite outputs"):
        gbt.symmetries(broken, torch.randn(2, 3))


def test_dead_units_and_zero_data():
    model = nn.Sequential(L(3, 4), nn.ReLU(), L(4, 2))
    with torch.no_grad():
        model[0].bias[:] = -100.0
    assert gbt.symmetries(model, torch.zeros(2, 3))[0].exact


def test_named_arguments_and_float32():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = L(3, 4), L(4, 2)

        def forward(self, *, words, flag=True):
            return {"out": self.b(F.relu(self.a(words)))}

    found = gbt.symmetries(Two().float(), {"words": torch.randn(2, 3).float(), "flag": True})
    assert found[0].exact and found[0].parameters == ("a.weight", "a.bias", "b.weight")


def test_models_that_make_or_insist_on_single_precision():
    def made(net, x):  # a mask of the default precision, as people write it
        h = F.relu(net.a(x)) + torch.zeros(len(x), 4)
        return net.b(h)

    def cast(net, x):
        return net.b(F.relu(net.a(x)).to(torch.float32).to(net.b.weight.dtype))

    def insists(net, x):
        return net.b(F.relu(net.a(x)) @ torch.eye(4, dtype=torch.float32))

    torch.set_default_dtype(torch.float32)
    x = torch.randn(3, 3)
    for function, tolerance in ((made, 1e-10), (cast, 1e-4), (insists, 1e-4)):
        model = Net(function, a=L(3, 4), b=L(4, 2))
        (family,) = gbt.symmetries(model, x)
        assert family.exact and family.tolerance == tolerance
        assert torch.get_default_dtype() == torch.float32
        assert gbt.balance(model, x).difference <= 1e-5


def test_jax_is_never_imported():
    root = str(Path(gradbias.__file__).parents[1])
    code = (
        "import sys, gradbias.torch as gbt; assert 'torch' not in sys.modules; dir(gbt);"
        "[getattr(gbt, name) for name in gbt.__all__];"
        "assert 'jax' not in sys.modules and 'torch' in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": root}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
