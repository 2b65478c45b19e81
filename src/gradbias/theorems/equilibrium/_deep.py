"""Deep linear nets y = W_D … W_1 x: their noise at any point, and their equilibrium."""

from collections.abc import Iterable

import numpy as np

from ...dynamics import Descent
from ...nets import Deep
from ...noise import Isotropic, Minibatch, Noise
from ...numerics.host_rng import generator
from ...numerics.psd import power
from ...problems import Population, Regression
from ...theory.symmetry import deep_equilibrium, equilibrium_residual, printed, seam_noise
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Evidence,
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
from ._facts import kappa, sgd
from ._paper import PAPER

DIMS = (3, 2, 2, 2)
NET = Deep(dims=DIMS)
LR = 0.01
BATCH = 2
SAVES = np.array([0, 10, 20])


def sgd_from(
    key: int, weights: Iterable[np.ndarray], noise: Noise | None = None, decay: float = 0.0
) -> Setup:
    """SGD on fresh samples from given weights, in column form."""
    return Setup(
        cases.population(key),
        NET,
        {f"W{i}": np.array(W).T for i, W in enumerate(weights, start=1)},
        Descent(LR, Minibatch(BATCH) if noise is None else noise, weight_decay=decay),
        Until(steps=int(SAVES[-1])),
        cases.PARAMS,
        SAVES,
        key,
    )


def anywhere(key: int, noise: Noise | None = None, decay: float = 0.0) -> Setup:
    """A random point."""
    rng = generator(key, "equilibrium deep")
    shapes = zip(DIMS[1:], DIMS[:-1], strict=True)
    return sgd_from(key, [0.6 * rng.standard_normal(shape) for shape in shapes], noise, decay)


def hidden() -> Hypothesis:
    """There are seams."""
    return kind("there is a hidden layer", lambda s: len(s.params) > 1)


def columns(params: cases.Params) -> list[np.ndarray]:
    """The weights in column form, the first layer first."""
    return [np.asarray(params[f"W{i}"]).T for i in range(1, len(params) + 1)]


def predict_seams(setup: Setup, run: Run) -> Claims:
    """κ times the noise of the earlier weight less that of the later one, at every seam."""
    rate = kappa(setup)
    differences = []
    sizes = []
    for p in cases.some(cases.path(run.data)):
        sides = seam_noise(columns(p), setup.problem)
        differences.append(_flat(rate * (earlier - later) for later, earlier in sides))
        sizes.append(max(float(np.abs(side).max()) for both in sides for side in both))
    # Balanced layers may have equal noise on both sides: what counts is the size of either.
    return {"noise": equals(np.asarray(differences), scale=rate * max(sizes) or 1.0)}


def _flat(matrices: Iterable[np.ndarray]) -> np.ndarray:
    """Matrices of any sizes in one vector."""
    return np.concatenate([np.ravel(matrix) for matrix in matrices])


def measure_seams(run: Run) -> Measurements:
    """The same from the covariance of gradients."""
    setup = setup_of(run)
    differences = []
    for p in cases.some(cases.path(run.data)):
        differences.append(_flat(f.noise for f in cases.here(setup, p).values()))
    return {"noise": np.asarray(differences)}


E1 = Theorem(
    "equilibrium.thmE.1",
    r"Between neighbours of a deep linear net the noise of the later weight is "
    r"$4A\,E[(r^\top BB^\top r)xx^\top]A^\top$ and that of the earlier one "
    r"$4B'^\top E[(x^\top A'^\top A'x)rr^\top]B'$, centred, with $A$, $A'$ the layers before and "
    r"$B$, $B'$ those after; at equilibrium they are equal, at any point their difference is "
    r"the flow.",
    hypotheses=[hidden(), *sgd()],
    predict=predict_seams,
    measure=measure_seams,
    tolerance=1e-10,
    instances=anywhere,
    controls=[
        Control(
            "the noise is that of minibatches",
            lambda key: anywhere(key, Isotropic(0.5)),
        )
    ],
    nets=(Deep,),
    needs=cases.PARAMS,
    given=("path",),
    dynamics=(Descent,),
    problems=(Regression, Population),
    errata=(
        Erratum(
            "Section 5.3",
            r"$C_{B_i} = W_i^\top B_iW_i$",
            r"$C = \mathrm{Tr}[W_{i+1}BW_{i+1}^\top]-\mathrm{Tr}[W_i^\top BW_i]$",
            "misprint",
            quote="we define the charges to be CBi=WT iBiWi",
            note="(111) has the difference of two layers.",
        ),
        Erratum(
            "Eq (112), (113)",
            "without a common factor 2",
            "with it",
            "convention",
            quote="∂ℓ ∂Wi+1=ξ⊺ i+1r(Wihix)⊺, (112)",
        ),
    ),
    paper=PAPER,
    title="noise between layers, at any point",
    narrow=True,
)


def weights_of(key: int, correct: bool = True) -> list[np.ndarray]:
    """The weights of the theorem, or the printed ones."""
    problem = cases.population(key)
    make = deep_equilibrium if correct else printed.deep_equilibrium
    return make(problem.V, problem.sigma_x, problem.sigma_eps, DIMS[1:-1])


def resting(key: int, correct: bool = True) -> Setup:
    """A start there."""
    return sgd_from(key, weights_of(key, correct))


def norms_19(setup: Setup) -> np.ndarray:
    """Eq 19: c²TrΣx, c²·rank, …, c²TrΣε."""
    problem = common.population(setup)
    Sx = problem.sigma_x
    Se = problem.sigma_eps
    s = np.linalg.svd(power(Se, 0.5) @ problem.V @ power(Sx, 0.5), compute_uv=False)
    depth = len(setup.params)
    c2 = (s.sum() / np.sqrt(np.trace(Sx) * np.trace(Se))) ** (2 / depth)
    middle = [c2 * len(s)] * (depth - 2)
    return np.array([c2 * np.trace(Sx), *middle, c2 * np.trace(Se)])


def predict_rests(setup: Setup) -> Claims:
    """No flow at any seam, the product V, the norms of Eq 19."""
    problem = common.population(setup)
    seams = seam_noise(columns(setup.params), problem)
    size = kappa(setup) * max(float(np.linalg.norm(a)) for pair in seams for a in pair)
    flat = sum(a.size for a, _ in seams)
    return {
        "flow": equals(np.zeros(flat), scale=size),
        "product": problem.V,
        "norms": norms_19(setup),
    }


def measure_rests(run: Run) -> Measurements:
    """The same at the first save, from covariances of gradients."""
    setup = setup_of(run)
    first = cases.path(run.data)[0]
    flows = cases.here(setup, first).values()
    layers = columns(first)
    product = np.eye(setup.problem.d)
    for W in layers:
        product = W @ product
    return {
        "flow": _flat(f.noise for f in flows),
        "product": product,
        "norms": weighted_norms(common.population(setup), layers),
    }


def weighted_norms(problem: Population, layers: list[np.ndarray]) -> np.ndarray:
    """‖W_1Σx^½‖², ‖W_2‖², …, ‖Σε^½W_D‖²."""
    first = layers[0] @ power(problem.sigma_x, 0.5)
    last = power(problem.sigma_eps, 0.5) @ layers[-1]
    return np.array([float(np.sum(W * W)) for W in (first, *layers[1:-1], last)])


def printed_54(key: int) -> Evidence:
    """The residual of Theorem E.1 at the printed and at the corrected weights."""
    problem = cases.population(key)
    residuals = [equilibrium_residual(weights_of(key, c), problem).max() for c in (False, True)]
    return Evidence(*(float(x) for x in residuals))


THM54 = Theorem(
    "equilibrium.thm5.4",
    r"At the minimum of fresh samples a deep linear net is at noise equilibrium with singular "
    r"values $c\sqrt{S\,\mathrm{Tr}\Sigma_x/\mathrm{Tr}S}$ in the first layer, "
    r"$c\sqrt{S\,\mathrm{Tr}\Sigma_\varepsilon/\mathrm{Tr}S}$ in the last and $c$ between, "
    r"$c = (\mathrm{Tr}S/\sqrt{\mathrm{Tr}\Sigma_x\mathrm{Tr}\Sigma_\varepsilon})^{1/D}$, where "
    r"$S$ are those of $\Sigma_\varepsilon^{1/2}V\Sigma_x^{1/2}$.",
    hypotheses=[
        hidden(),
        *sgd(),
        common.no_decay(),
        kind("the start is at equilibrium", lambda s: _rest_error(s) < 1e-8),
    ],
    predict=predict_rests,
    measure=measure_rests,
    tolerance=1e-10,
    instances=resting,
    controls=[Control("denominators are traces, not d", lambda key: resting(key, False))],
    nets=(Deep,),
    needs=cases.PARAMS,
    problems=(Population,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Theorem 5.4, Eq (18), (127)-(132)",
            r"$c = (\mathrm{Tr}S/d)^{1/D}$, $\Sigma_1 = \Sigma_D$",
            r"$c = (\mathrm{Tr}S/\sqrt{\mathrm{Tr}\Sigma_x\mathrm{Tr}\Sigma_\varepsilon})^{1/D}$, "
            r"with $\sqrt{\mathrm{Tr}\Sigma_x}$ in the first and $\sqrt{\mathrm{Tr}"
            r"\Sigma_\varepsilon}$ in the last layer; Eq (19) likewise",
            "false",
            evidence=printed_54,
            quote="Σ1=ΣD=(d TrS′)(D−2)/2D√ S′",
            note="Right only if both traces are d; at two layers it contradicts Eq (14).",
        ),
    ),
    paper=PAPER,
    title="noise equilibrium of a deep linear net",
)


def _rest_error(setup: Setup) -> float:
    if not np.all(np.linalg.eigvalsh(common.population(setup).sigma_eps) > 0):
        return np.inf
    return float(equilibrium_residual(columns(setup.params), setup.problem).max())


THEOREMS = (THM54, E1)
