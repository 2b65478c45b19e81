"""Where SGD takes a factorisation on fresh samples."""

from typing import Any

import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...observe import hessian_trace
from ...problems import Population
from ...theory.symmetry import (
    autoencoder_equilibrium,
    equilibration_time,
    factorisation_equilibrium,
    factorisation_hessian_trace,
)
from .. import _shared_hypotheses as common
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis, kind
from .._per_setup import fact
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Ensemble, Theorem
from . import _instances as cases
from ._facts import kappa, misadjustment, sgd
from ._measurements import CHANCE, draws, late

D, H, LR, MEMBERS = 3, 2, 0.01, 16
NET = TwoLayer(d=D, k=D, width=H)
LATE = np.concatenate([[0], np.arange(8000, 16_001, 800)])
STRETCH = 2.0  # of the start: 16 in the ratio of the norms' squares
FOLDS = 4.0  # so often must the slowest charge have shrunk by e at half time
RECORD = {
    **cases.PARAMS,
    "moments": cases.moments,
    "trace": hessian_trace,
}
FRESH: Any = Minibatch(1)


def begun(key: int, problem: Population, U: Any, W: Any, noise: Any) -> Setup:
    """SGD from a minimum that is stretched out of its balance."""
    params, until = cases.rows(STRETCH * U, W / STRETCH), Until(steps=int(LATE[-1]))
    return Setup(problem, NET, params, Descent(LR, noise), until, RECORD, LATE, key)


def fitted(key: int, noise: Any = FRESH) -> Setup:
    """A teacher of rank two."""
    rng = generator(key, "equilibrium fitted")
    sizes = [np.exp(rng.uniform(-0.4, 0.4, size=D)) for _ in range(2)]
    # Singular values of one size: fluctuations of UW must be small beside the least of them.
    L, R = (np.linalg.qr(rng.standard_normal((D, H)))[0] for _ in range(2))
    V = (L * rng.uniform(1.0, 2.0, size=H)) @ R.T
    problem = Population(np.diag(sizes[0]), V, np.diag(sizes[1]))
    return begun(key, problem, *factorisation_equilibrium(problem, H, V), noise)


def autoencoder(key: int, noise: Any = FRESH) -> Setup:
    """The target is x + ε, through fewer hidden units than inputs."""
    rng = generator(key, "equilibrium autoencoder")
    s2, frame = float(rng.uniform(0.3, 0.8)), np.linalg.qr(rng.standard_normal((D, H)))[0]
    found = autoencoder_equilibrium(D, H, s2)
    U, W = np.sqrt(found.norm_U / H) * frame, np.sqrt(found.norm_W / H) * frame.T
    return begun(key, Population(np.eye(D), np.eye(D), s2 * np.eye(D)), U, W, noise)


def ensemble(setup: Setup) -> Ensemble:
    """Many draws."""
    return draws(setup, MEMBERS)


@fact
def rest(setup: Setup) -> Any:
    """The factors of the teacher at equilibrium."""
    width = int(setup.net.width)  # pyright: ignore[reportAttributeAccessIssue]
    return factorisation_equilibrium(setup.problem, width, setup.problem.V)  # pyright: ignore[reportAttributeAccessIssue]


def unfinished(setup: Setup, residual: Any) -> float:
    """FOLDS times the time to equilibrium over half of the run."""
    problem: Any = setup.problem
    steps: Any = setup.until.steps
    time = equilibration_time(problem.sigma_x, residual, kappa(setup))
    return FOLDS * time / (common.learning_rate(setup) * float(steps or 0) / 2 or 1e-300)


def long_enough(setup: Setup) -> float:
    """The same, with the label noise for the residual."""
    return unfinished(setup, setup.problem.sigma_eps)  # pyright: ignore[reportAttributeAccessIssue]


def small_step(setup: Setup) -> float:
    """How much the noise raises the loss above its minimum, relative, at equilibrium."""
    return misadjustment(setup.replace(params=cases.rows(*rest(setup))))


def balanced(setup: Setup) -> dict[str, Any]:
    """Tr[WΣxWᵀ]/TrΣx and Tr[UᵀΣεU]/TrΣε: the same."""
    problem: Any = setup.problem
    U, W = rest(setup)
    return {"inner": sides(problem.sigma_x, problem.sigma_eps, W.T, U.T)}


def sides(Sx: np.ndarray, Se: np.ndarray, W1: np.ndarray, W2: np.ndarray) -> np.ndarray:
    """The two sides of Eq 14 by their traces, over leading axes."""
    enter = np.sum((Sx @ W1) * W1, axis=(-2, -1)) / np.trace(Sx)
    leave = np.sum((W2 @ Se) * W2, axis=(-2, -1)) / np.trace(Se)
    return np.stack([enter, leave], axis=-1)


def seen_balanced(runs: Any) -> dict[str, Any]:
    """The two sides at the end."""
    data = runs["run"]
    Sx, Se = (data[f"moments_{name}"].values[0, 0] for name in ("x", "eps"))
    W1, W2 = (data[f"params_{name}"].values for name in ("W1", "W2"))
    return {"inner": late(data, sides(Sx, Se, W1, W2))}


EQ14 = Theorem(
    "equilibrium.eq14",
    r"At the minimum of fresh samples, $x$ and $\varepsilon$ independent, SGD takes the factors to "
    r"$W\Sigma_xW^\top/\mathrm{Tr}\Sigma_x = U^\top\Sigma_\varepsilon U/\mathrm{Tr}"
    r"\Sigma_\varepsilon$: with isotropic noise that is $WW^\top/d = U^\top U/k$. Gradient descent "
    r"leaves them where they are.",
    [
        common.no_decay(),
        *sgd(),
        Hypothesis("the run is long", long_enough, 1.0),
        Hypothesis("the step is small", small_step, 0.5, graded=True, order="O(κ)"),
    ],
    balanced,
    seen_balanced,
    CHANCE,
    fitted,
    [Control("the noise is that of minibatches", lambda key: fitted(key, None))],
    runs=ensemble,
    nets=(TwoLayer,),
    needs={**cases.PARAMS, "moments": cases.moments},
    problems=(Population,),
    dynamics=(Descent,),
    errata=(Erratum("Sec. 5.1", "Fig. 2, left", "Fig. 2, right", "convention"),),
    source=SOURCE,
    title="SGD balances fluctuations of two layers",
)


@fact
def narrow(setup: Setup) -> Any:
    """‖U‖², ‖W‖² and the trace of the Hessian at the end."""
    problem: Any = setup.problem
    width = int(setup.net.width)  # pyright: ignore[reportAttributeAccessIssue]
    return autoencoder_equilibrium(problem.d, width, float(problem.sigma_eps[0, 0]))


def told_narrow(setup: Setup) -> dict[str, Any]:
    """The norms and the trace."""
    return {"norms": np.asarray(narrow(setup)[:2]), "trace": narrow(setup).hessian_trace}


def seen_narrow(runs: Any) -> dict[str, Any]:
    """The same at the end."""
    data = runs["run"]
    squares = [np.sum(data[f"params_{n}"].values ** 2, axis=(-2, -1)) for n in ("W2", "W1")]
    norms = late(data, np.stack(squares, axis=-1))
    return {"norms": norms, "trace": late(data, data["trace"].values)}


def narrow_enough(setup: Setup) -> float:
    """How far from finished, with what the net cannot fit in the residual."""
    problem: Any = setup.problem
    width = int(setup.net.width)  # pyright: ignore[reportAttributeAccessIssue]
    missed = max(problem.d - width, 0) / problem.d
    return unfinished(setup, problem.sigma_eps + missed * np.eye(problem.d))


def isotropic(setup: Setup) -> bool:
    """Is it y = x + ε with Σx = I and Σε = s²I?"""
    problem: Any = setup.problem
    eye = np.eye(problem.d)
    given = (problem.sigma_x, eye), (problem.sigma_eps, problem.sigma_eps[0, 0] * eye)
    return problem.d == problem.k and all(np.allclose(a, b) for a, b in (*given, (problem.V, eye)))


def printed_end(key: int) -> Evidence:
    """2 min(d, h)TrΣx for h < d, against the trace at the point where no charge moves."""
    setup = autoencoder(key, None)
    U, W = cases.layers(setup.params)
    truth = factorisation_hessian_trace(setup.problem, U / STRETCH, STRETCH * W)
    return Evidence(abs(2 * H * D * 2 / truth - 1), abs(narrow(setup).hessian_trace / truth - 1))


EQ15END = Theorem(
    "equilibrium.eq15.end",
    r"On $y = x+\varepsilon$ with $\Sigma_x = I$ and $\Sigma_\varepsilon = s^2I$ SGD ends at "
    r"$\|U\|^2 = m\rho$, $\|W\|^2 = m/\rho$, $m = \min(h,d)$, and $\mathrm{Tr}\nabla^2L = "
    r"2dm(\rho+1/\rho)$, where $\rho^2 = 1+(d-m)/ds^2$: a narrow net is not balanced.",
    [
        common.no_decay(),
        *sgd(),
        kind("inputs and label noise are isotropic", isotropic),
        Hypothesis("the run is long", narrow_enough, 1.0),
        Hypothesis(
            "the step is small",
            lambda s: kappa(s) * sum(narrow(s)[:2]),
            0.5,
            graded=True,
            order="O(κ)",
        ),
    ],
    told_narrow,
    seen_narrow,
    CHANCE,
    autoencoder,
    [Control("the noise is that of minibatches", lambda key: autoencoder(key, None))],
    runs=ensemble,
    nets=(TwoLayer,),
    needs={**cases.PARAMS, "trace": hessian_trace},
    problems=(Population,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Eq (15), S_end",
            r"$2\min(d,d_x)\mathrm{Tr}\Sigma_x$ (times the 2 of Prop. 5.3), for every width",
            r"$2d_xd(\rho+1/\rho)$ if $d < d_x$",
            "numeric",
            printed_end,
        ),
    ),
    source=SOURCE,
    title="sharpness of an autoencoder after SGD",
)

THEOREMS = (EQ14, EQ15END)
