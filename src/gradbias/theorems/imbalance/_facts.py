"""What the theorems ask of a setup, and the coordinates in which they read a run."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...dynamics import Descent, Flow
from ...problems import Population, Regression
from ...theory.imbalance import Certificate, certificate, growth_bound, rate_ceiling, split
from ..prelude import Hypothesis, Measurements, Run, Setup, common, fact, kind, limit, setup_of

# What every theorem of the paper is about, and what it reads from a run.
BOTH = (Flow, Descent)
FLOOR = 1e-18  # of the loss at the start: what an integrator in double precision leaves
USEFUL = 0.5
BOUND = 1.0  # a bound that may be off by a factor of two is still one
WIDE = 64  # hidden units up to which matrices of them are looked at as they are


class Layers(NamedTuple):
    """A net in the coordinates of the data, at one time or along a path (first axis).

    Attributes:
        U1: (…, r, h), what the data see of the first layer.
        U2: (…, D − r, h), what they do not.
        V: (…, m, h).
    """

    U1: np.ndarray
    U2: np.ndarray
    V: np.ndarray

    @property
    def Lam(self) -> np.ndarray:
        """The imbalance, (…, h, h)."""
        return _t(self.U1) @ self.U1 - _t(self.V) @ self.V

    @property
    def Z(self) -> np.ndarray:
        """(…, m + r, h), V above U1."""
        return np.concatenate([self.V, self.U1], axis=-2)

    @property
    def product(self) -> np.ndarray:
        """U1Vᵀ."""
        return self.U1 @ _t(self.V)


def _t(matrices: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrices, -1, -2)


def layers(problem: Regression | Population, W1: ArrayLike, W2: ArrayLike) -> Layers:
    """W1 (…, D, h) and W2 (…, h, m) in the coordinates of a problem."""
    parts = split(problem)
    first = np.asarray(W1)
    second = np.asarray(W2)
    return Layers(parts.Phi1.T @ first, parts.Phi2.T @ first, _t(second))


def problem_of(setup: Setup) -> Regression | Population:
    """The problem, of one of the kinds that the paper is about."""
    assert isinstance(setup.problem, (Regression, Population))
    return setup.problem


def on_the_way(setup: Setup) -> float:
    """The size of predictors on the way: of the start, or of the end if that is larger."""
    start = float(np.linalg.norm(common.start(setup)))
    return max(start, float(np.linalg.norm(problem_of(setup).min_norm)))


@fact
def start(setup: Setup) -> Layers:
    """The layers at the start."""
    return layers(problem_of(setup), setup.params["W1"], setup.params["W2"])


@fact
def frame_of(setup: Setup) -> np.ndarray:
    """(h, q): hidden units, or for wide nets the few combinations of them that ever learn."""
    Z = start(setup).Z
    return np.eye(Z.shape[1]) if Z.shape[1] <= WIDE else np.linalg.qr(Z.T)[0]


def compressed(setup: Setup, now: Layers) -> Layers:
    """The layers in that frame, so that a wide net's imbalance stays a small matrix."""
    Q = frame_of(setup)
    return Layers(*(x @ Q for x in now))


def end(run: Run) -> Layers:
    """The layers at the end of a run."""
    return layers(problem_of(setup_of(run)), run.final["W1"], run.final["W2"])


def measure_end(run: Run) -> Measurements:
    """The predictor at the end of a run."""
    return {"theta": limit(run)}


def reached(run: Run) -> np.ndarray:
    """Which saves there are: rows after a stop of descent are not numbers."""
    return np.isfinite(run.data["loss"].values)


def path(run: Run) -> Layers:
    """The layers at every save."""
    return _recorded(run, "params")


def pulls(run: Run) -> Layers:
    """The gradient of the loss at every save, in the same coordinates."""
    return _recorded(run, "pull")


def _recorded(run: Run, name: str) -> Layers:
    rows = reached(run)
    W1, W2 = (run.data[f"{name}_{w}"].values[rows] for w in ("W1", "W2"))
    return layers(problem_of(setup_of(run)), W1, W2)


def times(setup: Setup) -> np.ndarray:
    """The save times; of descent, lr · steps."""
    at = np.asarray(setup.save_at)
    return at if setup.dynamics.axis == "time" else np.asarray(setup.dynamics.time(at))


def errors(problem: Regression | Population, now: Layers) -> np.ndarray:
    """E = B − S^½U1Vᵀ."""
    parts = split(problem)
    return parts.B - parts.sigma[:, None] * now.product


def norms(matrices: np.ndarray) -> np.ndarray:
    """Frobenius, of every matrix on a path."""
    return np.sqrt(np.sum(matrices**2, axis=(-2, -1)))


@fact
def cert(setup: Setup) -> Certificate:
    """What is certified at the start."""
    return certificate(problem_of(setup), setup.params)


def top_eigenvalue(matrix: np.ndarray, index: int) -> float:
    """λ_index of a symmetric matrix, the largest is λ_1; 0 beyond its size."""
    values = np.linalg.eigvalsh(matrix)[::-1]
    return float(values[index - 1]) if index <= len(values) else 0.0


def level(now: Layers) -> float:
    """The level c; up to some width from the whole h × h imbalance, unlike the theory's."""
    r = len(now.U1)
    m = len(now.V)
    if now.V.shape[1] > WIDE:
        Q = np.linalg.qr(now.Z.T)[0]
        now = Layers(*(x @ Q for x in now))
    Lam = now.Lam
    return max(top_eigenvalue(Lam, r), 0.0) + max(top_eigenvalue(-Lam, m), 0.0)


SOMETHING = kind("the data are not all zero", lambda s: split(problem_of(s)).rank > 0)
QUIET = kind("there is no noise", lambda s: getattr(s.dynamics, "noise", None) is None)
OF_DATA = kind("steps see the data only", common.sees_data_only)
DIES_OUT = kind("noise dies out at the minima", common.noise_vanishes)
PLAIN = [*common.plain(), QUIET, SOMETHING]
IMBALANCED = kind("the imbalance level c is positive", lambda s: cert(s).c > 0)


@fact
def relative_step(setup: Setup) -> float:
    """The step times λ_max of the kernel at the start; 0 for a flow."""
    if not common.is_descent(setup):
        return 0.0
    return common.learning_rate(setup) * rate_ceiling(problem_of(setup), setup.params)


STEP = Hypothesis("lr · λ_max of the kernel is at most 1", relative_step, 1.0)


@fact
def lost(setup: Setup) -> float:
    """The loss above its minimum at the start."""
    return float(split(problem_of(setup)).weight) * cert(setup).e0 ** 2


def drift(setup: Setup) -> float:
    """A bound on what descent does to the imbalance, in all: Σ lr²‖∇‖² ≤ 2 lr (L(0) − L*)."""
    return 2 * common.learning_rate(setup) * lost(setup) if common.is_descent(setup) else 0.0


def second_order(setup: Setup) -> float:
    """A bound on what steps add to log ‖E‖: Σ lr²σ_1²‖E‖(‖B‖ + ‖E‖), in the problem's time."""
    if not common.is_descent(setup):
        return 0.0
    certified = cert(setup)
    parts = split(problem_of(setup))
    size = certified.e0 * (float(np.linalg.norm(parts.B)) + certified.e0)
    strength = common.learning_rate(setup) * (parts.speed * parts.sigma[0]) ** 2
    return float(strength * size / certified.kA) if certified.kA > 0 else math.inf


@fact
def kept(setup: Setup) -> float:
    """The part of the level c that descent is sure to leave, 1 for a flow."""
    if not common.is_descent(setup):
        return 1.0
    return max(1 - drift(setup) / cert(setup).c, 0.0) if cert(setup).c > 0 else 0.0


def growth_widening(setup: Setup) -> float:
    """How much more descent may grow than e^θ: its sum of ‖E‖ against the integral."""
    if not common.is_descent(setup):
        return 0.0
    if not kept(setup) > 0:
        return math.inf
    step = common.learning_rate(setup) * cert(setup).kA
    longer = (1 + step) * (1 + 2 * second_order(setup)) / kept(setup) - 1
    return _grown(growth_bound(problem_of(setup), setup.params) * longer)


def rate_widening(setup: Setup) -> float:
    """How far descent may be above Theorem 1's bound on the loss, with the level that is kept."""
    return _grown(2 * second_order(setup) / kept(setup)) if kept(setup) > 0 else math.inf


def _grown(exponent: float) -> float:
    return math.expm1(exponent) if exponent < 700 else math.inf


def small_step(margin: Callable[[Setup], float], at_most: float = USEFUL) -> Hypothesis:
    """The step is small, with this as the relative error that it brings."""
    return Hypothesis("the step is small", margin, at_most, graded=True, order="O(lr)")
