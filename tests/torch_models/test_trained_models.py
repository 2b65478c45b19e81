"""Models as people train them: gains, caches, autocast, meta, recurrent nets, adapters, experts."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)
L = nn.Linear


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def cross_entropy(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


def unchanged(model, x, found):
    """The oracle: a large move along every family leaves the outputs in float64 alone."""
    twin = model.double()
    params = {name: p.detach() for name, p in twin.named_parameters()}
    first = twin(x)
    for family in found:
        lam = torch.randn(family.units, dtype=torch.float64)
        moved = params | family.move(params, lam)
        second = torch.func.functional_call(twin, moved, x)
        assert (second - first).abs().max() <= 1e-11 * first.abs().max(), family.name


class ReZero(nn.Module):
    """A residual branch with a learned gain, and logits with a learned temperature."""

    def __init__(self, alpha):
        super().__init__()
        self.a, self.b, self.head = L(4, 6), L(6, 4), L(4, 3)
        self.alpha = nn.Parameter(torch.tensor(alpha))
        self.temperature = nn.Parameter(torch.tensor(0.3))

    def forward(self, x):
        x = x + self.alpha * self.b(F.relu(self.a(x)))
        return self.head(x) * self.temperature.exp()


class Clip(nn.Module):
    """Two towers, a temperature, and a single number as its output."""

    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Sequential(L(4, 6), nn.ReLU(), L(6, 3)), L(5, 3)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x, z):
        a, b = (F.normalize(v, dim=-1) for v in (self.image(x), self.text(z)))
        return F.cross_entropy(self.scale.exp() * a @ b.T, torch.arange(len(x)))


@pytest.mark.parametrize("alpha", [0.5, 0.0])
def test_parameters_without_axes_are_units_like_any_other(alpha):
    model, x, y = ReZero(alpha), torch.randn(8, 4), torch.randint(0, 3, (8,))
    found = gbt.symmetries(model, x)
    assert [(f.units, f.parameters) for f in found.exact] == [
        (6, ("a.weight", "a.bias", "b.weight")),
        (1, ("b.weight", "b.bias", "alpha")),
    ]
    inspected = gbt.inspect(model, cross_entropy, (x, y))
    assert len(inspected.imbalance) == 2
    jump = gbt.balance(model, x)
    sizes = [float(p.detach().square().sum()) for p in (model.b.weight, model.b.bias, model.alpha)]
    if alpha:  # at zero nothing comes out, and there is no balance
        assert sizes[0] + sizes[1] == pytest.approx(sizes[2], rel=1e-5)
    else:
        assert sizes[2] == 0
    jump.undo()
    unchanged(model, x.double(), found)


def test_a_temperature_and_an_output_without_axes():
    found = gbt.symmetries(Clip(), (torch.randn(4, 4), torch.randn(4, 5)))
    assert [f.units for f in found.exact] == [6, 1, 1]
    assert not any("scale" in f.parameters for f in found)


class KeptStates:
    """A cache as an object of its own that no library of trees knows."""

    def __init__(self):
        self.layers = []

    def update(self, k, v):
        self.layers.append((k, v))
        return k, v


@dataclasses.dataclass
class Answer:
    logits: torch.Tensor
    past_key_values: object = None


class Decoder(nn.Module):
    """Two layers of attention with shared keys, and a cache that is handed out by default."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        self.words, self.head = nn.Embedding(7, 8), L(8, 7, bias=False)
        sizes = {"q": 8, "k": 4, "v": 4, "o": 8}
        self.layers = nn.ModuleList(
            nn.ModuleDict({n: L(8, size, bias=False) for n, size in sizes.items()})
            for _ in range(2)
        )

    def forward(self, ids, use_cache=True):
        x, cache = self.words(ids), KeptStates()
        for layer in self.layers:
            shape = (*ids.shape, -1, 4)
            q, k, v = (layer[n](x).view(shape).transpose(1, 2) for n in "qkv")
            k, v = cache.update(k, v) if use_cache else (k, v)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + layer["o"](mixed.transpose(1, 2).flatten(2))
        logits = self.head(x)
        if not use_cache:
            return logits
        layers = tuple(cache.layers)
        return {
            "object": {"logits": logits, "past_key_values": cache},
            "dict": {"logits": logits, "past_key_values": layers},
            "dataclass": Answer(logits, layers),
            "tuple": (logits, layers),
        }[self.form]


@pytest.mark.parametrize("form", ["object", "dict", "dataclass", "tuple"])
def test_structure_does_not_depend_on_a_cache(form):
    model, ids = Decoder(form), torch.randint(0, 7, (2, 3))
    without = gbt.symmetries(model, {"ids": ids, "use_cache": False})
    # The stream, keys that two heads share, and values.
    assert [f.units for f in without.exact] == [8, 4, 4, 4, 4] and not without.unknown
    found = gbt.symmetries(model, ids)
    assert repr(found) == repr(without)
    assert gbt.balance(model, ids).difference < 1e-5


def test_results_of_a_dataclass_are_outputs_and_no_tensor_is_refused():
    class Odd(nn.Module):
        def __init__(self, wrap):
            super().__init__()
            self.a, self.b, self.wrap = L(3, 4), L(4, 2), wrap

        def forward(self, x):
            return self.wrap(self.b(torch.tanh(self.a(x))))

    assert not len(gbt.symmetries(Odd(Answer), torch.randn(4, 3)))
    with pytest.raises(ValueError, match="model must return floating tensors.*got str"):
        gbt.symmetries(Odd(str), torch.randn(4, 3))


def perceptron():
    return nn.Sequential(L(4, 6), nn.ReLU(), L(6, 3))


class Mixed(nn.Module):
    """Autocast inside the model, as accelerate and the Trainer of transformers put it there."""

    def __init__(self):
        super().__init__()
        self.net = perceptron()

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.net(x)


def test_autocast_around_a_call_plays_no_part():
    model, x = perceptron(), torch.randn(32, 4)
    before = gbt.symmetries(model, x)
    with torch.autocast("cpu", torch.bfloat16):
        first = model(x)
        assert repr(gbt.symmetries(model, x)) == repr(before)
        jump = gbt.balance(model, x)
        assert 0 < jump.difference < 1e-5 and jump.rounding < 1e-3
        # Autocast keeps halves of weights: those of before must not be used any more.
        assert not torch.equal(model(x), first)
        jump.undo()
        assert torch.equal(model(x), first)
        (checked,) = (gbt.check(model, f, x) for f in before)
        assert checked.exact and torch.is_autocast_enabled("cpu")


@pytest.mark.filterwarnings("ignore:.*half precision.*:UserWarning")
def test_autocast_inside_a_model_or_loss_hides_no_symmetry():
    x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))

    def loss(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return cross_entropy(model, batch)

    for model, function in ((Mixed(), cross_entropy), (perceptron(), loss)):
        found = gbt.symmetries(model, x)
        assert [f.units for f in found.exact] == [6] and not found.unknown
        inspected = gbt.inspect(model, function, (x, y))
        (ratio,) = inspected.imbalance.values()
        (noise,) = inspected.noise.values()
        assert torch.isfinite(torch.from_numpy(ratio)).all()
        assert noise.method == "linear"
    # What bfloat16 rounds is said, and is what is allowed.
    jump = gbt.balance(model := Mixed(), x)
    assert 1e-4 < jump.difference < jump.rounding == 0.1
    assert "rounding is up to 1e-01" in repr(jump)
    # The oracle: in float64, which autocast leaves alone, the outputs are what they were.
    twin = model.double()
    after = twin(x.double())
    jump.undo()
    assert (after - twin(x.double())).abs().max() < 1e-5


def test_families_are_found_without_numbers():
    with torch.device("meta"):
        model = nn.ModuleList([perceptron(), Decoder("object")])
    for part, example in zip(model, (torch.randn(2, 4), torch.randint(0, 7, (2, 3))), strict=True):
        here = gbt.symmetries(part.to_empty(device="cpu").apply(_filled), example)
        found = gbt.symmetries(part.to("meta"), example)
        assert [(f.name, f.units, f.parameters) for f in found] == [
            (f.name, f.units, f.parameters) for f in here
        ]
        assert found.exact == found.approximate == () and all(f.holds is None for f in found)
        assert "not checked: the parameters are on the meta device" in repr(found)
    net = model[0]
    for call in (
        lambda: gbt.balance(net, torch.randn(2, 4)),
        lambda: gbt.check(net, found[0], torch.randn(2, 4)),
        lambda: gbt.inspect(net, cross_entropy, (torch.randn(8, 4), torch.zeros(8).long())),
    ):
        with pytest.raises(ValueError, match="model must have numbers, got parameters on the meta"):
            call()


def _filled(module):
    for p in module.parameters(recurse=False):
        nn.init.normal_(p)


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.words, self.layer = L(3, 4), kind(4, 5, batch_first=True, **options)
        ways = 2 if options.get("bidirectional") else 1
        self.head = L(ways * (options.get("proj_size") or 5), 2)

    def forward(self, x):
        return self.head(self.layer(self.words(x))[0])


@pytest.mark.parametrize(
    ("kind", "options", "units"),
    [
        (nn.LSTM, {}, [4]),
        (nn.GRU, {"num_layers": 2, "bidirectional": True}, [4]),
        (nn.RNN, {}, [4]),
        (nn.RNN, {"nonlinearity": "relu"}, [4, 5]),
        (nn.RNN, {"nonlinearity": "relu", "bias": False, "bidirectional": True}, [4, 5, 5]),
        (nn.RNN, {"nonlinearity": "relu", "num_layers": 2}, [4, 5, 5]),
        (nn.LSTM, {"proj_size": 2}, [4, 2]),
        (nn.LSTM, {"proj_size": 2, "num_layers": 2, "bidirectional": True}, [4, 2, 2, 2, 2]),
    ],
)
def test_recurrent_layers(kind, options, units):
    """Gates do not scale; what feeds them, ReLU units and projections do."""
    model, x = Recurrent(kind, **options), torch.randn(3, 4, 3)
    found = gbt.symmetries(model, x)
    assert [f.units for f in found.exact] == units, found
    assert not found.unknown and not found.rejected
    assert bool(found.still) == (options.get("nonlinearity") != "relu")
    if found.still:
        word = "rnn_tanh" if kind is nn.RNN else kind.__name__.lower()
        assert f"no rescaling: units of the {word} in layer: its gates are" in repr(found)
    projections = [f for f in found if "weight_hr" in " ".join(f.parameters)]
    assert all(f.kind == "pair" and f.block == 2 for f in projections)
    assert len(projections) == len(units) - 1 or "proj_size" not in options
    unchanged(model, x.double(), found)


class Adapted(nn.Module):
    """A frozen weight with a low-rank correction, B at zero as it starts."""

    def __init__(self):
        super().__init__()
        self.base, self.a, self.b = L(4, 6), L(4, 3, bias=False), L(3, 6, bias=False)
        self.base.requires_grad_(False)
        nn.init.zeros_(self.b.weight)
        self.head = L(6, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.base(x) + 0.5 * self.b(self.a(x))))


def test_low_rank_adapters_are_a_pair():
    model, x = Adapted(), torch.randn(5, 4)
    found = gbt.symmetries(model, x)
    assert found.frozen == ("base.weight", "base.bias")
    (family,) = found.exact
    assert (family.kind, family.block, family.parameters) == ("pair", 3, ("a.weight", "b.weight"))
    nn.init.normal_(model.b.weight)
    gbt.balance(model, x)
    a, b = model.a.weight.detach(), model.b.weight.detach()
    assert torch.allclose(a @ a.T, b.T @ b, atol=1e-4)


class Experts(nn.Module):
    """Units in all experts: of the best two for each token, or of all, weighed."""

    def __init__(self, sparse):
        super().__init__()
        self.sparse, self.router = sparse, L(4, 3, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(L(4, 5), nn.ReLU(), L(5, 4)) for _ in range(3))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(2)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = (weights * (chosen == i)).sum(-1, keepdim=True)
            if self.sparse:
                rows = mine[:, 0].nonzero()[:, 0]
                out = out.index_add(0, rows, expert(x[rows]) * mine[rows])
            else:
                out = out + mine * expert(x)
        return out


@pytest.mark.parametrize("sparse", [False, True])
def test_units_of_experts_are_found_or_named(sparse):
    found = gbt.symmetries(Experts(sparse), torch.randn(8, 4))
    if sparse and found.unknown:
        assert any("index_add" in word or "graph" in word for word in found.unknown), found
    assert [f.units for f in found.exact] == [5, 5, 5], found


class Packed(nn.Module):
    """All experts in one weight, multiplied at once."""

    def __init__(self, product):
        super().__init__()
        self.router, self.product = L(4, 3), product
        self.up, self.down = (nn.Parameter(torch.randn(3, *s)) for s in ((4, 5), (5, 4)))

    def forward(self, x):
        many = x.expand(3, *x.shape)
        if self.product == "bmm":
            out = torch.bmm(F.relu(torch.bmm(many, self.up)), self.down)
        else:
            inner = F.relu(torch.einsum("bd,edf->bef", x, self.up))
            out = torch.einsum("bef,efd->bed", inner, self.down).transpose(0, 1)
        return (out * self.router(x).softmax(-1).T[..., None]).sum(0)


@pytest.mark.parametrize("product", ["bmm", "einsum"])
def test_units_of_packed_experts(product):
    model, x = Packed(product), torch.randn(6, 4)
    found = gbt.symmetries(model, x)
    assert [(f.units, f.parameters) for f in found.exact] == [(15, ("up", "down"))]
    unchanged(model, x.double(), found)


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_computed_and_tied_weights_are_named():
    x = torch.randn(5, 4)
    for wrap in (
        *(nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.spectral_norm),
        *(nn.utils.weight_norm, nn.utils.spectral_norm),
    ):
        model = nn.Sequential(wrap(L(4, 5)), nn.ReLU(), L(5, 6), nn.ReLU(), L(6, 2))
        found = gbt.symmetries(model, x)
        assert found.parametrised and all(n.startswith("0.") for n in found.parametrised)
        assert [f.name for f in found] == ["2 -> 4 (relu)"]
    model = Decoder("object")
    model.head.weight = model.words.weight
    found = gbt.symmetries(model, torch.randint(0, 7, (2, 3)))
    assert found.tied == ("words.weight", "head.weight")
    assert [f.units for f in found.exact] == [4, 4, 4, 4]
