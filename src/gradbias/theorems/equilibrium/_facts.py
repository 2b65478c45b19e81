"""κ and γ of a setup, and the hypotheses that most theorems of the paper share."""

import numpy as np

from ...nets import TwoLayer
from ...noise import Noise
from ..prelude import Hypothesis, Setup, common, fact, kind


@fact
def kappa(setup: Setup) -> float:
    """κ = lr/S of minibatches, smaller without replacement; lr with any other noise, 0 without."""
    noise = getattr(setup.dynamics, "noise", None)
    batch = common.minibatch(setup)
    lr = common.learning_rate(setup)
    if noise is None:
        return 0.0
    n = getattr(setup.problem, "n", None)
    if batch is None:
        return lr
    return lr / batch.batch_size if n is None else lr * float(batch.compact_moments(n)[0]) / n


def noise_of(setup: Setup) -> Noise:
    """The noise of a step, known to be there."""
    noise = getattr(setup.dynamics, "noise", None)
    assert isinstance(noise, Noise)
    return noise


def two_layer(setup: Setup) -> TwoLayer:
    """The net of a factorisation."""
    assert isinstance(setup.net, TwoLayer)
    return setup.net


def decay(setup: Setup) -> float:
    """γ."""
    return common.weight_decay(setup)


def minibatches() -> Hypothesis:
    """Steps see minibatches, not all samples."""
    return kind(
        "the noise is that of minibatches",
        lambda s: common.minibatch(s) is not None and kappa(s) > 0,
    )


def symmetric() -> Hypothesis:
    """The net lists its symmetries."""
    return kind("the net has symmetries", lambda s: bool(s.net.symmetries()))


def no_momentum() -> Hypothesis:
    """There is no momentum."""
    return Hypothesis("there is no momentum", lambda s: common.number(s, "momentum"), 0.0)


def constant_lr() -> Hypothesis:
    """The learning rate is one number."""
    return kind("the learning rate is constant", lambda s: common.learning_rate(s) > 0)


def sgd() -> list[Hypothesis]:
    """Minibatches, one learning rate, no momentum."""
    return [constant_lr(), no_momentum(), minibatches()]


def misadjustment(setup: Setup) -> float:
    """How much the noise of a factorisation raises its loss above the minimum: κ TrΣ/4L there."""
    problem = common.population(setup)
    W1 = setup.params["W1"]
    W2 = setup.params["W2"]
    Sx = problem.sigma_x
    Se = problem.sigma_eps
    entering = float(np.trace(Se) * np.sum((Sx @ W1) * W1))
    leaving = float(np.trace(Sx) * np.sum((W2 @ Se) * W2))
    return kappa(setup) * (entering + leaving) / float(np.trace(Se))
