"""Models as people train them: gains, caches, autocast, meta, recurrent nets, adapters, experts."""

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
