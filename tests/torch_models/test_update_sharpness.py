"""Sharpness along an optimiser's own step, against quadratics, roots of SciPy and closed forms."""

import copy
import math

import numpy as np
import pytest
from scipy.optimize import brentq

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)


class Bowl(nn.Module):
    """Mean of ½(θ − c)ᵀH(θ − c) over samples c."""

    def __init__(self, size, key):
        super().__init__()
        draw = torch.Generator().manual_seed(key)
        root = torch.randn(size, size, generator=draw, dtype=torch.float64)
        self.register_buffer("H", root @ root.T / size + 0.1 * torch.eye(size).double())
        self.theta = nn.Parameter(torch.randn(size, generator=draw, dtype=torch.float64))
        self.samples = 3 + torch.randn(40, size, generator=draw, dtype=torch.float64)

    def forward(self, c):
        off = self.theta - c
        return 0.5 * (off @ self.H * off).sum(1)

    def exact(self, d):
        g = self.H @ (self.theta.detach() - self.samples.mean(0))
        return float(-(d @ self.H @ d) / (g @ d))


def mean(model, batch):
    return model(batch).mean()


@pytest.mark.parametrize("key", range(6))
@pytest.mark.parametrize("start", [1e-3, 1.0, 1e3])
def test_on_a_quadratic_it_is_the_curvature_along_the_update(key, start):
    bowl = Bowl(5, key)
    g = bowl.H @ (bowl.theta.detach() - bowl.samples.mean(0))
    turned = torch.randn(5, generator=torch.Generator().manual_seed(key)).double()
    d = -g + 0.1 * turned * g.norm() / turned.norm()
    assert float(g @ d) < 0
    wanted = float(d @ bowl.H @ d / -(g @ d))
    seen = gbt.update_sharpness(bowl, {"theta": d}, mean, bowl.samples, start=start)
    assert seen.value == pytest.approx(wanted, rel=1e-6)
    assert seen.lr == pytest.approx(2 / wanted, rel=1e-6) and seen.converged and not seen.reason
    assert seen.value != pytest.approx(1.03 * wanted, rel=1e-6)


def steps_of(name, parameters):
    kinds = {
        "sgd": lambda p: torch.optim.SGD(p, 0.01),
        "momentum": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, weight_decay=1e-2),
        "nesterov": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, nesterov=True),
        "adamw": lambda p: torch.optim.AdamW(p, 1e-3, weight_decay=0.1),
        "rmsprop": lambda p: torch.optim.RMSprop(p, 1e-3),
    }
    return kinds[name](parameters)


@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov", "adamw", "rmsprop"])
def test_an_optimisers_own_step_with_its_memory(name):
    """The oracle takes the real step on a real copy."""
    bowl = Bowl(4, 1)
    optimizer = steps_of(name, bowl.parameters())
    for _ in range(7):
        optimizer.zero_grad()
        mean(bowl, bowl.samples[:8]).backward()
        optimizer.step()
    bowl.theta.grad = torch.full_like(bowl.theta, 7.0)  # of the training loop, not to be used
    before = copy.deepcopy(optimizer.state_dict())
    seen = gbt.update_sharpness(bowl, optimizer, mean, bowl.samples)
    assert str(before) == str(optimizer.state_dict()) and bool((bowl.theta.grad == 7).all())

    start = bowl.theta.detach().clone()
    optimizer.zero_grad()
    mean(bowl, bowl.samples).backward()
    optimizer.step()
    rate = optimizer.param_groups[0]["lr"]
    d = (bowl.theta.detach() - start) / rate
    bowl.theta.data.copy_(start)
    assert seen.value == pytest.approx(bowl.exact(d), rel=1e-6)
    assert seen.current == rate and seen.share == pytest.approx(rate / seen.lr)
    if name == "sgd":
        top = gbt.sharpness(bowl, mean, bowl.samples)
        assert seen.value <= top.value * 1.001


def test_the_least_root_of_a_loss_that_is_no_quadratic():
    class Well(nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = nn.Parameter(torch.tensor([-2.0]).double())

        def forward(self, x):
            return torch.log(torch.cosh(self.theta * x)) + 0.1 * self.theta**4

    well = Well()
    x = torch.linspace(0.5, 1.5, 16).double()

    def rise(eta):
        t = np.array(-2.0 + eta)
        loss = lambda t: np.mean(np.log(np.cosh(t * x.numpy()))) + 0.1 * t**4  # noqa: E731
        return loss(t) - loss(-2.0)

    root = brentq(rise, 1.0, 20.0, xtol=1e-14)
    for start in (0.05, 1.0, 30.0):
        seen = gbt.update_sharpness(well, {"theta": torch.ones(1)}, mean, x, start=start, groups=4)
        assert seen.lr == pytest.approx(root, rel=1e-2)
        assert seen.converged == (start < 30.0)  # from there, all passes are spent on the way


def test_the_standard_error_is_that_of_paired_differences():
    """On a quadratic f_b(η) = g_bᵀD + η/2·DᵀHD: the root has the error of g_bᵀD over the slope."""
    bowl = Bowl(4, 2)
    g = bowl.H @ (bowl.theta.detach() - bowl.samples.mean(0))
    seen = gbt.update_sharpness(bowl, {"theta": -g}, mean, bowl.samples, groups=10)
    centres = bowl.samples.reshape(10, 4, 4).mean(1)
    slopes = ((bowl.theta.detach() - centres) @ bowl.H @ -g).numpy()
    bend = float(g @ bowl.H @ g)
    of_root = slopes.std(ddof=1) / 10**0.5 / (bend / 2)
    wanted = 2 / seen.lr**2 * of_root
    assert seen.parts == 10
    assert seen.standard_error == pytest.approx(wanted, rel=1e-6)
    assert seen.standard_error != pytest.approx(1.03 * wanted, rel=1e-6)
    one = gbt.update_sharpness(bowl, {"theta": -g}, mean, bowl.samples, groups=1)
    assert math.isnan(one.standard_error) and one.value == pytest.approx(seen.value, rel=1e-9)


class OnceOnly(torch.autograd.Function):
    """A square without a second derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, slope):
        return 2 * ctx.saved_tensors[0] * slope


@pytest.mark.parametrize("way", ["update", "optimizer", "loader"])
def test_eight_passes_and_no_second_derivative(way):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    x = torch.randn(48, 4)
    seen = []

    def loss(model, batch):
        seen.append(len(batch[0]))
        return OnceOnly.apply(model(batch[0]) - 3).mean()

    update = torch.optim.Adam(model.parameters(), 1e-3)
    if way == "update":
        update = {n: -p.detach().sign() for n, p in model.named_parameters()}
    data = DataLoader(TensorDataset(x), batch_size=8) if way == "loader" else (x,)
    found = gbt.update_sharpness(model, update, loss, data)
    assert sum(seen) == found.passes * 48 <= 8 * 48
    if way != "update":
        assert found.converged and found.parts == (6 if way == "loader" else 8)
        assert sum(seen[:-6]) >= 48


def bits(model):
    return [p.detach().clone().view(torch.int32) for p in model.parameters()]


@pytest.mark.parametrize("fails_at", [1, 9, 10, 12, 30, 10**6])
def test_parameters_are_put_back_bit_for_bit(fails_at):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    with torch.no_grad():
        model[0].weight[0, 0] = -0.0
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    x, y = torch.randn(32, 4), torch.randint(0, 2, (32,))
    calls = []

    def loss(model, batch):
        calls.append(1)
        if len(calls) == fails_at:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    graph = nn.functional.cross_entropy(model(x), y)  # one that the loop holds
    before, state = bits(model), torch.get_rng_state()
    places = [p.data_ptr() for p in model.parameters()]
    if fails_at < 10**6:
        with pytest.raises(KeyboardInterrupt):
            gbt.update_sharpness(model, optimizer, loss, (x, y))
    else:
        assert gbt.update_sharpness(model, optimizer, loss, (x, y)).converged
    assert all(map(torch.equal, before, bits(model)))
    assert places == [p.data_ptr() for p in model.parameters()]
    assert torch.equal(state, torch.get_rng_state()) and model.training and not optimizer.state
    graph.backward()


def test_what_has_no_root_says_why():
    bowl = Bowl(3, 0)
    g = bowl.H @ (bowl.theta.detach() - bowl.samples.mean(0))
    up = gbt.update_sharpness(bowl, {"theta": g}, mean, bowl.samples)
    assert up.lr == 0 and up.reason == "the update does not lower the loss on this data"
    line = nn.Linear(2, 1, bias=False).double()
    down = {"weight": -torch.ones(1, 2)}
    fell = gbt.update_sharpness(line, down, lambda m, b: m(b).mean(), torch.ones(9, 2).double())
    assert math.isinf(fell.lr) and fell.value == 0 and not fell.converged
    assert fell.reason.startswith("the loss fell all the way to η = ")
    still = {"weight": torch.tensor([[1.0, -1.0]])}
    flat = gbt.update_sharpness(
        line, still, lambda m, b: m(b).mean() + 1, torch.ones(9, 2).double()
    )
    assert math.isnan(flat.value) and "rounding" in flat.reason


def test_wrong_arguments_are_refused():
    bowl = Bowl(3, 0)
    d = {"theta": torch.ones(3)}
    with pytest.raises(ValueError, match="shaped like.*got 'theta' of shape"):
        gbt.update_sharpness(bowl, {"theta": torch.ones(4)}, mean, bowl.samples)
    with pytest.raises(ValueError, match="no such trained parameter"):
        gbt.update_sharpness(bowl, {"phi": torch.ones(3)}, mean, bowl.samples)
    with pytest.raises(ValueError, match="got zeros"):
        gbt.update_sharpness(bowl, {"theta": torch.zeros(3)}, mean, bowl.samples)
    with pytest.raises(ValueError, match="same number twice"):
        gbt.update_sharpness(bowl, d, lambda m, b: mean(m, b) * (1 + torch.rand(())), bowl.samples)
    with pytest.raises(ValueError, match="positive learning rate in its first group, got none"):
        optimizer = torch.optim.SGD(bowl.parameters(), 0.0)
        gbt.update_sharpness(bowl, optimizer, mean, bowl.samples)
    with pytest.raises(ValueError, match="moves none"):
        gbt.update_sharpness(bowl, steps_of("sgd", Bowl(3, 1).parameters()), mean, bowl.samples)
    with pytest.raises(ValueError, match="from gradients alone, got LBFGS"):
        optimizer = torch.optim.LBFGS(bowl.parameters())
        gbt.update_sharpness(bowl, optimizer, mean, bowl.samples)
    with pytest.raises(ValueError, match="start must be greater than 0"):
        gbt.update_sharpness(bowl, d, mean, bowl.samples, start=-1.0)
