"""Descent, Adam and the closure of both against torch.optim, on the same batches."""

import numpy as np
import pytest

import gradbias as gb
from cases import case, minibatches

torch = pytest.importorskip("torch")

STEPS = 200
LR = 0.02
DECAY = 0.1

# name -> (dynamics of a noise law, torch's)
SAME = {
    "sgd": (lambda n: gb.Descent(LR, n), lambda p: torch.optim.SGD(p, LR)),
    "heavy ball and decay": (
        lambda n: gb.Descent(LR / 5, n, 0.9, DECAY / 2),
        lambda p: torch.optim.SGD(p, LR / 5, momentum=0.9, weight_decay=DECAY),
    ),
    "nesterov": (
        lambda n: gb.Descent(LR / 5, n, 0.9, nesterov=True),
        lambda p: torch.optim.SGD(p, LR / 5, momentum=0.9, nesterov=True),
    ),
    "nesterov and decay": (
        lambda n: gb.Descent(LR / 5, n, 0.9, DECAY / 2, nesterov=True),
        lambda p: torch.optim.SGD(p, LR / 5, momentum=0.9, weight_decay=DECAY, nesterov=True),
    ),
    "adam": (lambda n: gb.Adam(LR / 4, noise=n), lambda p: torch.optim.Adam(p, LR / 4)),
    "adam and decay": (
        lambda n: gb.Adam(LR / 4, (0.8, 0.95), 0.01, DECAY, decoupled=False, noise=n),
        lambda p: torch.optim.Adam(p, LR / 4, (0.8, 0.95), 0.01, DECAY),
    ),
    "adamw": (
        lambda n: gb.Adam(LR / 4, weight_decay=DECAY, noise=n),
        lambda p: torch.optim.AdamW(p, LR / 4, weight_decay=DECAY),
    ),
    # With ε = 0.01 such a path makes 2e-4 of 1e-15 in 200 steps; with 0.3 it keeps 3e-15.
    "adam without memory of the gradient": (
        lambda n: gb.Adam(LR / 4, (0.0, 0.99), 0.3, noise=n),
        lambda p: torch.optim.Adam(p, LR / 4, (0.0, 0.99), 0.3),
    ),
    "adamw, other betas": (
        lambda n: gb.Adam(LR / 4, (0.5, 0.9), 0.1, DECAY, noise=n),
        lambda p: torch.optim.AdamW(p, LR / 4, (0.5, 0.9), 0.1, DECAY),
    ),
}


def walk(problem, params, make, batches, lr=None):
    """What torch's optimiser makes of these layers, by its own automatic differentiation."""
    X = torch.tensor(np.asarray(problem.X))
    Y = torch.tensor(np.asarray(problem.labels))
    layers = {n: torch.tensor(np.array(p), requires_grad=True) for n, p in params.items()}
    optimiser = make(list(layers.values()))
    for k in range(STEPS):
        if lr is not None:
            optimiser.param_groups[0]["lr"] = lr(k)
        rows = torch.arange(len(X)) if batches is None else torch.tensor(batches[k])
        outputs = X[rows]
        for layer in layers.values():
            outputs = outputs @ layer
        loss = float(problem.weight) * len(X) / len(rows) * ((outputs - Y[rows]) ** 2).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {n: layer.detach().numpy() for n, layer in layers.items()}


def assert_same(net, dynamics, make, batches, lr=None):
    problem, net, params = case(net)
    wanted = walk(problem, params, make, batches, lr)
    setup = gb.Setup(problem, net, params, dynamics, gb.Until(steps=STEPS), save_at=[STEPS])
    final = gb.simulate(setup).final
    for name, value in wanted.items():
        np.testing.assert_allclose(final[name], value, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("batches", ["all", "two"])
@pytest.mark.parametrize("net", ["two layers", "deep"])
def test_the_same_path(name, batches, net):
    ours, theirs = SAME[name]
    some = None if batches == "all" else minibatches()
    noise = None if some is None else gb.Replay(some)
    assert_same(net, ours(noise), theirs, some)


def test_a_schedule():
    def lr(k):
        return LR / 4 if k < 60 else LR / 8

    ours = gb.Adam(lr, weight_decay=DECAY, noise=gb.Replay(minibatches()))
    assert_same(
        "two layers",
        ours,
        lambda p: torch.optim.AdamW(p, LR, weight_decay=DECAY),
        minibatches(),
        lr,
    )


@pytest.mark.parametrize("adjust", ["original", "match_rms_adamw"])
@pytest.mark.parametrize("nesterov", [True, False])
def test_muon_is_torchs_but_for_its_bfloat16(nesterov, adjust):
    """One step along a gradient of full rank: torch iterates in bfloat16, of three digits."""
    momentum, lr = 0.95, 0.01
    X, Y = np.diag([1.0, 2.0, 3.0]), np.diag([3.0, 1.0, 0.7])
    problem = gb.Regression(X, Y, 0.5)
    net = gb.Deep([3, 3])
    params = gb.init.gaussian(net, 0.1, key=1)
    layer = torch.tensor(np.array(params["W1"]), requires_grad=True)
    optimiser = torch.optim.Muon(
        *([layer], lr),
        **{"weight_decay": DECAY, "momentum": momentum, "nesterov": nesterov},
        adjust_lr_fn=adjust,
    )
    (0.5 * ((torch.tensor(X) @ layer - torch.tensor(Y)) ** 2).sum()).backward()
    optimiser.step()
    wanted = (1 - lr * DECAY) * params["W1"] - layer.detach().numpy()
    scale = 1.0 if adjust == "original" else 0.2 * 3**0.5
    ours = gb.Muon(lr, momentum, nesterov, "newton_schulz", DECAY, scale)
    final = gb.simulate(gb.Setup(problem, net, params, ours, gb.Until(steps=1))).final
    step = (1 - lr * DECAY) * params["W1"] - final["W1"]
    np.testing.assert_allclose(step, wanted, rtol=0, atol=0.02 * lr)
