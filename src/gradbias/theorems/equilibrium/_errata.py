"""Steps of SGD averaged over every batch there is: exact means without a simulation."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...problems import Regression
from ...theory.symmetry import noether_flow, printed
from ..prelude import Evidence
from . import _instances as cases
from ._facts_units import MU, charges, spectra


class MeanStep(NamedTuple):
    """The mean of one step over batches, for the charges ‖in‖² − ‖out‖² of hidden units.

    Attributes:
        before: the charges.
        kept: what decay leaves of them, (1 − 2ηγ)²C.
        after: the mean of the charges after the step, from the stepped parameters.
        noise: η² times the noise's part of gᵀAg, mean over batches.
        gd: η² ḡᵀAḡ.
        size: ‖θ‖².
    """

    before: np.ndarray
    kept: np.ndarray
    after: np.ndarray
    noise: np.ndarray
    gd: np.ndarray
    size: float


def gradients(problem: Regression, params: cases.Params) -> dict[str, np.ndarray]:
    """Of every sample's ‖UWx − y‖², by hand, in the engine's rows: (n, d, h) and (n, h, k)."""
    X = np.asarray(problem.X)
    W1 = params["W1"]
    W2 = params["W2"]
    R = X @ W1 @ W2 - problem.labels
    return {
        "W1": 2 * np.einsum("ni,nj->nij", X, R @ W2.T),
        "W2": 2 * np.einsum("ni,nj->nij", X @ W1, R),
    }


def mean_step(
    problem: Regression,
    params: cases.Params,
    lr: float,
    gamma: float,
    batches: Iterable[Sequence[int]] | None = None,
) -> MeanStep:
    """One step over all batches of two with replacement, or over those given."""
    each = gradients(problem, params)
    n = len(each["W1"])
    keep = 1 - 2 * lr * gamma
    every = list(itertools.product(range(n), repeat=cases.S) if batches is None else batches)
    after = []
    square = []
    for batch in every:
        g = {name: x[list(batch)].mean(axis=0) for name, x in each.items()}
        after.append(charges({name: keep * p - lr * g[name] for name, p in params.items()}))
        square.append(lr**2 * charges(g))
    gd = lr**2 * charges({name: x.mean(axis=0) for name, x in each.items()})
    before = charges(params)
    size = sum(float(np.sum(p * p)) for p in params.values())
    noise = np.mean(square, axis=0) - gd
    return MeanStep(before, keep**2 * before, np.mean(after, axis=0), noise, gd, size)


def printed_7(key: int) -> Evidence:
    """Eq 7's noise term against the mean of one step over all 36 batches."""
    problem = cases.data(key)
    params = cases.pair(key).params
    truth = float(mean_step(problem, params, cases.LR, cases.DECAY).noise[0])
    given = MU, *spectra(problem, params)[0], cases.LR / cases.S, cases.DECAY
    flow = noether_flow(*given)
    terms = printed.noether_flow_7(*given) - flow.decay, flow.noise
    return Evidence(*(abs(cases.LR * x / truth - 1) for x in terms))


def _left(key: int, factor: float) -> Evidence:
    """The part of the noise that is left where γC = factor·κ Tr[ΣA], and where 4γC is that.

    The step is so small that (1 − 2ηγ)² is 1 − 4ηγ; γ is of either sign, as C and the trace are.
    """
    problem = cases.data(key)
    params = cases.pair(key).params
    lr = 1e-6
    noise = float(mean_step(problem, params, lr, 0.0).noise[0])
    charge = float(charges(params)[0])
    left = []
    for balance in (factor, 0.25):
        gamma = balance * noise / lr / charge
        step = mean_step(problem, params, lr, gamma)
        left.append(abs(float(step.kept[0] - step.before[0] + step.noise[0]) / noise))
    return Evidence(*left, tolerance=1e-4)


def balance_9(key: int) -> Evidence:
    """4γC = σ²Tr with σ² = κ/2."""
    return _left(key, 1 / 8)


def balance_43(key: int) -> Evidence:
    """γC = η Tr with η = κS."""
    return _left(key, float(cases.S))
