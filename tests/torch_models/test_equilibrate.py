"""Equilibrate: equal gradient noise in and out, where the theory says it is."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import gradbias.torch as gbt  # noqa: E402
from gradbias.theory.symmetry import joint_equilibrium  # noqa: E402

torch.set_num_threads(1)
L = nn.Linear


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(1).mean()


def setting(dtype=torch.float64):
    torch.manual_seed(0)
    model = nn.Sequential(L(3, 5), nn.ReLU(), L(5, 4), nn.ReLU(), L(4, 2)).to(dtype)
    with torch.no_grad():
        model[0].weight *= 3
        model[4].weight *= 0.3
    x = torch.randn(40, 3).to(dtype)
    return model, (x, torch.randn(40, 2).to(dtype))


def by_hand(model, batch):
    """The variance of every parameter over single samples, by a loop."""
    rows = []
    for i in range(len(batch[0])):
        loss = squared(model, (batch[0][i : i + 1], batch[1][i : i + 1]))
        g = torch.autograd.grad(loss, list(model.parameters()))
        rows.append(torch.cat([t.flatten() for t in g]))
    return torch.stack(rows).var(0).numpy()


def flat(tensors):
    return torch.cat([t.detach().flatten() for t in tensors]).numpy()


@pytest.mark.parametrize(("kappa", "gamma"), [(1.0, 0.0), (0.02, 0.3)])
def test_it_is_where_the_theory_says(kappa, gamma):
    model, batch = setting()
    params = dict(model.named_parameters())
    families = gbt.symmetries(model, batch[0])
    ones = {n: torch.ones_like(p.detach()) for n, p in params.items()}
    mu = [
        flat((ones | f.move(ones, unit)).values()).copy()
        for f in families
        for unit in torch.eye(f.units).double()
    ]
    theta2 = flat(params.values()) ** 2
    expected = joint_equilibrium(np.log(mu), by_hand(model, batch), theta2, kappa, gamma)
    outputs = model(batch[0]).detach()
    jump = gbt.equilibrate(model, squared, batch, kappa=kappa, gamma=gamma)
    np.testing.assert_allclose(np.concatenate([*jump.lam.values()]), expected.lam, atol=1e-8)
    change = (model(batch[0]).detach() - outputs).abs().max() / outputs.abs().max()
    assert float(change) <= 1e-10 and jump.difference <= 1e-10
    after = kappa * by_hand(model, batch).sum() + 4 * gamma * (flat(model.parameters()) ** 2).sum()
    assert after == pytest.approx(expected.potential[1], rel=1e-9)
    assert after < 0.9 * expected.potential[0]


def test_the_noise_is_balanced_and_norms_are_not():
    """And the other way round for `balance`: they are two different points."""
    model, batch = setting()
    jump = gbt.equilibrate(model, squared, batch)
    for noise in jump.after.noise.values():
        np.testing.assert_allclose(noise.ratio, 1, rtol=1e-8)
    assert max(np.abs(np.log(r)).max() for r in jump.after.ratio.values()) > 0.1
    assert jump.before.sharpness.value > jump.after.sharpness.value > 0
    assert "noise in/out" in repr(jump) and "sharpness" in repr(jump)
    jump.undo()
    other = gbt.balance(model, loss_fn=squared, batch=batch)
    assert max(np.abs(np.log(n.ratio)).max() for n in other.after.noise.values()) > 0.1


def test_the_noise_of_a_deep_chain_is_balanced():
    torch.manual_seed(1)
    layers = [layer for _ in range(20) for layer in (L(4, 4), nn.LeakyReLU())]
    model = nn.Sequential(*layers, L(4, 2)).double()
    with torch.no_grad():
        for layer in model[::2]:
            layer.weight.copy_(nn.init.orthogonal_(layer.weight) * 1.2)
    batch = (torch.randn(20, 4).double(), torch.randn(20, 2).double())
    jump = gbt.equilibrate(model, squared, batch)
    assert jump.sweeps < 12 and jump.left < 1e-12 and jump.difference < 1e-10
    for noise in jump.after.noise.values():
        np.testing.assert_allclose(noise.ratio, 1, rtol=1e-9)


def test_starts_of_one_orbit_end_at_one_point():
    model, batch = setting()
    gbt.equilibrate(model, squared, batch)
    first = flat(model.parameters()).copy()
    families = gbt.symmetries(model, batch[0])
    with torch.no_grad():
        for family in families:
            params = {n: p.detach() for n, p in model.named_parameters()}
            for name, value in family.move(params, torch.randn(family.units).double()).items():
                model.get_parameter(name).copy_(value)
    gbt.equilibrate(model, squared, batch)
    np.testing.assert_allclose(flat(model.parameters()), first, rtol=1e-6, atol=1e-9)


def test_float32_a_loader_and_an_optimiser():
    model, batch = setting(torch.float32)
    loader = DataLoader(TensorDataset(*batch), batch_size=16)  # 16, 16 and 8
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    squared(model, batch).backward()
    optimizer.step()
    outputs = model(batch[0]).detach()
    moment = optimizer.state[model[0].weight]["exp_avg_sq"].clone()
    whole = gbt.equilibrate(model, squared, batch)
    whole.undo()
    jump = gbt.equilibrate(model, squared, loader, optimizer=optimizer)
    for name, lam in whole.lam.items():
        np.testing.assert_allclose(jump.lam[name], lam, atol=1e-5)
    change = (model(batch[0]).detach() - outputs).abs().max() / outputs.abs().max()
    assert float(change) <= 1e-5
    lam = torch.from_numpy(jump.lam["0 -> 2 (relu)"]).float()
    expected = moment * torch.exp(-2 * lam)[:, None]
    torch.testing.assert_close(optimizer.state[model[0].weight]["exp_avg_sq"], expected)


def test_losses_without_single_gradients():
    """A loss that vmap cannot follow: groups of samples, with a warning."""
    model, batch = setting()

    def odd(model, batch):
        loss = squared(model, batch)
        return loss * (1.0 if float(loss.detach()) > -1 else 2.0)

    exact = gbt.equilibrate(model, squared, batch)
    exact.undo()
    with pytest.warns(UserWarning, match="per-sample gradients were not possible"):
        jump = gbt.equilibrate(model, odd, batch)
    near = [np.corrcoef(jump.lam[n], exact.lam[n])[0, 1] for n in exact.lam]
    assert min(near) > 0.7 and jump.difference <= 1e-10


def test_dead_units_stay():
    model, batch = setting()
    with torch.no_grad():
        model[0].bias[1] = -1e3
    jump = gbt.equilibrate(model, squared, batch)
    lam = jump.lam["0 -> 2 (relu)"]
    assert lam[1] == 0.0 and np.all(lam[[0, 2, 3, 4]] != 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kappa": 0.0}, "kappa must be greater than 0"),
        ({"gamma": -1.0}, "gamma must be at least 0"),
        ({"batches": 0}, "batches must be a whole number of at least 1"),
    ],
)
def test_wrong_arguments_are_refused(more, words):
    model, batch = setting()
    with pytest.raises(ValueError, match=words):
        gbt.equilibrate(model, squared, batch, **more)


def test_wrong_data_are_refused():
    model, batch = setting()
    with pytest.raises(ValueError, match="loader must hold at least one batch"):
        gbt.equilibrate(model, squared, iter([]))
    with pytest.raises(ValueError, match="must call the model"):
        gbt.equilibrate(model, lambda m, b: b[0].sum(), batch)
    with pytest.raises(ValueError, match="at least 2 samples"):
        gbt.equilibrate(model, squared, (batch[0][:1], batch[1][:1]))
