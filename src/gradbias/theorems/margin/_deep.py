"""Deep linear nets: the same separator and the same dual weights at another pace."""

import numpy as np

from ...dynamics import Flow
from ...nets import Deep
from ...observe import dual_weights, log_loss
from ...problems import Classification
from ...theory import margin
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    kind,
    setup_of,
)
from . import _instances as cases
from ._papers import DEEP

LOG_TIME = 600.0
EARLIER = np.array([0.4, 0.6, 0.8, 1.0])  # of log t at the end
NEEDS = cases.THETA | {"log_loss": log_loss, "dual_weights": dual_weights}


def layers(setup: Setup) -> int:
    assert isinstance(setup.net, Deep)
    return len(setup.net.dims) - 1


def several(setup: Setup) -> dict[str, Setup]:
    """At four times."""
    return {"run": setup.replace(save_at=cases.log_times(setup)[-1] * EARLIER)}


def predict(setup: Setup, depth: int | None = None) -> Claims:
    """γ^{−2/N}/N, and the dual weights of the margin problem."""
    limits = margin.rate_constants(cases.classes(setup))
    N = depth or layers(setup)
    return {"t·L·ℓ^(2−2/N)": limits.loss ** (1 / N) / N, "weights": limits.weights}


def measure(run: Run) -> Measurements:
    """At ℓ = ∞: what is left falls as 1/ℓ, then as ℓ^{−4/N} by how unbalanced layers are."""
    N = layers(setup_of(run))
    levels = -run.data["log_loss"].values
    powers = np.stack([levels**0, levels**-1, levels ** (-4 / N)], axis=1)
    logs = run.data["log_time"].values - levels + (2 - 2 / N) * np.log(levels)
    shares = run.data["dual_weights"].values
    found = np.linalg.lstsq(powers, np.column_stack([np.exp(logs), shares]), rcond=None)[0][0]
    return {"t·L·ℓ^(2−2/N)": found[0], "weights": found[1:]}


def early(setup: Setup) -> float:
    """The third power of what the offset is beside log t, and t^{−ν/N}.

    Across ŵ only one layer moves, where along it all of them do: what is slow in one layer is N
    times slower.
    """
    law = cases.law(setup)
    grown = max(np.abs(np.log(law.alpha[law.alpha > 0])).max(), 1.0) * layers(setup)
    first = cases.log_times(setup)[-1] * EARLIER[0]
    return float((grown / first) ** 3 + np.exp(-law.exponent * first / layers(setup)))


def instance(key: int, loss: str = "exponential", depth: int | None = None) -> Setup:
    """Two or three layers of random sizes."""
    problem = cases.drawn(key, "deep", loss, lambda p: margin.offset(p).exponent > 0.2)
    return deep_of(problem, key, depth or 2 + key % 2)


def deep_of(problem: Classification, key: int, depth: int) -> Setup:
    rng = cases.draws(key, "deep layers")
    net = Deep([problem.d, *rng.integers(2, 6, size=depth - 1).tolist(), 1])
    params = {n: 0.7 * rng.standard_normal(shape) for n, shape in (net.shapes() or {}).items()}
    return Setup(
        problem,
        net,
        params,
        cases.by_loss(1e-10),
        Until(log_time=LOG_TIME),
        NEEDS,
        LOG_TIME * EARLIER,
        key=key,
    )


THEOREMS = (
    Theorem(
        "margin.deep",
        r"The flow of a linear net of $N$ layers has the separator and the dual weights "
        r"$\gamma^2\alpha$ of one layer, and $N\gamma^{2/N}\,\ell^{2 - 2/N}\,t\,L \to 1$ with "
        r"$\ell = -\log L$.",
        hypotheses=[
            *cases.separated(),
            kind("there are two or three layers", lambda s: 2 <= layers(s) <= 3),
            kind("there are two classes", lambda s: cases.classes(s).vector),
            cases.is_flow(),
            kind("its clock is the loss", lambda s: s.dynamics.axis == "log_time"),
            cases.not_degenerate(),
            Hypothesis("the run is long", early, 0.05, True, "O(1/log³t + t^{−ν/N})"),
        ],
        predict=predict,
        measure=measure,
        tolerance=1e-3,
        instances=lambda key: instance(key, ("exponential", "logistic")[key % 2]),
        controls=[
            Control("the pace of another depth", instance, lambda s: predict(s, 5), formula=True),
        ],
        runs=several,
        nets=(Deep,),
        problems=(Classification,),
        dynamics=(Flow,),
        needs=NEEDS,
        paper=DEEP,
        title="the pace of deep linear nets",
        own=True,
    ),
)
