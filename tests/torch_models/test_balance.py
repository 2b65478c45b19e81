"""Balance: the smallest weights with the same function, and the way back."""

import copy
import warnings

import numpy as np
import pytest
import scipy.optimize

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import gradbias.torch as gbt  # noqa: E402
from gradbias.torch._move import solve  # noqa: E402

torch.set_num_threads(1)
L = nn.Linear


def mlp(dtype=torch.float64):
    torch.manual_seed(1)
    net = nn.Sequential(L(3, 5), nn.ReLU(), L(5, 4), nn.LeakyReLU(), L(4, 2)).to(dtype)
    with torch.no_grad():
        for layer, scale in ((0, 4.0), (2, 1.0), (4, 0.25)):
            net[layer].weight *= scale
    return net


def cnn(dtype=torch.float64):
    torch.manual_seed(2)
    net = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3, groups=2)),
        *(nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), L(24, 3)),
    )
    net(torch.randn(8, 1, 8, 8))  # running statistics that are not the initial ones
    with torch.no_grad():
        net[1].weight.mul_(torch.linspace(0.1, 3.0, 4))
    return net.to(dtype)


class Block(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = nn.MultiheadAttention(d, 2, batch_first=True)
        self.gate, self.up, self.down = L(d, 6), L(d, 6), L(6, d)

    def forward(self, x):
        y = self.n1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def block(dtype=torch.float64):
    torch.manual_seed(3)
    net = Block().to(dtype)
    with torch.no_grad():
        net.attention.in_proj_weight[:8] *= 5
        net.attention.in_proj_bias += 0.1 * torch.randn(24).to(dtype)
        net.up.weight *= 0.1
    return net


CASES = {"mlp": (mlp, (6, 3)), "cnn": (cnn, (6, 1, 8, 8)), "block": (block, (2, 5, 8))}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", CASES)
def test_outputs_stay_and_norms_meet(name, dtype):
    make, shape = CASES[name]
    model, x = make(dtype), torch.randn(shape).to(dtype)
    model.train()
    before = {n: t.clone() for n, t in model.state_dict().items()}
    outputs = copy.deepcopy(model).eval()(x).detach()
    jump = gbt.balance(model, x)
    assert model.training
    allowed = 1e-10 if dtype == torch.float64 else 1e-5
    change = copy.deepcopy(model).eval()(x).detach() - outputs
    assert float(change.abs().max() / outputs.abs().max()) <= allowed
    assert jump.difference <= allowed
    assert jump.after.norm < 0.95 * jump.before.norm
    near = 1e-8 if dtype == torch.float64 else 1e-5
    for ratio in jump.after.ratio.values():
        np.testing.assert_allclose(ratio, 1, rtol=near)
    assert any(np.abs(np.log(r)).max() > 0.5 for r in jump.before.ratio.values())
    assert "outputs changed by" in repr(jump) and "in/out norm" in repr(jump)
    jump.undo()
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    with pytest.raises(ValueError, match="undone before"):
        jump.undo()


def test_it_is_the_least_norm_of_the_orbit():
    """Against a general optimiser over all scales of all units."""
    model, x = mlp(), torch.randn(4, 3).double()
    families = gbt.symmetries(model, x).families
    params = {n: p.detach().clone() for n, p in model.named_parameters()}

    def norm(flat):
        lam, moved = torch.from_numpy(flat).requires_grad_(), params
        for family, part in zip(families, lam.split([f.units for f in families]), strict=True):
            moved = moved | family.move(moved, part)
        total = sum(p.square().sum() for p in moved.values())
        return float(total.detach()), torch.autograd.grad(total, lam)[0].numpy()

    best = scipy.optimize.minimize(norm, np.zeros(9), jac=True, method="BFGS", tol=1e-12)
    gbt.balance(model, x)
    least = sum(float(p.detach().square().sum()) for p in model.parameters())
    assert least == pytest.approx(best.fun, rel=1e-10)


def deep(depth, width=4):
    """A chain of ReLU layers whose scales differ by decades."""
    torch.manual_seed(6)
    layers = [layer for _ in range(depth) for layer in (L(width, width), nn.ReLU())]
    net = nn.Sequential(*layers, L(width, 2)).double()
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight.copy_(torch.randn_like(layer.weight) * 10 ** torch.randn(()))
            layer.bias.copy_(torch.randn_like(layer.bias))
    return net


def test_deep_chains_end_at_their_balance():
    """The problem is convex: equal norms on both sides of all units are the least norm."""
    model = deep(24)
    start = sum(float(p.detach().square().sum()) for p in model.parameters())
    jump = gbt.balance(model)
    assert len(jump.lam) == 24
    assert jump.sweeps < 12 and jump.left < 1e-13
    for ratio in jump.after.ratio.values():
        np.testing.assert_allclose(ratio, 1, rtol=1e-12)
    assert sum(float(p.detach().square().sum()) for p in model.parameters()) < 0.5 * start


def test_newton_ends_where_sweeps_alone_end(monkeypatch):
    together = gbt.balance(deep(8))
    monkeypatch.setattr(solve, "TERMS", 0)
    alone = gbt.balance(deep(8))
    assert together.sweeps < 12 and alone.sweeps > 30
    assert alone.after.norm == pytest.approx(together.after.norm, rel=1e-12)
    for name, lam in alone.lam.items():
        np.testing.assert_allclose(together.lam[name], lam, atol=1e-8)


def test_pairs_meet_as_matrices():
    """Two linear maps end with equal Gram matrices; the norm is that of the product's spectrum."""
    torch.manual_seed(0)
    model = nn.Sequential(L(6, 3, bias=False), L(3, 5, bias=False)).double()
    product = (model[1].weight @ model[0].weight).detach()
    jump = gbt.balance(model)
    W, U = model[0].weight.detach(), model[1].weight.detach()
    torch.testing.assert_close(W @ W.T, U.T @ U, rtol=0, atol=1e-12)
    torch.testing.assert_close(U @ W, product, rtol=0, atol=1e-13)
    assert jump.after.norm == pytest.approx(2 * float(torch.linalg.svdvals(product).sum()))
    wide = nn.Sequential(L(2, 5, bias=False), L(5, 2, bias=False)).double()  # W is no full block
    assert gbt.balance(wide).after.ratio["0 -> 1"] == pytest.approx(1)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.0, momentum=0.9),
        lambda p: torch.optim.AdamW(p, lr=0.0, amsgrad=True),
        lambda p: torch.optim.RMSprop(p, lr=0.0, centered=True),
        lambda p: torch.optim.Adagrad(p, lr=0.0),
    ],
    ids=["sgd", "adamw", "rmsprop", "adagrad"],
)
def test_memories_become_those_of_a_run_at_the_new_point(make):
    """At lr 0 a run stays where it is: the other run starts at the new point."""
    torch.manual_seed(4)
    batches = [torch.randn(5, 3).double() for _ in range(3)]

    def run(net):
        optimizer = make(net.parameters())
        for x in batches:
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        return optimizer

    model, other = mlp(), mlp()
    optimizer = run(model)
    before = copy.deepcopy(optimizer.state_dict()["state"])
    jump = gbt.balance(model, batches[0], optimizer=optimizer)
    gbt.balance(other, batches[0])
    expected = run(other).state_dict()["state"]
    same = optimizer.state_dict()["state"]
    for i, memory in expected.items():
        for key, value in memory.items():
            torch.testing.assert_close(same[i][key], value, rtol=1e-9, atol=0)
    jump.undo()
    for i, memory in before.items():
        for key, value in memory.items():
            assert torch.equal(torch.as_tensor(value), optimizer.state_dict()["state"][i][key])


def test_undo_after_training_takes_the_inverse_way():
    model, x = block(), torch.randn(2, 5, 8).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9, momentum=0.9)
    model(x).square().mean().backward()
    optimizer.step()
    before = [p.detach().clone() for p in model.parameters()]
    memory = [optimizer.state[p]["momentum_buffer"].clone() for p in model.parameters()]
    jump = gbt.balance(model, x, optimizer=optimizer)
    jumped = model.attention.in_proj_weight.detach().clone()
    for p in model.parameters():
        p.grad.zero_()
    optimizer.step()  # a tiny one: bits differ, so that they cannot be put back
    assert jump.sweeps > 2 and not torch.equal(model.attention.in_proj_weight, jumped)
    trained = model(x).detach()
    jump.undo()
    torch.testing.assert_close(model(x).detach(), trained, rtol=1e-10, atol=1e-12)
    assert not all(torch.equal(p, b) for p, b in zip(model.parameters(), before, strict=True))
    for p, value in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(p.detach(), value, rtol=0, atol=1e-6)
    for p, value in zip(model.parameters(), memory, strict=True):
        kept = optimizer.state[p]["momentum_buffer"]
        torch.testing.assert_close(kept, 0.9 * value, rtol=1e-8, atol=1e-12)


def test_an_unknown_memory_is_refused_before_anything_changes():
    class Odd(torch.optim.SGD):
        pass

    model, x = mlp(), torch.randn(4, 3).double()
    optimizer = Odd(model.parameters(), lr=0.1, momentum=0.9)
    model(x).sum().backward()
    optimizer.step()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="not known how 'momentum_buffer' of Odd moves"):
        gbt.balance(model, x, optimizer=optimizer)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    with pytest.raises(ValueError, match="optimizer must be a torch.optim.Optimizer"):
        gbt.balance(model, x, optimizer="adam")


def test_a_false_family_is_undone():
    model, x = mlp(), torch.randn(4, 3).double()
    before = copy.deepcopy(model.state_dict())
    false = gbt.declare(model, "false", {"0.weight": 0}, {"2.weight": 1})
    with pytest.raises(ValueError, match="outputs changed by .* Nothing was changed"):
        gbt.balance(model, x, families=[false])
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    with pytest.raises(ValueError, match="families must hold what .* got str"):
        gbt.balance(model, x, families=["0 -> 2 (relu)"])


def test_a_degree_other_than_one():
    torch.manual_seed(0)

    class Cubed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = L(3, 4), L(4, 2)

        def forward(self, x):
            return self.b(F.relu(self.a(x)) ** 3)

    model, x = Cubed().double(), torch.randn(5, 3).double()
    (family,) = gbt.symmetries(model, x)
    jump = gbt.balance(model, x)
    params = {n: p.detach() for n, p in model.named_parameters()}
    into, out = family.halves(params, params)
    torch.testing.assert_close(into, out)  # weighted with 1 and 3: d‖θ‖²/dλ = 0
    assert jump.difference < 1e-12


def test_examples_are_guessed_or_asked_for():
    words = nn.Sequential(nn.Embedding(7, 4), L(4, 6), nn.ReLU(), L(6, 2))
    assert list(gbt.balance(words).lam) == ["0 -> 1", "1 -> 3 (relu)"]
    tokens = nn.Sequential(nn.LayerNorm(4), L(4, 6), nn.ReLU(), L(6, 2))
    assert list(gbt.balance(tokens).lam) == ["0 -> 1", "1 -> 3 (relu)"]
    images = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), L(4 * 26 * 26, 2))
    assert list(gbt.balance(images).lam) == ["0 -> 3 (relu)"]
    with pytest.raises(ValueError, match="example_input must be given: .* Bilinear"):
        gbt.balance(nn.Bilinear(2, 3, 4))


def test_scaling_and_approximate_families_stay():
    model = nn.Sequential(L(3, 4), nn.LayerNorm(4), nn.ReLU(), L(4, 2)).double()
    weight = model[0].weight.detach().clone()
    jump = gbt.balance(model)
    assert jump.skipped == {
        "0 (layer_norm)": "a normalisation removes its scale: there is nothing to balance"
    }
    assert torch.equal(model[0].weight, weight) and "not moved" in repr(jump)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_scales(scale):
    model = nn.Sequential(L(2, 3, bias=False), nn.ReLU(), L(3, 1, bias=False)).double()
    with torch.no_grad():
        model[0].weight *= scale
        model[2].weight /= scale
    jump = gbt.balance(model, torch.randn(4, 2).double())
    np.testing.assert_allclose(jump.after.ratio["0 -> 2 (relu)"], 1, rtol=1e-10)
    assert jump.difference < 1e-12


def test_units_without_a_balance_stay():
    """A unit with nothing going in, one with nothing coming out, and width one."""
    model = nn.Sequential(L(2, 3), nn.ReLU(), L(3, 1)).double()
    with torch.no_grad():
        model[0].weight[0] = model[0].bias[0] = 0.0
        model[2].weight[:, 1] = 0.0
    jump = gbt.balance(model)
    lam = jump.lam["0 -> 2 (relu)"]
    assert lam[0] == lam[1] == 0.0 and lam[2] != 0.0
    assert gbt.balance(nn.Sequential(L(1, 1), nn.ReLU(), L(1, 1)).double()).difference < 1e-12


def test_wrapped_models_and_those_without_symmetries():
    model = mlp()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model)
    before = model[0].weight.detach().clone()
    gbt.balance(compiled, torch.randn(4, 3).double())
    assert not torch.equal(model[0].weight, before)
    plain = nn.Sequential(L(2, 3), nn.Tanh(), L(3, 1))
    jump = gbt.balance(plain)
    assert jump.lam == {} and jump.difference == 0.0
