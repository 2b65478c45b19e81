"""κ and γ of a setup, and the hypotheses that most theorems of the paper share."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup
from .. import _shared_hypotheses as common
from .._hypothesis import Hypothesis, kind
from .._per_setup import fact


@fact
def kappa(setup: Setup) -> float:
    """κ = lr/S of minibatches, smaller without replacement; lr with any other noise, 0 without."""
    noise: Any = getattr(setup.dynamics, "noise", None)
    batch, lr = common.minibatch(setup), common.learning_rate(setup)
    if noise is None:
        return 0.0
    n = getattr(setup.problem, "n", None)
    if batch is None:
        return lr
    return lr / batch.batch_size if n is None else lr * float(batch.compact_moments(n)[0]) / n


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
    problem: Any = setup.problem
    W1, W2 = setup.params["W1"], setup.params["W2"]
    Sx, Se = problem.sigma_x, problem.sigma_eps
    entering = float(np.trace(Se) * np.sum((Sx @ W1) * W1))
    leaving = float(np.trace(Sx) * np.sum((W2 @ Se) * W2))
    return kappa(setup) * (entering + leaving) / float(np.trace(Se))
