"""What makes numbers meaningless is said before there are any."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from gradbias.torch._measure.batches import held, leaves, mapped, part, size  # noqa: E402
from gradbias.torch._measure.repeatable import check_repeatable  # noqa: E402
from gradbias.torch._measure.undisturbed import trainable, undisturbed  # noqa: E402

torch.set_num_threads(1)
X, Y = torch.randn(6, 3), torch.randn(6, 2)


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().mean()


def net(*middle):
    return nn.Sequential(nn.Linear(3, 4), *middle, nn.Linear(4, 2))


def test_a_plain_model_passes_and_is_left_alone():
    model = net(nn.ReLU())
    found = check_repeatable(model, squared, (X, Y))
    loss = squared(model, (X, Y))
    loss.backward()
    assert found.loss == loss.item() and found.difference == 0 and found.half == ()
    for name, p in model.named_parameters():
        assert torch.equal(found.gradient[name], p.grad)


@pytest.mark.parametrize("module", [nn.Dropout(0.1), nn.AlphaDropout(0.2), nn.BatchNorm1d(4)])
def test_modules_in_training_mode_are_named(module):
    model = net(module)
    with pytest.raises(ValueError, match=r"in 1: .*all model.eval\(\)|mode in 1.*model.eval\(\)"):
        check_repeatable(model, squared, (X, Y))
    check_repeatable(model.eval(), squared, (X, Y))
    check_repeatable(net(nn.Dropout(0.0)), squared, (X, Y))  # does nothing


def test_a_random_loss_is_found_by_asking_twice():
    def augmented(model, batch):
        return squared(model, (batch[0] + 0.1 * torch.randn_like(batch[0]), batch[1]))

    def dropped(model, batch):
        return squared(lambda x: nn.functional.dropout(model(x), 0.5), batch)

    for loss_fn in (augmented, dropped):
        with pytest.raises(ValueError, match="same gradient twice.*relative difference"):
            check_repeatable(net(), loss_fn, (X, Y))


def test_half_precision_is_measured_with_a_warning():
    def mixed(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return squared(model, batch)

    with pytest.warns(UserWarning, match="0 computes in half precision.*without autocast"):
        check_repeatable(net(), mixed, (X, Y))
    with pytest.warns(UserWarning, match="half precision"):
        check_repeatable(net().bfloat16(), squared, (X.bfloat16(), Y.bfloat16()))


def test_autocast_around_the_call_is_taken_off():
    model = net()
    with torch.autocast("cpu", torch.bfloat16):
        found = check_repeatable(model, squared, (X, Y))
    assert found.loss == squared(model, (X, Y)).item()


@pytest.mark.parametrize(
    ("loss_fn", "said"),
    [
        (lambda m, b: (m(b[0]) - b[1]).square().mean(1), r"scalar tensor.*got \(6,\)"),
        (lambda m, b: squared(m, b).item(), "got float"),
        (lambda m, b: squared(m, b).detach(), "got one without a gradient"),
        (lambda m, b: squared(m, b) * float("nan"), "must be finite.*got a loss of nan"),
        (lambda m, b: squared(m, b).sub(squared(m, b)).sqrt(), "gradient that is not"),
    ],
)
def test_wrong_losses_are_named(loss_fn, said):
    with pytest.raises(ValueError, match=said):
        check_repeatable(net(), loss_fn, (X, Y))


def test_wrong_batches_are_named():
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=2)
    with pytest.raises(ValueError, match=r"got DataLoader: pass one batch, next\(iter\(loader\)\)"):
        size(loader)
    with pytest.raises(ValueError, match=r"got shapes \(6, 3\), \(5, 2\)"):
        size((X, Y[:5]))
    with pytest.raises(ValueError, match="first axis"):
        size((X, torch.tensor(1.0)))
    with pytest.raises(ValueError, match="got int without any"):
        size(3)
    with pytest.raises(ValueError, match="require a gradient, got none"):
        trainable(nn.ReLU())


def test_batches_of_every_shape():
    batch = {"x": X, "more": [Y, (X, "words")]}
    assert size(batch) == 6 and len(leaves(batch)) == 3
    few = part(batch, 1, 3)
    assert torch.equal(few["more"][1][0], X[1:3]) and few["more"][1][1] == "words"

    class Tokens(dict):
        pass

    assert type(mapped(lambda t: t + 1, Tokens(x=X))) is Tokens


def test_a_loader_is_asked_once_and_shuffling_is_said():
    data = torch.utils.data.TensorDataset(X, Y)
    plain = torch.utils.data.DataLoader(data, batch_size=4)
    kept = held(plain, net())
    assert torch.equal(kept[0], X[:4])
    kept[0].zero_()  # a copy
    assert not torch.equal(X[:4], kept[0])
    with pytest.warns(UserWarning, match="probe shuffles.*shuffle=False"):
        held(torch.utils.data.DataLoader(data, batch_size=4, shuffle=True), net())
    with pytest.raises(ValueError, match="empty loader"):
        held(iter(()), net())


def test_a_measurement_leaves_modes_and_random_numbers_alone():
    model = net(nn.Dropout(0.5), nn.BatchNorm1d(4))
    model[1].eval()
    with pytest.raises(RuntimeError), undisturbed(model):
        assert not any(m.training for m in model.modules())
        state = torch.get_rng_state()
        torch.randn(3)
        raise RuntimeError
    assert torch.equal(state, torch.get_rng_state())
    assert [m.training for m in model] == [True, False, True, True]
