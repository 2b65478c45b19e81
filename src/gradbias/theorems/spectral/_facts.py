"""What the theorems ask of a setup: I_γ, whitened data, a step without extras."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...dynamics import Descent, Flow
from ...noise import DataNoise
from ...problems import Population, Regression
from ...theory import least_squares, singular_basis
from ...theory.spectral import SpectralLimit, spectral_limit
from ..prelude import Claim, Hypothesis, Setup, common, equals, fact, kind

# What every theorem of the paper is about, and what it reads from a run.


def sized(values: Mapping[str, ArrayLike]) -> dict[str, ArrayLike | Claim]:
    """Predictions that may be zero, as for labels that are: errors are then absolute."""
    return {n: v if np.any(v) else equals(v, scale=1.0) for n, v in values.items()}


class Start(NamedTuple):
    """The layers at the start, and the γ of the isotropic part of W1W1ᵀ."""

    W1: np.ndarray
    W2: np.ndarray
    gamma: float


@fact
def start(setup: Setup) -> Start:
    """γ is the mean of the eigenvalues of W1W1ᵀ over 2: under I_γ it is γ itself."""
    W1 = np.asarray(setup.params["W1"])
    W2 = np.asarray(setup.params["W2"])
    root = float(np.linalg.norm(W1.ravel())) / np.sqrt(2 * len(W1))
    return Start(W1, W2, root * root)


def problem_of(setup: Setup) -> Regression | Population:
    """The problem, known to be quadratic."""
    return least_squares(setup.problem)


def gamma_of(setup: Setup) -> float:
    """The scale of the init."""
    return start(setup).gamma


@fact
def limit_of(setup: Setup) -> SpectralLimit:
    """Where the flow ends."""
    return spectral_limit(problem_of(setup), gamma_of(setup))


@fact
def star(setup: Setup) -> np.ndarray:
    """The singular values of the minimiser of least norm."""
    problem = problem_of(setup)
    return np.linalg.svd(problem.as_predictor(problem.min_norm), compute_uv=False)


def scale_of(setup: Setup) -> float:
    """The curvature c of whitened data, A = c·(projection)."""
    return float(singular_basis(problem_of(setup)).curvature[0])


def rate_of(setup: Setup) -> float:
    """The step of descent."""
    rate = common.learning_rate(setup)
    if not rate > 0:
        raise ValueError(f"{type(setup.dynamics).__name__} has no constant learning rate")
    return rate


def times_of(setup: Setup) -> np.ndarray:
    """The save times; of descent, lr · steps."""
    at = np.asarray(setup.save_at)
    return at if setup.dynamics.axis == "time" else np.asarray(setup.dynamics.time(at))


@fact
def _from_i_gamma(setup: Setup) -> float:
    W1, W2, gamma = start(setup)
    if not gamma > 0:
        return 1.0
    unit = W1 / np.sqrt(2 * gamma)
    uneven = float(np.linalg.norm(unit @ unit.T - np.eye(len(W1))))
    return max(uneven, float(np.linalg.norm(W2) / np.linalg.norm(W1)))


@fact
def _unevenness(setup: Setup) -> float:
    values = singular_basis(problem_of(setup)).curvature
    return float((values[0] - values[-1]) / values[0]) if len(values) else 1.0


def _extras(setup: Setup) -> float:
    """Weight decay and momentum, which change the law of motion."""
    momentum = getattr(setup.dynamics, "momentum", 0.0)
    return float(abs(getattr(setup.dynamics, "weight_decay", 0.0)) + abs(momentum))


I_GAMMA = Hypothesis("the init is I_γ", _from_i_gamma, 1e-9)
PLAIN = Hypothesis("no weight decay, no momentum", _extras, 0.0)
WHITENED = Hypothesis("the data are whitened", _unevenness, 1e-9)
ONE_OUTPUT = kind("there is one output", lambda setup: setup.problem.k == 1)
QUIET = kind("no noise", lambda setup: getattr(setup.dynamics, "noise", None) is None)
OF_DATA = kind(
    "noise comes from the data",
    lambda setup: isinstance(getattr(setup.dynamics, "noise", None), DataNoise | None),
)
DIES_OUT = kind("noise dies out at the minima", common.noise_vanishes)
STEADY = kind(
    "the step is constant", lambda setup: not callable(getattr(setup.dynamics, "lr", None))
)


def instability(setup: Setup) -> float:
    """Half of lr · sharpness at the limit: beyond 1 descent ends somewhere flatter."""
    if not isinstance(setup.dynamics, Descent):
        return 0.0
    return rate_of(setup) * limit_of(setup).sharpness / 2


STABLE = Hypothesis("the step is below 2/sharpness", instability, 0.9)
STEPS = (Flow, Descent)

# What theorems about the end of a flow ask, or of descent that ends at the same place.
TO_THE_END = (PLAIN, QUIET, I_GAMMA, STEADY, STABLE)
# What theorems ask in which every singular value moves on its own.
ON_WHITENED = (PLAIN, QUIET, STEADY, WHITENED, I_GAMMA)
