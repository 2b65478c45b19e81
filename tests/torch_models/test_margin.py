"""The margin of a head against autograd, an exact solver, and other heads on the same features."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gradbias as gb  # noqa: E402
import gradbias.torch as gbt  # noqa: E402

torch.set_num_threads(1)
DUALS = {
    "frobenius": lambda G: np.linalg.norm(G),
    "max": lambda G: np.abs(G).sum(),
    "spectral": lambda G: np.linalg.svd(G, compute_uv=False).sum(),
}
NORMS = {
    "frobenius": lambda W: np.linalg.norm(W),
    "max": lambda W: np.abs(W).max(),
    "spectral": lambda W: np.linalg.svd(W, compute_uv=False).max(),
}


def blobs(n=60, d=5, k=3, seed=0):
    """Classes that a linear head can tell."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    X = 4 * np.eye(k, d)[y] + 0.5 * rng.normal(size=(n, d))
    return torch.tensor(X), torch.tensor(y)


def trained(head, features, labels, steps=300, lr=0.5):
    optimiser = torch.optim.SGD(head.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(head(features), labels).backward()
        optimiser.step()
    return head


def head_of(d, k, bias=False, seed=1):
    torch.manual_seed(seed)
    return nn.Linear(d, k, bias=bias).double()


@pytest.mark.parametrize("norm", DUALS)
def test_the_bounds_are_those_of_the_gradient(norm):
    """Lower by a loop over samples and classes; upper not above n‖∇L‖_*/Σ(1 − s_y)."""
    X, y = blobs()
    head = trained(head_of(5, 3), X, y)
    found = gbt.margin(head, (X, y), norm)
    W = head.weight.detach().numpy()
    pairs = [(i, k) for i in range(60) for k in range(3) if k != y[i]]
    lower = min(float((W[y[i]] - W[k]) @ X[i].numpy()) for i, k in pairs) / NORMS[norm](W)
    assert found.lower == pytest.approx(lower, rel=1e-12)
    nn.functional.cross_entropy(head(X), y, reduction="sum").backward()
    wrong = 1 - torch.softmax(head(X), 1)[torch.arange(60), y]
    G = -head.weight.grad.numpy() if head.weight.grad is not None else np.zeros((3, 5))
    assert found.upper <= DUALS[norm](G) / float(wrong.detach().sum()) * (1 + 1e-9)
    np.testing.assert_allclose(found.weights, (wrong / wrong.sum()).detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize(("norm", "geometry"), [("frobenius", gb.geometry.L2), ("max", "Linf")])
@pytest.mark.parametrize("steps", [0, 20, 2000])
def test_the_best_margin_lies_between(norm, geometry, steps):
    """At any stage of training: γ from the exact solver of `gb.Classification`."""
    X, y = blobs(30, 4)
    geometry = getattr(gb.geometry, geometry) if isinstance(geometry, str) else geometry
    best = gb.Classification(X.numpy(), y.numpy(), "cross_entropy").max_margin(geometry).gamma
    found = gbt.margin(trained(head_of(4, 3), X, y, steps), (X, y), norm)
    assert found.lower <= best * (1 + 1e-9) and found.upper >= best * (1 - 1e-9)
    same = gbt.margin(trained(head_of(4, 3), X, y, steps), (X, y), geometry)
    assert (same.lower, same.upper) == pytest.approx((found.lower, found.upper), rel=1e-12)


def test_a_head_trained_to_the_end_closes_the_band():
    X, y = blobs(30, 4)
    early = gbt.margin(trained(head_of(4, 3), X, y, 20), (X, y))
    late = gbt.margin(trained(head_of(4, 3), X, y, 5000, 2.0), (X, y))
    assert late.share > 0.85 > early.share
    assert early.upper >= late.lower
    assert "no head on these features can exceed" in str(late) and "of the best" in str(late)


def test_a_bias_is_the_weight_of_a_constant_feature():
    X, y = blobs()
    head = trained(head_of(5, 3, bias=True), X, y, 50)
    plain = head_of(6, 3)
    with torch.no_grad():
        plain.weight.copy_(torch.column_stack([head.weight, head.bias]))
    ones = torch.column_stack([X, torch.ones(len(X), dtype=X.dtype)])
    with_bias = gbt.margin(head, (X, y))
    without = gbt.margin(plain, (ones, y))
    assert (with_bias.lower, with_bias.upper) == pytest.approx((without.lower, without.upper))


def test_one_output_is_two_classes():
    X, y = blobs(40, 4, 2)
    head = head_of(4, 1)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[-1.0, 1.0, 0.0, 0.0]]))
    signs = 2 * y.numpy() - 1
    best = gb.Classification(X.numpy(), signs).max_margin().gamma
    found = gbt.margin(head, (X, y))
    margins = signs * (X.numpy() @ head.weight.detach().numpy().ravel())
    assert found.lower == pytest.approx(margins.min() / 2**0.5)
    assert found.lower <= best <= found.upper * (1 + 1e-12)


def test_batches_of_a_loader_add_up_and_features_are_those_of_the_net():
    """In float32, in evaluation mode, and nothing of the model is changed."""
    X, y = blobs()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Dropout(0.5), nn.Linear(7, 3))
    before = [p.clone() for p in net.parameters()]
    data = torch.utils.data.TensorDataset(X.float(), y)
    loader = torch.utils.data.DataLoader(data, batch_size=7)
    found = gbt.margin(net, loader)
    whole = gbt.margin(net, (X.float(), y))
    np.testing.assert_allclose(found.weights, whole.weights, rtol=1e-5)
    assert (found.lower, found.upper) == pytest.approx((whole.lower, whole.upper), rel=1e-5)
    assert found.head == "3" and net.training
    features = net.eval()[:3](X.float()).detach().double()
    head = nn.Linear(7, 3).double()
    head.load_state_dict({n: v.double() for n, v in net[3].state_dict().items()})
    assert gbt.margin(head, (features, y)).upper == pytest.approx(whole.upper, rel=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_digits_cost_one_pass_and_say_who_carries_the_weight():
    """All 1797 images: a better head lies below what a worse one proves."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    X = torch.tensor(pixels / 16)
    y = torch.tensor(digits)
    calls = []
    worse = trained(head_of(64, 10), X, y, 100)
    worse.register_forward_hook(lambda *_: calls.append(1))
    first = gbt.margin(worse, (X, y))
    assert len(calls) == 1 and not first.separates and first.lower < 0
    assert f"gets {len(first.wrong)} samples wrong" in str(first)
    head = head_of(64, 10)
    optimiser = torch.optim.LBFGS(
        head.parameters(), max_iter=400, history_size=20, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(head(X), y)
        loss.backward()
        return loss

    optimiser.step(closure)
    found = gbt.margin(head, (X, y))
    assert found.separates and 0 < found.lower <= first.upper
    heavy = found.heaviest()
    assert found.weights[heavy].sum() >= 0.9 > found.weights[heavy[:-1]].sum()


def test_weights_do_not_underflow():
    """Margins of thousands: as a head of margins of order one, but sharper."""
    X, y = blobs()
    head = trained(head_of(5, 3), X, y)
    with torch.no_grad():
        head.weight *= 1000
    found = gbt.margin(head, (X, y))
    assert np.isfinite(found.upper) and found.weights.sum() == pytest.approx(1)
    assert found.lower <= found.upper


@pytest.mark.parametrize(
    ("model", "batch", "words"),
    [
        (nn.Sequential(nn.Linear(3, 2), nn.Tanh()), (torch.ones(4, 3), torch.ones(4)), "Linear"),
        (nn.Linear(3, 2), torch.ones(4, 3), r"\(inputs, labels\)"),
        (nn.Linear(3, 2), (torch.ones(4, 3), 2 * torch.ones(4)), "from 0 to 1"),
        (nn.Linear(3, 2), (torch.ones(4, 5, 3), torch.ones(4)), "samples, features"),
    ],
)
def test_what_it_cannot_take(model, batch, words):
    with pytest.raises(ValueError, match=words):
        gbt.margin(model, batch)


def test_an_unknown_norm_and_an_empty_loader():
    with pytest.raises(ValueError, match="geometry must be one of"):
        gbt.margin(nn.Linear(3, 2), (torch.ones(4, 3), torch.ones(4)), "nuclear norm")
    with pytest.raises(ValueError, match="at least one batch"):
        gbt.margin(nn.Linear(3, 2), iter([]))
