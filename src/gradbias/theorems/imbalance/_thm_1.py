"""Theorem 1, and what can be certified beyond it: how fast, and how large the weights get."""

import numpy as np

from ...dynamics import Flow
from ...nets import TwoLayer
from ...problems import Population, Regression
from ...theory.imbalance import log_norm_bound, rate_bound, split
from ..prelude import (
    Claim,
    Claims,
    Control,
    Erratum,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    at_least,
    at_most,
    equals,
    kind,
    setup_of,
)
from . import _instances as cases
from ._facts import (
    BOTH,
    BOUND,
    FLOOR,
    IMBALANCED,
    PLAIN,
    STEP,
    Layers,
    cert,
    compressed,
    end,
    errors,
    growth_widening,
    kept,
    lost,
    norms,
    path,
    problem_of,
    rate_widening,
    reached,
    small_step,
    start,
    times,
    top_eigenvalue,
)
from ._paper import PAPER
from ._section_2 import states


def bounded(setup: Setup, bound: np.ndarray) -> Claim:
    """At most this, down to what rounding leaves; nothing is said of the start itself."""
    parts = split(problem_of(setup))
    rounding = parts.weight * (1e-14 * float(np.linalg.norm(parts.B))) ** 2
    above = np.maximum(bound, FLOOR * lost(setup) + rounding)
    return at_most(np.where(times(setup) > 0, above, np.inf))


def above_minimum(run: Run) -> np.ndarray:
    """The loss above its minimum; what was not reached before a stop is that of the stop."""
    problem = problem_of(setup_of(run))
    rows = reached(run)
    above = problem.excess()
    thetas = run.data["theta"].values[rows]
    values = [float(above(problem.as_predictor(theta))) for theta in thetas]
    return np.asarray(values + values[-1:] * int(np.sum(~rows)))


def predict_theorem1(setup: Setup) -> Told:
    problem = problem_of(setup)
    params = setup.params
    values = {
        # Descent moves the imbalance: only what is sure to be left of its level counts.
        "excess loss": bounded(setup, rate_bound(problem, params, kept(setup) * times(setup))),
        # A logarithm: what is allowed on top is a factor, not a part of its own size.
        "log size": at_most(log_norm_bound(problem, params), scale=1.0),
    }
    return Told(values, expected={"log size": 2 * growth_widening(setup)})


def measure_theorem1(run: Run) -> Measurements:
    sizes = np.sum(path(run).Z ** 2, axis=(1, 2))
    return {"excess loss": above_minimum(run), "log size": np.log(sizes.max())}


THM1 = Theorem(
    "imbalance.thm1",
    r"With $c = [\lambda_r(\Lambda)]_+ + [\lambda_m(-\Lambda)]_+$ gradient flow satisfies "
    r"$L(t)-L^\star \le e^{-2\lambda_r(\Sigma_x)ct}(L(0)-L^\star)$; if $c > 0$ the weights "
    r"converge, $E \to 0$, and $\|V\|^2+\|U_1\|^2$ never grows by more than a factor "
    r"$\exp(2\sqrt{\lambda_1}\|E(0)\|_F/(c\lambda_r))$.",
    hypotheses=[*PLAIN, IMBALANCED, STEP, small_step(rate_widening, BOUND)],
    predict=predict_theorem1,
    measure=measure_theorem1,
    tolerance=1e-9,
    instances=cases.setup,
    controls=[Control("there is no weight decay", cases.decaying)],
    dynamics=BOTH,
    errata=[
        Erratum(
            "App. E, before (34), the eigenvalue r + 1",
            "a subspace of dimension $r$ in the last line",
            "of dimension $h-r$, as in the lines before it",
            "misprint",
            quote=r"= \min_{\substack{S \subset \ker(U_1) \\ \dim(S)=r}} \max_{0 \neq x \in S} "
            r"\frac{x^T (-V^T V) x}{x^T x} \leq 0.",
        ),
    ],
    title="imbalance makes the loss fall",
    paper=PAPER,
)


def _unclipped(now: Layers) -> np.ndarray:
    r = now.U1.shape[0]
    m = now.V.shape[0]
    return np.array([top_eigenvalue(now.Lam, r), top_eigenvalue(-now.Lam, m)])


def narrow(key: int) -> Setup:
    """One hidden unit less than is needed."""
    D, _, r, m, _ = cases.sizes(key)
    params = cases.gaussian(key)
    less = m + r - 1
    cut = {"W1": params["W1"][:, :less], "W2": params["W2"][:less]}
    return cases.setup(key).replace(net=TwoLayer(D, m, less), params=cut)


def predict_eigenvalues(setup: Setup) -> Claims:
    size = float(np.sum(start(setup).Z ** 2))
    return {"eigenvalues": at_least(np.zeros(2), scale=size)}


def measure_eigenvalues(run: Run) -> Measurements:
    """λ_r(Λ) and λ_m(−Λ) at the end of the run."""
    return {"eigenvalues": _unclipped(compressed(setup_of(run), end(run)))}


THM1_WIDE = Theorem(
    "imbalance.thm1_wide",
    r"If $h \ge m+r$, neither $\lambda_r(\Lambda)$ nor $\lambda_m(-\Lambda)$ is negative, so that "
    r"$c$ needs no clipping.",
    hypotheses=[
        *PLAIN,
        kind("width is at least m + r", lambda s: np.less_equal(*start(s).Z.shape)),
    ],
    predict=predict_eigenvalues,
    measure=measure_eigenvalues,
    tolerance=1e-10,
    instances=cases.setup,
    controls=[Control("width is at least m + r", narrow)],
    dynamics=BOTH,
    title="wide nets need no clipping",
    paper=PAPER,
)


def kernel_floor(problem: Regression | Population, now: Layers) -> np.ndarray:
    """The least eigenvalue of the whole kernel I ⊗ M + N ⊗ S at every save, in own time."""
    parts = split(problem)
    root = parts.sigma[:, None]
    m = now.V.shape[-2]
    least = []
    for U1, V in zip(now.U1, now.V, strict=True):
        M = root * (U1 @ U1.T) * root.T
        K = np.kron(np.eye(m), M) + np.kron(V @ V.T, np.diag(parts.S))
        least.append(parts.speed * np.linalg.eigvalsh(K)[0])
    return np.asarray(least)


def predict_certified(setup: Setup, run: Run) -> Claims:
    certified = cert(setup)
    e = norms(errors(problem_of(setup), path(run)))
    # The error never grows, so that what is certified at e0 holds ever after.
    e = np.minimum(e, certified.e0)
    size = float(certified.k0)
    later = np.arange(len(e)) > 0  # at the start kC is k

    def least(rates: np.ndarray) -> Claim:
        return at_least(np.where(later, rates, -np.inf), scale=size)

    return {
        "k ≥ kA": least(np.full(len(e), certified.kA)),
        "k ≥ kB": least(certified.kB(e)),
        "k ≥ kC": least(certified.kC(e)),
    }


def measure_certified(run: Run) -> Measurements:
    k = kernel_floor(problem_of(setup_of(run)), path(run))
    return {"k ≥ kA": k, "k ≥ kB": k, "k ≥ kC": k}


RATES = Theorem(
    "imbalance.rates",
    r"The least rate $k(t)$ at which $\|E\|$ can shrink, the least eigenvalue of "
    r"$I\otimes \sqrt{S}U_1U_1^T\sqrt{S} + VV^T\otimes S$, stays above $k_A = \lambda_rc$ (Thm 1), "
    r"above $k_B(\|E\|)$ from imbalance and product, and above $k_C(\|E\|)$ from its own start: "
    r"$k_C^2 = k_0^2 - 8\lambda_1[\|B\|(e_0-e)+\frac{1}{2}(e_0^2-e^2)]$.",
    hypotheses=PLAIN,
    predict=predict_certified,
    measure=measure_certified,
    tolerance=1e-9,
    instances=cases.rich_or_lazy,
    controls=[Control("there is no weight decay", cases.decaying)],
    given=("error",),
    dynamics=(Flow,),
    title="certified rates",
    paper=PAPER,
    own=True,
)


def extreme(key: int, tilt: float = 0.0) -> Setup:
    """U1 and V on units of their own, labels in the slowest direction: Theorem 1 is an equality."""
    problem = cases.regression(key)
    parts = split(problem)
    rng = cases.draws(key, "extreme")
    D, _, r, m, width = cases.sizes(key)
    W1 = np.zeros((D, width))
    W2 = np.zeros((width, m))
    sizes = np.sort(rng.uniform(0.5, 1.5, r))[::-1]  # the least where σ is least
    W1[:, :r] = parts.Phi1 * sizes
    W2[r : r + m] = np.diag(np.sort(rng.uniform(0.5, 1.5, m)))
    W2[:m] += tilt
    left = problem.svd[0][:, -1]
    Y = np.outer(left, np.eye(m)[0])
    return cases.setup(key, {"W1": W1, "W2": W2}, problem=problem.__class__(problem.X, Y, 0.5))


def predict_slowest(setup: Setup) -> Claims:
    return {"rate": 2 * cert(setup).kA}


def measure_slowest(run: Run) -> Measurements:
    """−d log(L − L*)/dt at the start, from the gradient."""
    fall = sum(float(np.sum(run.data[f"pull_{n}"].values[0] ** 2)) for n in ("W1", "W2"))
    return {"rate": fall / above_minimum(run)[0]}


def _not_extreme(setup: Setup) -> float:
    """Distance of the start's error from the slowest direction, and of k(0) from kA."""
    now = start(setup)
    problem = problem_of(setup)
    parts = split(problem)
    E = errors(problem, now)
    root = parts.sigma[:, None]
    moved = root * (now.U1 @ now.U1.T) @ (root * E) + parts.S[:, None] * (E @ now.V @ now.V.T)
    size = float(np.linalg.norm(E))
    if size == 0 or cert(setup).k0 == 0:
        return 1.0
    off = np.linalg.norm(parts.speed * moved - cert(setup).kA * E)
    return float(off / (size * cert(setup).k0))


SHARP = Theorem(
    "imbalance.sharp",
    r"No better rate than $k_A$ follows from $\Lambda$ alone: from $U_1 = \sqrt{\Lambda_+}$, "
    r"$V = \sqrt{\Lambda_-}$ and labels in the slowest direction the loss starts to fall at the "
    r"rate $2\lambda_rc$ of Theorem 1 exactly.",
    hypotheses=[
        *PLAIN,
        Hypothesis("the start is the slowest of its imbalance", _not_extreme, 1e-9),
    ],
    predict=predict_slowest,
    measure=measure_slowest,
    tolerance=1e-9,
    instances=extreme,
    controls=[Control("the start is the slowest", lambda key: extreme(key, tilt=0.3))],
    dynamics=BOTH,
    title="Theorem 1 is attained",
    paper=PAPER,
    own=True,
)


def predict_envelope(setup: Setup, run: Run) -> Told:
    certified = cert(setup)
    late = certified.restart(states(run)[-1])
    # Before the end, the kernel may still move by what kC allows.
    open_ = 2 * (1 - float(late.kC(0.0)) / late.k0) if late.k0 > 0 else 1.0
    values = {
        "excess loss": bounded(setup, certified.envelope(times(setup))),
        "k at the end": at_least(certified.asymptotic_rate, scale=late.k0),
        "restarted rate": equals(late.asymptotic_rate, scale=late.k0),
    }
    return Told(values, expected={"k at the end": open_, "restarted rate": open_})


def measure_envelope(run: Run) -> Measurements:
    k = float(kernel_floor(problem_of(setup_of(run)), path(run))[-1])
    return {"excess loss": above_minimum(run), "k at the end": k, "restarted rate": k}


ENVELOPE = Theorem(
    "imbalance.envelope",
    r"$\|E\|$ stays below the solution of $\dot e = -\max(k_A, k_B(e), k_C(e))\,e$; certified "
    r"anew from a late state of a run, the rate is the true one, $k(\infty)$.",
    hypotheses=[*PLAIN, IMBALANCED],
    predict=predict_envelope,
    measure=measure_envelope,
    tolerance={"excess loss": 1e-9, "k at the end": 1e-9, "restarted rate": 1e-8},
    instances=cases.setup,
    controls=[Control("there is no weight decay", cases.decaying)],
    given=("last state",),
    dynamics=(Flow,),
    title="the certified envelope of the loss",
    paper=PAPER,
    own=True,
)

THEOREMS = (THM1, THM1_WIDE, RATES, SHARP, ENVELOPE)
