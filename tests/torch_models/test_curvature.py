"""Sharpness and trace against the dense Hessian and two foreign libraries."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from gradbias.torch._measure.curvature import hessian_trace, sharpness  # noqa: E402
from gradbias.torch._measure.hessian import Hessian  # noqa: E402

torch.set_num_threads(1)


def squared(model, batch):
    return (model(batch[0]) - batch[1]).square().mean()


def case(name):
    torch.manual_seed(0)
    x, y = torch.randn(20, 3).double(), torch.randn(20, 2).double()
    if name == "mlp":
        return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2)).double(), squared, (x, y)
    if name == "one weight":
        return nn.Linear(1, 1, bias=False).double(), squared, (x[:, :1], y[:, :1])
    layer = nn.TransformerEncoderLayer(4, 2, 5, batch_first=True, activation="gelu")
    model = nn.Sequential(layer, nn.Linear(4, 2)).double().eval()
    return model, squared, (torch.randn(5, 3, 4).double(), torch.randn(5, 3, 2).double())


def dense(model, loss_fn, batch):
    """Second derivatives one by one, by differences of gradients: not by the same autodiff."""
    params = list(model.parameters())
    start = nn.utils.parameters_to_vector(params).detach()

    def slope(theta):
        nn.utils.vector_to_parameters(theta, params)
        found = torch.autograd.grad(loss_fn(model, batch), params, allow_unused=True)
        return torch.cat(
            [
                (torch.zeros_like(p) if g is None else g).reshape(-1)
                for g, p in zip(found, params, strict=True)
            ]
        )

    h = 1e-5
    rows = [
        (slope(start + h * e) - slope(start - h * e)) / (2 * h)
        for e in torch.eye(len(start)).double()
    ]
    nn.utils.vector_to_parameters(start, params)
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("name", ["mlp", "one weight", "attention"])
def test_both_are_those_of_the_dense_hessian(name):
    model, loss_fn, batch = case(name)
    matrix = dense(model, loss_fn, batch)
    top = np.linalg.eigvalsh(matrix)[-1]
    found = sharpness(model, loss_fn, batch, tolerance=1e-5)
    assert found.converged and found.residual <= 1e-5 * top
    assert abs(found.value - top) < 1e-6 * top
    assert found.lr == 2 / found.value
    trace = hessian_trace(model, loss_fn, batch, probes=200)
    assert abs(trace.value - np.trace(matrix)) < 3 * trace.standard_error + 1e-8
    deflated = hessian_trace(model, loss_fn, batch, probes=20, deflate=len(matrix))
    assert abs(deflated.value - np.trace(matrix)) < 1e-6 * top


def test_trace_errors_are_as_large_as_they_say_and_deflation_makes_them_smaller():
    model, loss_fn, batch = case("mlp")
    truth = np.trace(dense(model, loss_fn, batch))
    plain = [hessian_trace(model, loss_fn, batch, probes=16, key=k) for k in range(20)]
    z = [(t.value - truth) / t.standard_error for t in plain]
    assert 0.7 < np.sqrt(np.mean(np.square(z))) < 1.4
    deflated = [
        hessian_trace(model, loss_fn, batch, probes=16, deflate=12, key=k) for k in range(5)
    ]
    assert np.mean([t.standard_error for t in deflated]) < 0.5 * plain[0].standard_error


def test_hessian_eigenthings_agrees():
    foreign = pytest.importorskip("hessian_eigenthings")
    model, loss_fn, batch = case("mlp")
    operator = foreign.HessianOperator(model, [batch], lambda model, batch: squared(model, batch))
    top = float(foreign.lanczos(operator, k=1, max_iter=38, tol=1e-8, which="LA").eigenvalues[0])
    found = sharpness(model, loss_fn, batch, tolerance=1e-6)
    assert abs(found.value - top) < 1e-5 * top
    theirs = foreign.hutchinson(operator, num_samples=200, seed=0)
    ours = hessian_trace(model, loss_fn, batch, probes=200)
    spread = np.hypot(ours.standard_error, float(theirs.stderr))
    assert abs(ours.value - float(theirs.estimate)) < 3 * spread


def test_pyhessian_agrees():
    foreign = pytest.importorskip("pyhessian")
    model, loss_fn, batch = case("mlp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it calls backward(create_graph=True)
        theirs = foreign.hessian(model, nn.MSELoss(), data=batch, cuda=False)
        top = theirs.eigenvalues(maxIter=500, tol=1e-8)[0][0]
        traces = theirs.trace(maxIter=200, tol=0)
    found = sharpness(model, loss_fn, batch, tolerance=1e-6)
    assert abs(found.value - top) < 1e-4 * top
    ours = hessian_trace(model, loss_fn, batch, probes=200)
    spread = np.hypot(ours.standard_error, np.std(traces) / np.sqrt(len(traces)))
    assert abs(ours.value - np.mean(traces)) < 3 * spread


def test_little_memory_starts_again_and_finds_the_same():
    model, loss_fn, batch = case("mlp")
    free = sharpness(model, loss_fn, batch, tolerance=1e-4)
    tight = sharpness(model, loss_fn, batch, tolerance=1e-4, memory=4 * 8 * 38, iterations=300)
    assert tight.converged and abs(tight.value - free.value) < 1e-4 * free.value
    assert tight.iterations > free.iterations


def test_a_start_saves_work_but_does_not_lock_in():
    model, loss_fn, batch = case("mlp")
    values, vectors = np.linalg.eigh(dense(model, loss_fn, batch))
    cold = sharpness(model, loss_fn, batch, tolerance=1e-3)
    warm = sharpness(model, loss_fn, batch, tolerance=1e-3, start=cold.vector)
    assert warm.residual < 0.1 * cold.residual
    second = sharpness(model, loss_fn, batch, start=torch.tensor(vectors[:, -2]), iterations=300)
    assert abs(second.value - values[-1]) < 0.02 * values[-1]
    with pytest.raises(ValueError, match="start must be a finite vector of 38 entries"):
        sharpness(model, loss_fn, batch, start=torch.ones(3))


def test_it_says_when_it_has_not_converged():
    model, loss_fn, batch = case("mlp")
    found = sharpness(model, loss_fn, batch, tolerance=1e-9, iterations=3)
    assert not found.converged and found.residual > 1e-9 * found.value
    top = np.linalg.eigvalsh(dense(model, loss_fn, batch))[-1]
    assert found.value <= top * (1 + 1e-9)


def test_flat_and_curved_down():
    model = nn.Linear(2, 1, bias=False).double()
    x = torch.eye(2).double()
    flat = sharpness(model, lambda m, b: 2 * m(b).mean(), x)
    assert flat.value == 0 and flat.lr == np.inf
    assert hessian_trace(model, lambda m, b: 2 * m(b).mean(), x).value == 0
    down = sharpness(model, lambda m, b: -2 * m(b).square().mean(), x)
    assert abs(down.value + 2) < 1e-9 and down.lr == np.inf


def test_scales_from_tiny_to_huge():
    for scale in (1e-100, 1e100):
        model = nn.Linear(2, 1, bias=False).double()
        x = torch.diag(torch.tensor([1.0, 2.0])).double()
        found = sharpness(
            model, lambda m, b, s=scale: 2 * s * m(b).square().mean(), x, tolerance=1e-6
        )
        assert abs(found.value / scale - 8) < 1e-6


def test_float32_and_parameters_that_are_not_used():
    model, loss_fn, batch = case("mlp")
    wanted = sharpness(model, loss_fn, batch, tolerance=1e-4).value
    model.float().add_module("unused", nn.Linear(2, 2))
    found = sharpness(
        model, lambda m, b: squared(m[:3], b), tuple(t.float() for t in batch), tolerance=1e-3
    )
    assert abs(found.value - wanted) < 1e-3 * wanted


def test_the_gradient_of_the_trace():
    """vᵀHv of a net, differentiated by differences."""
    model, loss_fn, batch = case("attention")
    params = list(model.parameters())
    start = nn.utils.parameters_to_vector(params).detach()
    torch.manual_seed(3)
    v, direction = torch.randn_like(start), torch.randn_like(start)

    def form(h):
        nn.utils.vector_to_parameters(start + h * direction, params)
        return float(v @ (Hessian(model, loss_fn, batch) @ v))

    slope = (8 * (form(1e-3) - form(-1e-3)) - (form(2e-3) - form(-2e-3))) / 12e-3
    nn.utils.vector_to_parameters(start, params)
    hessian = Hessian(model, loss_fn, batch)
    assert abs(float(hessian.slope(v) @ direction) - slope) < 1e-5 * abs(slope)
    linear = Hessian(
        nn.Linear(2, 1).double(), lambda m, b: 2 * m(b).square().mean(), torch.eye(2).double()
    )
    assert linear.slope(torch.ones(3).double()).abs().max() < 1e-9


def test_the_model_is_as_it_was():
    model, loss_fn, batch = case("mlp")
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.get_rng_state()
    sharpness(model, loss_fn, batch)
    hessian_trace(model, loss_fn, batch, probes=2)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_wrong_arguments_are_named():
    model, loss_fn, batch = case("mlp")
    with pytest.raises(ValueError, match="tolerance must be greater than 0"):
        sharpness(model, loss_fn, batch, tolerance=0)
    with pytest.raises(ValueError, match="probes must be a whole number of at least 2"):
        hessian_trace(model, loss_fn, batch, probes=1)
    with pytest.raises(ValueError, match="twice differentiable"):  # torch cannot, for p = 3
        sharpness(model, lambda m, b: torch.cdist(m(b[0]), b[1], p=3.0).sum(), batch)
