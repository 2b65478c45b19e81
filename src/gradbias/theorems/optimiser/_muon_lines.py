"""Muon on whitened data: singular values on straight lines, small modes first."""

import numpy as np

from ...dynamics import Muon
from ...nets import TwoLayer
from ...problems import Regression
from ...theory.optimisers import learning_times, muon_singular_values
from ..prelude import (
    Claims,
    Control,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    common,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases


def target(setup: Setup) -> np.ndarray:
    """What the product is to become."""
    return np.asarray(setup.problem.as_predictor(common.quadratic(setup).min_norm))


def unequal(setup: Setup) -> float:
    """How far XᵀX is from a multiple of the identity."""
    problem = common.regression(setup)
    s = problem.svd.s
    return 1.0 if len(s) < problem.d else float(1 - s[-1] / s[0])


def until_first(setup: Setup) -> dict[str, Setup]:
    """Up to a step before the first mode is learnt."""
    lr = float(cases.rates(setup, 1)[0]) * float(cases.muon(setup).scale)
    steps = max(1, int(learning_times(target(setup), setup.params).min() / lr) - 1)
    saves = np.unique(np.linspace(0, steps, 11).astype(int))
    return {"run": setup.replace(until=Until(steps=steps), save_at=saves)}


def predict(setup: Setup) -> Claims:
    saves = np.asarray(until_first(setup)["run"].save_at)
    lr = float(cases.rates(setup, 1)[0]) * float(cases.muon(setup).scale)
    path = muon_singular_values(target(setup), setup.params, lr * saves)
    return {
        "W1": equals(-np.sort(-path.first, axis=1), scale=float(path.first.max())),
        "W2": equals(-np.sort(-path.second, axis=1), scale=float(path.second.max())),
    }


def measure(run: Run) -> Measurements:
    """The largest singular values of both layers, as many as the target has."""
    rank = np.linalg.matrix_rank(target(setup_of(run)))
    values = {n: run.data[f"params_{n}"].values for n in ("W1", "W2")}
    return {n: np.linalg.svd(W, compute_uv=False)[:, :rank] for n, W in values.items()}


def until_last(setup: Setup) -> dict[str, Setup]:
    """Every step until all modes are learnt."""
    lr = float(cases.rates(setup, 1)[0]) * float(cases.muon(setup).scale)
    steps = int(1.1 * learning_times(target(setup), setup.params).max() / lr) + 2
    return {"run": setup.replace(until=Until(steps=steps), save_at=np.arange(steps + 1))}


def times(setup: Setup) -> Claims:
    return {"T": learning_times(target(setup), setup.params)}


def large_first(setup: Setup) -> Claims:
    """As gradient descent would have it: the same times, large modes first."""
    return {"T": learning_times(target(setup), setup.params)[::-1]}


def first_hits(run: Run) -> Measurements:
    """When the part of W1 W2 along each mode of the target first reaches its singular value."""
    setup = setup_of(run)
    U, s, Vt = np.linalg.svd(target(setup), full_matrices=False)
    rank = int(np.linalg.matrix_rank(target(setup)))
    products = run.data["params_W1"].values @ run.data["params_W2"].values
    parts = np.einsum("di,tdk,ik->ti", U[:, :rank], products, Vt[:rank])
    lr = float(cases.rates(setup, 1)[0]) * float(cases.muon(setup).scale)
    found = []
    for part, size in zip(parts.T, s, strict=False):
        k = int(np.argmax(part >= size))
        if k == 0:  # not before the end
            found.append(lr * len(part))
            continue
        found.append(lr * (k - (part[k] - size) / (part[k] - part[k - 1])))
    return {"T": np.array(found)}


def coarse(setup: Setup) -> float:
    """A step over the first of the times."""
    lr = float(cases.rates(setup, 1)[0]) * float(cases.muon(setup).scale)
    return lr / float(learning_times(target(setup), setup.params).min())


def unaligned(setup: Setup) -> float:
    learning_times(target(setup), setup.params)  # says what is not aligned
    return 0.0


def instance(key: int, method: str = "exact", decay: float = 0.0) -> Setup:
    """Rank three, singular values from 4 to 0.3."""
    rng = cases.draws(key, "muon")
    U, V, O = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (cases.D, cases.K, cases.H))  # noqa: E741
    X = 1.3 * np.linalg.qr(rng.standard_normal((9, cases.D)))[0]
    a, b = rng.uniform(0.01, 0.2, (2, 3))
    params = {"W1": (U * a) @ O.T, "W2": (O * b) @ V.T}
    moves = Muon(1e-3, 0.9, orthogonalise=method, weight_decay=decay)
    problem = Regression.half_mean(X, X @ ((U * np.geomspace(4, 0.3, 3)) @ V.T))
    return Setup(problem, cases.NET, params, moves, Until(steps=500), cases.PATH, key=key)


def lines() -> list[Hypothesis]:
    """What straight lines need."""
    return [
        common.no_decay(),
        kind("the factor is exact", lambda s: cases.muon(s).orthogonalise == "exact"),
        kind("no noise", lambda s: cases.muon(s).noise is None),
        kind("the step is constant", lambda s: not callable(cases.muon(s).lr)),
        Hypothesis("the data are whitened", unequal, 1e-9),
        Hypothesis("layers are aligned with the target", unaligned, 0.0),
    ]


THEOREMS = (
    Theorem(
        "optimiser.muon_lines",
        r"Muon on two layers of whitened data, aligned with the target, moves all singular values "
        r"at unit speed, $a_i(t) = a_i(0)+t$, until the first mode is learnt at "
        r"$\min_iT_i$, $T_i = \frac{1}{2}[\sqrt{(a_i-b_i)^2+4s_i}-(a_i+b_i)]$: small modes first.",
        hypotheses=lines(),
        predict=predict,
        measure=measure,
        tolerance=1e-9,
        instances=instance,
        controls=[
            Control("the factor is exact", lambda key: instance(key, "newton_schulz")),
            Control("there is no weight decay", lambda key: instance(key, decay=0.1)),
        ],
        runs=until_first,
        nets=(TwoLayer,),
        problems=(Regression,),
        dynamics=(Muon,),
        needs=cases.PATH,
        title="Muon's straight lines",
        own=True,
    ),
    Theorem(
        "optimiser.muon_times",
        r"Muon on two layers of whitened data, aligned with the target, learns mode $i$ at "
        r"$T_i = \frac{1}{2}[\sqrt{(a_i-b_i)^2+4s_i}-(a_i+b_i)]$, whatever the other modes do: "
        r"small modes first, where gradient descent learns large ones first.",
        hypotheses=[*lines(), Hypothesis("steps are small", coarse, 0.02, True, "O(η)")],
        predict=times,
        measure=first_hits,
        tolerance=1e-4,
        instances=instance,
        controls=[
            Control("the factor is exact", lambda key: instance(key, "newton_schulz")),
            Control("there is no weight decay", lambda key: instance(key, decay=0.2)),
            Control("large modes first", instance, large_first, formula=True),
        ],
        runs=until_last,
        nets=(TwoLayer,),
        problems=(Regression,),
        dynamics=(Muon,),
        needs=cases.PATH,
        title="when Muon has learnt a mode",
        own=True,
    ),
)
