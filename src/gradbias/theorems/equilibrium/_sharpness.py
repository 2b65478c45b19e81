"""How sharp a factorisation y = UWx is: anywhere, at random starts, at equilibrium."""

from typing import Any

import numpy as np

from ... import init
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...problems import Population, Regression
from ...theory.symmetry import (
    factorisation_equilibrium,
    factorisation_hessian_trace,
    initial_hessian_trace,
    printed,
)
from .._claims import at_least
from .._erratum import Erratum, Evidence
from .._hypothesis import kind
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Ensemble, Theorem
from . import _instances as cases
from ._measurements import APART, CHANCE, mean
from ._one_input_one_output import off
from ._prop_5_1 import balance

INITS = 256
SHORT = {"until": Until(steps=1), "save_at": [0, 1], "record": cases.CURVED}
SQUARE = TwoLayer(d=3, k=3, width=2)


def traces(setup: Setup, runs: Any) -> dict[str, Any]:
    """Tr ∇²L at every save."""
    points = [cases.layers(p) for p in cases.path(runs["run"].data)]
    return {"trace": np.asarray([factorisation_hessian_trace(setup.problem, *p) for p in points])}


def halves(setup: Setup, runs: Any) -> dict[str, Any]:
    """The same as printed."""
    points = [cases.layers(p) for p in cases.path(runs["run"].data)]
    return {"trace": np.asarray([printed.hessian_trace(setup.problem, *p) for p in points])}


def printed_53(key: int) -> Evidence:
    """Against second differences of the loss in every parameter; exact, it is quadratic in each."""
    problem, (U, W) = cases.data(key), cases.layers(cases.pair(key).params)
    flat = np.concatenate([U.ravel(), W.ravel()])

    def loss(x: np.ndarray) -> float:
        return float(problem.loss((x[: U.size].reshape(U.shape) @ x[U.size :].reshape(W.shape)).T))

    truth = sum(loss(flat + e) + loss(flat - e) - 2 * loss(flat) for e in np.eye(flat.size))
    found = printed.hessian_trace(problem, U, W), factorisation_hessian_trace(problem, U, W)
    return Evidence(*(abs(x / truth - 1) for x in found))


PROP53 = Theorem(
    "equilibrium.prop5.3",
    r"The trace of the Hessian of $E\|UWx-y\|^2$ is "
    r"$2(k\,\mathrm{Tr}[W\Sigma_xW^\top]+\|U\|^2\mathrm{Tr}\Sigma_x)$ at every point; weight decay "
    r"adds $2\gamma(d+k)h$.",
    [],
    traces,
    lambda runs: {"trace": runs["run"].data["curvature"].values},
    1e-10,
    cases.pair,
    [Control("the factor 2 of a square", cases.pair, halves)],
    nets=(TwoLayer,),
    needs=cases.CURVED,
    given=("path",),
    problems=(Regression, Population),
    errata=(
        Erratum(
            "Prop. 5.3",
            r"$S = d_y\|W\Sigma_x^{1/2}\|^2+\|U\|^2\mathrm{Tr}\Sigma_x$",
            r"twice that, and $2\gamma(d_x+d_y)d$ with weight decay",
            "numeric",
            printed_53,
        ),
    ),
    source=SOURCE,
    title="sharpness of a factorisation",
    narrow=True,
)


def wide(key: int) -> Setup:
    """So many parameters that the trace of one start is near its mean."""
    problem, net = cases.population(key, 8, 8), TwoLayer(d=8, k=8, width=8)
    moves = Descent(0.01, Minibatch(1))
    return Setup(problem, net, init.xavier(net, key=key), moves, key=key, **SHORT)


def random_starts(setup: Setup) -> Ensemble:
    """Glorot's start, many times; one step, for there is no run without one."""

    def build(member: int) -> Setup:
        key = setup.key * APART + member
        return setup.replace(params=init.xavier(setup.net, key=key), key=key, **SHORT)

    return Ensemble(build, {"member": range(INITS)})


def expected_trace(setup: Setup) -> dict[str, Any]:
    """Of Glorot's variances 2/(in + out)."""
    problem: Any = setup.problem
    h = int(setup.net.width)  # pyright: ignore[reportAttributeAccessIssue]
    sizes = problem.d, problem.k, h, float(np.trace(problem.sigma_x))
    trace = initial_hessian_trace(*sizes, 2 / (problem.k + h), 2 / (problem.d + h))
    return {"trace": trace}


def printed_init(key: int) -> Evidence:
    """Kaiming with s_U² = 1, against 1/h, on many starts."""
    rng = generator(key, "equilibrium kaiming")
    many, h, d = 4000, 6, 4
    U = rng.standard_normal((many, d, h)) / np.sqrt(h)
    W = rng.standard_normal((many, h, d)) / np.sqrt(d)
    traces = 2 * (d * np.sum(W * W, axis=(1, 2)) + d * np.sum(U * U, axis=(1, 2)))
    truth, error = traces.mean(), traces.std() / np.sqrt(many)
    wrong = initial_hessian_trace(d, d, h, d, 1.0, 1 / d)
    right = initial_hessian_trace(d, d, h, d, 1 / h, 1 / d)
    return Evidence(*(abs(x / truth - 1) for x in (wrong, right)), z=abs(wrong - truth) / error)


EQ15INIT = Theorem(
    "equilibrium.eq15.init",
    r"At a random start $E\,\mathrm{Tr}\nabla^2L = 2kh\,\mathrm{Tr}\Sigma_x(\mathrm{Var}_U+"
    r"\mathrm{Var}_W)$; Glorot's $2/(in+out)$ is sharper than the equilibrium by a factor in "
    r"$[1,2)$ and Kaiming's more: from both SGD goes to flatter minima.",
    [],
    expected_trace,
    lambda runs: {"trace": mean(runs["run"]["curvature"].values[:, 0])},
    CHANCE,
    wide,
    [
        Control(
            "the factor 2 of a square",
            wide,
            lambda s: {"trace": expected_trace(s)["trace"] / 2},
        )
    ],
    runs=random_starts,
    nets=(TwoLayer,),
    needs=cases.CURVED,
    problems=(Population,),
    errata=(
        Erratum(
            "Eq (15), Kaiming",
            r"$s_U^2 = 1$",
            r"$s_U^2 = 1/d$, with $S_{init}/\mathrm{Tr}\Sigma_x = d_x+d$",
            "numeric",
            printed_init,
            "1 is right for one hidden unit only.",
        ),
        Erratum(
            "Eq (15), Xavier",
            r"variance $1/(in+out)$, $S_{init}/S_{end} \approx 1/2$: sharpening",
            r"Glorot's is $2/(in+out)$: $S_{init}/S_{end} = 2\max(d,d_x)/(d+d_x)$, flattening",
            "convention",
        ),
    ),
    source=SOURCE,
    title="sharpness of random starts",
    slow=True,
)


def resting(key: int, spread: float = 0.0) -> Setup:
    """A start at the equilibrium of isotropic label noise; `spread` makes it anisotropic."""
    rng = generator(key, "equilibrium flat")
    Sx, V = np.diag(np.exp(rng.uniform(-0.5, 0.5, size=3))), rng.standard_normal((3, 3))
    L, s, Rt = np.linalg.svd(V)
    V = (L[:, :2] * s[:2]) @ Rt[:2]
    problem = Population(Sx, V, np.diag(np.exp(np.linspace(-spread, spread, 3))))
    params = cases.rows(*factorisation_equilibrium(problem, 2, V))
    return Setup(problem, SQUARE, params, Descent(0.01, Minibatch(1)), key=key, **SHORT)


def mixings(h: int) -> list[np.ndarray]:
    """Moves of the hidden space: shears and stretches, both ways."""
    rng = generator(0, "equilibrium mixings")
    moves = [rng.standard_normal((h, h)) for _ in range(12)]
    return [size * (B + B.T) for B in moves for size in (0.05, -0.05)]


def flattest(setup: Setup) -> dict[str, Any]:
    """No move makes it flatter."""
    return {"rise": at_least(np.zeros(len(mixings(1))), scale=1.0)}


def seen_flattest(runs: Any) -> dict[str, Any]:
    """The trace at moved points over that at the point, less one."""
    setup, first = runs["run"].setup, cases.path(runs["run"].data)[0]
    symmetry = setup.net.symmetries()["W1-W2"]
    here = float(runs["run"].data["curvature"].values[0])
    points = [cases.layers(symmetry.move(first, B)) for B in mixings(setup.net.width)]
    traces = [factorisation_hessian_trace(setup.problem, *p) for p in points]
    return {"rise": np.asarray(traces) / here - 1}


FLAT = Theorem(
    "equilibrium.flat",
    r"At the minimum of fresh samples with $\Sigma_\varepsilon \propto I$ the noise is "
    r"proportional to the Hessian, so the equilibrium is the flattest point of its orbit; with "
    r"anisotropic label noise it is sharper than the flattest one.",
    [
        kind("label noise is isotropic", lambda s: _round(s)),
        kind("the start is at equilibrium", lambda s: max(balance(s), off(s)) < 1e-8),
    ],
    flattest,
    seen_flattest,
    1e-9,
    resting,
    [Control("label noise is isotropic", lambda key: resting(key, 1.5))],
    nets=(TwoLayer,),
    needs=cases.CURVED,
    problems=(Population,),
    dynamics=(Descent,),
    source=SOURCE,
    title="flat or sharp",
    narrow=True,
)


def _round(setup: Setup) -> bool:
    Se = np.asarray(setup.problem.sigma_eps)  # pyright: ignore[reportAttributeAccessIssue]
    return np.allclose(Se, Se[0, 0] * np.eye(len(Se)))


THEOREMS = (PROP53, EQ15INIT, FLAT)
