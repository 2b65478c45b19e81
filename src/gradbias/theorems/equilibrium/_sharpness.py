"""How sharp a factorisation y = UWx is: anywhere, at random starts, at equilibrium."""

import numpy as np

from ... import init
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
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Evidence,
    Measurements,
    Run,
    Setup,
    Theorem,
    Until,
    at_least,
    common,
    kind,
    setup_of,
)
from . import _instances as cases
from ._facts import two_layer
from ._measurements import APART, EXACT, mean
from ._one_input_one_output import off
from ._paper import PAPER
from ._prop_5_1 import balance

INITS = 8192
SHORT = {"until": Until(steps=1), "save_at": [0, 1], "record": cases.CURVED}
SQUARE = TwoLayer(d=3, k=3, width=2)


def predict_traces(setup: Setup, run: Run) -> Claims:
    """Tr ∇²L at every save."""
    points = [cases.layers(p) for p in cases.path(run.data)]
    return {"trace": np.asarray([factorisation_hessian_trace(setup.problem, *p) for p in points])}


def predict_printed_traces(setup: Setup, run: Run) -> Claims:
    """The same as printed."""
    points = [cases.layers(p) for p in cases.path(run.data)]
    return {"trace": np.asarray([printed.hessian_trace(setup.problem, *p) for p in points])}


def _half_traces(setup: Setup, run: Run, gone: int) -> Claims:
    """With one of the two layers zero: the trace is a sum of two squares."""
    points = [cases.layers(p) for p in cases.path(run.data)]
    left = [(U * (gone != 1), W * (gone != 0)) for U, W in points]
    return {
        "trace": np.asarray([factorisation_hessian_trace(setup.problem, U, W) for U, W in left])
    }


def printed_53(key: int) -> Evidence:
    """Against second differences of the loss in every parameter; exact, it is quadratic in each."""
    problem = cases.data(key)
    U, W = cases.layers(cases.pair(key).params)
    flat = np.concatenate([U.ravel(), W.ravel()])

    def loss(x: np.ndarray) -> float:
        return float(problem.loss((x[: U.size].reshape(U.shape) @ x[U.size :].reshape(W.shape)).T))

    truth = sum(loss(flat + e) + loss(flat - e) - 2 * loss(flat) for e in np.eye(flat.size))
    traces = printed.hessian_trace(problem, U, W), factorisation_hessian_trace(problem, U, W)
    return Evidence(*(abs(x / truth - 1) for x in traces))


PROP53 = Theorem(
    "equilibrium.prop5.3",
    r"The trace of the Hessian of $E\|UWx-y\|^2$ is "
    r"$2(k\,\mathrm{Tr}[W\Sigma_xW^\top]+\|U\|^2\mathrm{Tr}\Sigma_x)$ at every point; weight decay "
    r"adds $2\gamma(d+k)h$.",
    hypotheses=[],
    predict=predict_traces,
    measure=lambda run: {"trace": run.data["curvature"].values},
    tolerance=1e-10,
    instances=cases.pair,
    paper_size=cases.of_paper,
    controls=[Control("as printed, half", cases.pair, predict_printed_traces, formula=True)],
    terms={
        "what enters": lambda s, run: _half_traces(s, run, 0),
        "what leaves": lambda s, run: _half_traces(s, run, 1),
    },
    nets=(TwoLayer,),
    needs=cases.CURVED,
    given=("path",),
    problems=(Regression, Population),
    errata=(
        Erratum(
            "Proposition 5.3",
            r"$S = d_y\|W\Sigma_x^{1/2}\|^2+\|U\|^2\mathrm{Tr}\Sigma_x$",
            "twice that, for a loss without ½ as (12) is",
            "misprint",
            evidence=printed_53,
            quote="Then, S(θ)= dy∥WΣ1/2 x∥2 F+∥U∥2 FTr[Σx].",
            note="App. B.5 repeats it: its gradients lack the 2.",
            predict=predict_printed_traces,
        ),
    ),
    paper=PAPER,
    title="sharpness of a factorisation",
    narrow=True,
)


def wide(key: int) -> Setup:
    """So many parameters that the trace of one start is near its mean."""
    problem = cases.population(key, 8, 8)
    net = TwoLayer(d=8, k=8, width=8)
    moves = Descent(0.01, Minibatch(1))
    return Setup(problem, net, init.xavier(net, key=key), moves, key=key, **SHORT)


def random_starts(setup: Setup) -> Ensemble:
    """Glorot's start, many times; one step, for there is no run without one."""

    def build(member: int) -> Setup:
        key = setup.key * APART + member
        return setup.replace(params=init.xavier(setup.net, key=key), key=key, **SHORT)

    return Ensemble(build, {"member": range(INITS)})


def predict_expected_trace(setup: Setup) -> dict[str, float]:
    """Of Glorot's variances 2/(in + out)."""
    problem = common.population(setup)
    h = two_layer(setup).width
    sizes = problem.d, problem.k, h, float(np.trace(problem.sigma_x))
    trace = initial_hessian_trace(*sizes, 2 / (problem.k + h), 2 / (problem.d + h))
    return {"trace": trace}


def printed_init(key: int) -> Evidence:
    """Kaiming's rule keeps the variance of a signal: does it with variance 1, and with 1/h?"""
    rng = generator(key, "equilibrium kaiming")
    many = 20_000
    h = 6
    d = 4
    hidden = rng.standard_normal((many, h, d)) / np.sqrt(d) @ rng.standard_normal((many, d, 1))
    squares = np.sum(rng.standard_normal((many, h)) * hidden[:, :, 0], axis=1) ** 2
    doubt = float(squares.std() / np.sqrt(many))
    mean = float(squares.mean())
    return Evidence(abs(mean - 1), abs(mean / h - 1), uncertainty=doubt)


EQ15INIT = Theorem(
    "equilibrium.eq15.init",
    r"At a random start $E\,\mathrm{Tr}\nabla^2L = 2kh\,\mathrm{Tr}\Sigma_x(\mathrm{Var}_U+"
    r"\mathrm{Var}_W)$; on $y = x+\varepsilon$ with "
    r"isotropic $\Sigma_x$ and $\Sigma_\varepsilon$ and $h \ge d$, Glorot's $2/(in+out)$ is "
    r"$2\max(h,d)/(h+d)$ times as sharp as the equilibrium and Kaiming's $1/in$ is "
    r"$(h+d)/2\min(h,d)$ times: at $h = d$ both factors are 1.",
    hypotheses=[],
    predict=predict_expected_trace,
    measure=lambda run: {"trace": mean(run["curvature"].values[:, 0])},
    tolerance=EXACT,
    instances=wide,
    controls=[
        Control(
            "half of it",
            wide,
            lambda s: {"trace": predict_expected_trace(s)["trace"] / 2},
            formula=True,
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
            "$s_U^2 = 1/d$, one over the number of its inputs",
            "false",
            evidence=printed_init,
            quote="For Kaiming init., σ2 U=1andσ2 W=d−1 x.",
            note="1 is right for one hidden unit only.",
        ),
        Erratum(
            "Eq (15), Xavier",
            r"variance $1/(in+out)$, so $S_{init} \approx S_{end}$, slightly smaller",
            r"Glorot's is $2/(in+out)$; with it $S_{init}/S_{end} = 2\max(d,d_x)/(d+d_x) "
            r"\ge 1$",
            "convention",
            quote="For Xavier init, σ2 U=(dy+d)−1andσ2 W=(d+dx)−1, and so "
            "Sinit≈Send(butSinitis slightly smaller)",
        ),
    ),
    paper=PAPER,
    title="sharpness of random starts",
    slow=True,
)


def resting(key: int, spread: float = 0.0) -> Setup:
    """A start at the equilibrium of isotropic label noise; `spread` makes it anisotropic."""
    rng = generator(key, "equilibrium flat")
    Sx = np.diag(np.exp(rng.uniform(-0.5, 0.5, size=3)))
    V = rng.standard_normal((3, 3))
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


def predict_flattest(setup: Setup) -> Claims:
    """No move makes it flatter."""
    return {"rise": at_least(np.zeros(len(mixings(1))), scale=1.0)}


def measure_flattest(run: Run) -> Measurements:
    """The trace at moved points over that at the point, less one."""
    setup = setup_of(run)
    first = cases.path(run.data)[0]
    symmetry = setup.net.symmetries()["W1-W2"]
    here = float(run.data["curvature"].values[0])
    points = [cases.layers(symmetry.move(first, B)) for B in mixings(two_layer(setup).width)]
    traces = [factorisation_hessian_trace(setup.problem, *p) for p in points]
    return {"rise": np.asarray(traces) / here - 1}


FLAT = Theorem(
    "equilibrium.flat",
    r"At the minimum of fresh samples with $\Sigma_\varepsilon \propto I$ the noise is "
    r"proportional to the Hessian, so the equilibrium is the flattest point of its orbit; with "
    r"anisotropic label noise it is sharper than the flattest one.",
    hypotheses=[
        kind("label noise is isotropic", lambda s: _round(s)),
        kind("the start is at equilibrium", lambda s: max(balance(s), off(s)) < 1e-8),
    ],
    predict=predict_flattest,
    measure=measure_flattest,
    tolerance=1e-9,
    instances=resting,
    controls=[Control("label noise is isotropic", lambda key: resting(key, 1.5))],
    nets=(TwoLayer,),
    needs=cases.CURVED,
    problems=(Population,),
    dynamics=(Descent,),
    paper=PAPER,
    title="flat or sharp",
    narrow=True,
    own=True,
)


def _round(setup: Setup) -> bool:
    Se = np.asarray(common.population(setup).sigma_eps)
    return np.allclose(Se, Se[0, 0] * np.eye(len(Se)))


THEOREMS = (PROP53, EQ15INIT, FLAT)
