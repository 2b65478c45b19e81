"""Gradient noise against covariances from a plain loop over samples."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from gradbias.torch._find.family import Family, ParameterPart  # noqa: E402
from gradbias.torch._measure.noise import gradient_noise  # noqa: E402

torch.set_num_threads(1)


def neurons(before, after, units):
    unit = torch.arange(units)
    into = [ParameterPart(f"{before}.{end}", (0,), unit, 1.0) for end in ("weight", "bias")]
    return Family(
        f"{before} -> {after}",
        "rescaling",
        units,
        (*into, ParameterPart(f"{after}.weight", (1,), unit, -1.0)),
    )


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().flatten(1).sum(1).mean()


def mlp(n, key=0, dtype=torch.float64):
    torch.manual_seed(key)
    model = nn.Sequential(
        nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 2)
    ).to(dtype)
    batch = (torch.randn(n, 4, dtype=dtype), torch.randn(n, 2, dtype=dtype) + 1)
    return model, batch, [neurons("0", "2", 7), neurons("2", "4", 5)]


def brute_force(model, loss_fn, batch, families):
    """Σ on both sides and ḡᵀAḡ from one backward pass per sample."""
    names = [name for name, _ in model.named_parameters()]
    rows = []
    for i in range(len(batch[0])):
        loss = loss_fn(model, (batch[0][i : i + 1], batch[1][i : i + 1]))
        rows.append(torch.autograd.grad(loss, list(model.parameters())))
    stacked = {n: torch.stack([r[k] for r in rows]) for k, n in enumerate(names)}
    found = {}
    for family in families:
        variances = {n: g.var(0) for n, g in stacked.items()}
        ones = {n: torch.ones_like(v) for n, v in variances.items()}
        mean = {n: g.mean(0) for n, g in stacked.items()}
        into, out = (side.numpy() for side in family.halves(variances, ones))
        square = family.form(mean, mean).numpy() - (into - out) / len(rows)
        found[family.name] = (into, out, square)
    return found


@pytest.mark.parametrize("n", [2, 3, 37])
@pytest.mark.parametrize("method", ["linear", "vmap"])
def test_it_is_the_covariance_of_the_samples(method, n):
    model, batch, families = mlp(n)
    wanted = brute_force(model, squared, batch, families)
    for name, noise in gradient_noise(model, squared, batch, families, method=method).items():
        for got, want in zip((noise.into, noise.out, noise.mean_square), wanted[name], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
        assert noise.method == method and noise.samples == n


@pytest.mark.parametrize("method", ["linear", "vmap", "groups"])
def test_standard_errors_are_as_large_as_the_errors(method):
    """Truth: 5120 samples. Estimates: 20 batches of 256 of them; z-scores must look standard."""
    model, batch, families = mlp(5120)
    model[1], model[3] = nn.LeakyReLU(0.2), nn.LeakyReLU(0.2)  # no unit lives on a few samples
    truth = gradient_noise(model, squared, batch, families)
    found = [
        gradient_noise(
            model, squared, tuple(t[k : k + 256] for t in batch), families, method=method
        )
        for k in range(0, 5120, 256)
    ]
    scores = []
    for what, error in {
        "into": "into_error",
        "out": "out_error",
        "ratio": "standard_error",
    }.items():
        for name, true in truth.items():
            values = np.array([getattr(noises[name], what) for noises in found])
            errors = np.array([getattr(noises[name], error) for noises in found])
            # Of logarithms: squares have a long tail above, where errors are large too.
            scores.append((np.log(values / getattr(true, what)) * values / errors).ravel())
            if what != "ratio":  # the mean over batches is far closer: there is no bias
                off = (values.mean(0) - getattr(true, what)) / (values.std(0) / np.sqrt(20))
                assert np.abs(off).max() < 3
    z = np.concatenate(scores)
    assert np.mean(np.abs(z) < 3) > 0.96
    assert 0.8 < np.sqrt(np.mean(z**2)) < 1.4


def test_weights_shared_over_positions_are_not_taken_by_the_shortcut():
    """The same Linear layer on 3 tokens: its per-sample gradient is a sum over them."""
    model, _, families = mlp(1)
    batch = (torch.randn(9, 3, 4).double(), torch.randn(9, 3, 2).double())
    found = gradient_noise(model, squared, batch, families)
    wanted = brute_force(model, squared, batch, families)
    for name, noise in found.items():
        assert noise.method == "vmap"
        np.testing.assert_allclose(noise.into, wanted[name][0], rtol=1e-10)
    with pytest.raises(ValueError, match="method 'linear' needs.*use 'vmap'"):
        gradient_noise(model, squared, batch, families, method="linear")


def test_a_weight_used_elsewhere_too_is_not_taken_by_the_shortcut():
    model, batch, families = mlp(9)

    def penalised(model, batch):
        return squared(model, batch) + model[2].weight.square().sum()

    wanted = brute_force(model, penalised, batch, families)
    for name, noise in gradient_noise(model, penalised, batch, families).items():
        assert noise.method == "vmap"
        np.testing.assert_allclose(noise.out, wanted[name][1], rtol=1e-10)


def test_convolutions_and_little_memory():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 3, 2), nn.ReLU(), nn.Conv1d(3, 2, 2)).double()
    batch = (torch.randn(11, 2, 5).double(), torch.randn(11, 2, 3).double())
    families = [neurons("0", "2", 3)]
    wanted = brute_force(model, squared, batch, families)["0 -> 2"]
    for memory in (1, 5000, 2**28):
        noise = gradient_noise(model, squared, batch, families, memory=memory)["0 -> 2"]
        np.testing.assert_allclose(noise.into, wanted[0], rtol=1e-10)
        np.testing.assert_allclose(noise.out, wanted[1], rtol=1e-10)


def test_a_loss_that_cannot_be_taken_apart_is_measured_by_groups():
    model, batch, families = mlp(64)

    def looks_at_numbers(model, batch):  # .item() is not allowed under vmap
        loss = squared(model, batch)
        return loss if loss.item() < 1e9 else loss * 0

    def whole_batch(model, batch):  # not a mean over samples
        return (model(batch[0]).mean(0) - batch[1].mean(0)).square().sum()

    for layer in (model[0], model[2], model[4]):
        layer.__class__ = type("Other", (nn.Linear,), {})  # hidden from the shortcut
    for loss_fn in (looks_at_numbers, whole_batch):
        with pytest.warns(UserWarning, match="groups of samples"):
            found = gradient_noise(model, loss_fn, batch, families)
        assert {noise.method for noise in found.values()} == {"groups"}


def test_dead_units_have_no_ratio():
    model, batch, families = mlp(8)
    with torch.no_grad():
        model[0].bias[3] = -100.0
    noise = gradient_noise(model, squared, batch, families)["0 -> 2"]
    assert noise.dead.tolist() == [k == 3 for k in range(7)]
    assert np.isnan(noise.ratio[3]) and np.all(np.isfinite(np.delete(noise.ratio, 3)))


@pytest.mark.parametrize("scale", [1e-120, 1e120])
def test_extreme_scales(scale):
    model, batch, families = mlp(8)

    def tiny(model, batch):
        return scale * squared(model, batch)

    want = gradient_noise(model, squared, batch, families)["0 -> 2"]
    got = gradient_noise(model, tiny, batch, families)["0 -> 2"]
    np.testing.assert_allclose(got.into, scale**2 * want.into, rtol=1e-9)
    np.testing.assert_allclose(got.ratio, want.ratio, rtol=1e-9)


def test_float32_is_close():
    model, batch, families = mlp(64, dtype=torch.float32)
    found = gradient_noise(model, squared, batch, families)["0 -> 2"]
    precise = tuple(t.double() for t in batch)
    wanted = brute_force(model.double(), squared, precise, families)
    np.testing.assert_allclose(found.into, wanted["0 -> 2"][0], rtol=1e-5)


def test_wrong_arguments_are_named():
    model, batch, families = mlp(8)
    one = tuple(t[:1] for t in batch)
    with pytest.raises(ValueError, match="batch must have at least 2 samples.*got 1"):
        gradient_noise(model, squared, one, families)
    with pytest.raises(ValueError, match="method must be one of"):
        gradient_noise(model, squared, batch, families, method="exact")
    with pytest.raises(ValueError, match="not trained: 0.weight"):
        model[0].weight.requires_grad_(False)
        gradient_noise(model, squared, batch, families)
    model[0].weight.requires_grad_(True)
    with pytest.raises(ValueError, match="different names"):
        gradient_noise(model, squared, batch, [families[0], families[0]])
    with pytest.raises(ValueError, match="needs at least 4 samples, got 3"):
        gradient_noise(model, squared, tuple(t[:3] for t in batch), families, method="groups")
