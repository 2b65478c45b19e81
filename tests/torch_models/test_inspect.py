"""The first call: a table that is true, and advice that was tried."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)
L = nn.Linear


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().sum(1).mean()


def setting(scales=(1.0, 1.0, 1.0)):
    torch.manual_seed(0)
    model = nn.Sequential(L(8, 16), nn.ReLU(), L(16, 16), nn.ReLU(), L(16, 3)).double()
    with torch.no_grad():
        for layer, scale in zip((0, 2, 4), scales, strict=True):
            model[layer].weight *= scale
    x = torch.randn(64, 8).double()
    return model, (x, torch.randn(64, 3).double())


def test_a_mis_scaled_net_is_told_to_balance():
    model, batch = setting((4.0, 1.0, 0.25))
    model.train()
    squared(model, batch).backward()
    before, gradient = copy.deepcopy(model.state_dict()), model[0].weight.grad.clone()
    state = torch.get_rng_state()
    seen = gbt.inspect(model, squared, batch)
    assert model.training and torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model[0].weight.grad, gradient)
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())

    (advice,) = seen.advice
    assert advice.sentence.startswith("Try balance(model)")
    assert advice.link == "docs/torch.md#balance"
    gbt.balance(model, batch[0])
    sharp = gbt.sharpness(model, squared, batch)
    assert advice.evidence["sharpness_after"] == pytest.approx(sharp.value, rel=0.02)
    assert advice.evidence["sharpness_before"] == seen.sharpness.value > 1.1 * sharp.value
    assert advice.evidence["difference"] <= 1e-10

    table = repr(seen)
    assert max(map(len, table.splitlines())) <= 80
    for word in ("0 -> 2 (relu)", "exact", "in/out norm", "in/out noise", "sharpness", "±"):
        assert word in table
    into = before["0.weight"].square().sum(1) + before["0.bias"] ** 2
    ratio = (into / before["2.weight"].square().sum(0)).sqrt()
    np.testing.assert_allclose(seen.imbalance["0 -> 2 (relu)"], ratio)
    assert seen.loss == pytest.approx(float(squared(copy_of(model, before), batch).detach()))


def copy_of(model, state):
    twin = copy.deepcopy(model)
    twin.load_state_dict(state)
    return twin


def test_a_balanced_net_is_left_alone():
    model, batch = setting()
    gbt.balance(model)
    assert gbt.inspect(model, squared, batch, lr=1e-3).advice == ()


def test_a_rate_that_diverges_is_named():
    model, batch = setting()
    gbt.balance(model)
    seen = gbt.inspect(model, squared, batch, lr=3.0)
    (advice,) = seen.advice
    assert advice.sentence.startswith("Start with a lower lr than 3")
    assert advice.evidence["loss_low_lr"] < seen.loss < advice.evidence["loss_high_lr"]
    assert advice.evidence["lr_allowed"] == seen.sharpness.lr < 3.0


def test_dead_units_are_counted_and_do_not_matter():
    model, batch = setting()
    gbt.balance(model)
    with torch.no_grad():
        model[0].bias[:3] = -1e3
    seen = gbt.inspect(model, squared, batch)
    # Their biases are out of balance, but no trial found that this matters: not said.
    assert seen.imbalance["0 -> 2 (relu)"].max() > 100
    (advice,) = seen.advice
    assert advice.evidence == {"dead": 3.0, "units": 32.0, "loss_change": 0.0}
    assert advice.sentence.startswith("3 of 32 units got no gradient from any sample (0 -> 2")


def test_a_net_without_symmetries_and_what_is_not_understood():
    model = nn.Sequential(L(3, 4), nn.Tanh(), L(4, 2))
    model[2].bias.requires_grad = False
    batch = (torch.randn(16, 3), torch.randn(16, 2))
    seen = gbt.inspect(model, squared, batch)
    assert "no symmetries" in repr(seen) and "frozen, not moved: 2.bias" in repr(seen)
    assert seen.sharpness.value > 0 and seen.imbalance == {}


def test_a_transformer_called_by_name_in_a_loss_of_its_own():
    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.norm = nn.Embedding(5, 4), nn.LayerNorm(4)
            self.attention = nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True)
            self.head = L(4, 5)

        def forward(self, *, words):
            x = self.words(words)
            y = self.norm(x)
            return self.head(x + self.attention(y, y, y, need_weights=False)[0])

    torch.manual_seed(0)
    model, words = Tiny(), torch.randint(0, 5, (16, 6))

    def loss(model, batch):
        logits = model(words=batch["words"][:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), batch["words"][:, 1:].flatten())

    seen = gbt.inspect(model, loss, {"words": words})
    names = [family.name for family in seen.symmetries]
    assert names == [
        "words, attention.out_proj -> head (layer_norm)",
        "norm -> attention",
        "attention -> attention (query-key)",
        "attention -> attention.out_proj (value-out)",
    ]
    # Only an epsilon keeps the stream's scale, from the words to the head, from being exact.
    assert [family.exact for family in seen.symmetries] == [False, True, True, True]
    assert "query-key" in repr(seen)


def test_wrong_arguments_are_refused():
    model, batch = setting()
    with pytest.raises(ValueError, match="lr must be greater than 0"):
        gbt.inspect(model, squared, batch, lr=0.0)
    with pytest.raises(ValueError, match="model must be a torch.nn.Module"):
        gbt.inspect(len, squared, batch)
    with pytest.raises(ValueError, match="must return the mean loss as a scalar"):
        gbt.inspect(model, lambda m, b: m(b[0]), batch)
    with pytest.raises(AttributeError, match="attribute inspekt"):
        _ = gbt.inspekt
