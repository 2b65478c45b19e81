"""Appendix D: label-noise descent and its stochastic differential equation, in one clock."""

from typing import Any

import numpy as np

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Diffusion
from ...noise import LabelNoise
from ...problems import Regression
from .._claims import measured
from .._theorem import Control, Ensemble, Theorem
from . import _instances_noise as cases
from ._facts import rate_of
from ._instances import LR, WIDTH, regression
from ._label_noise_end import FITTED, SMALL

MEMBERS, STEPS = 256, 400
LONGEST = 1000  # steps of so many members: the law is one of any time
RECORD = {"params": observe.params, "area": observe.running(cases.area)}


def both(setup: Setup) -> dict[str, Ensemble]:
    """Descent, and the SDE with noise √lr·δ in the time of gradient flow."""
    lr, noise = rate_of(setup), cases.noise_of(setup)
    assert noise is not None
    last = min(int(np.max(cases.steps_of(setup))), LONGEST)
    end = lr * last
    moves = Diffusion(lr, LabelNoise(float(noise.std)), lr / 8)
    flow = setup.replace(dynamics=moves, until=Until(time=end), save_at=[0.0, end])
    steps = setup.replace(until=Until(steps=last), save_at=[0, last])

    def ensemble(first: Setup) -> Ensemble:
        def build(member: int) -> Setup:
            return first.replace(key=setup.key * MEMBERS + member, record=RECORD)

        return Ensemble(build, {"member": range(MEMBERS)})

    return {"descent": ensemble(steps), "sde": ensemble(flow)}


def ratios(runs: Any) -> dict[str, Any]:
    """Means over the members, descent over SDE: squares of the layers, and the loss on the way."""
    layers = [
        (n, lambda x, n=n: np.sum(x[f"params_{n}"].values[:, -1] ** 2, axis=(1, 2)))
        for n in ("W1", "W2")
    ]
    found = {}
    for name, of in (*layers, ("loss", lambda x: x["area"].values[:, -1])):
        left, right = (of(runs[which]) for which in ("descent", "sde"))
        ratio = left.mean() / right.mean()
        parts = [x.std(ddof=1) / np.sqrt(len(x)) / x.mean() for x in (left, right)]
        found[name] = measured(ratio, standard_error=ratio * np.hypot(*parts))
    return found


def started(key: int, momentum: float = 0.0) -> Setup:
    """Label-noise descent from layers that fit: all that moves them is noise."""
    X = np.asarray(regression(key, k=1, whitened=True).X)
    params = cases.random_layers(key, X.shape[1], WIDTH)
    params = {name: 0.5 * layer for name, layer in params.items()}
    problem = Regression.half_sum(X, X @ (params["W1"] @ params["W2"]))
    return cases.descent(problem, params, key, LR, cases.STD, STEPS, saves=2, momentum=momentum)


CLOCK = Theorem(
    "spectral.noise.clock",
    r"Label-noise descent with step $\eta$ has, up to $O(\eta)$, the law of $dW = -\nabla_WL\,dt+"
    r"\sqrt\eta\,\delta X^\top dB_t\,a^\top$, $da = -\nabla_aL\,dt+\sqrt\eta\,\delta "
    r"W^\top X^\top dB_t$ at the time $t = \eta k$ of $k$ steps.",
    [*cases.HYPOTHESES, FITTED, SMALL],
    lambda setup: dict.fromkeys(("W1", "W2", "loss"), 1.0),
    ratios,
    0.02,
    started,
    [Control("no momentum", lambda key: started(key, momentum=0.9))],
    runs=both,
    title="label noise as a diffusion",
    slow=True,
    **cases.ABOUT,
)
