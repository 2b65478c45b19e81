"""What γ → 0 does at the end of the flow: the nuclear norm, and neurons that align."""

import numpy as np

from ..prelude import Control, Hypothesis, Measurements, Run, Setup, Theorem, setup_of
from . import _instances as cases
from ._facts import ONE_OUTPUT, STEPS, TO_THE_END, gamma_of, star
from ._finite_step import small_step
from ._measurements import end_of, ended, svdvals
from ._paper import PAPER


def _nuclear_excess(setup: Setup) -> float:
    """½‖W1‖² + ½‖W2‖² above the nuclear norm of β*, exactly, for this γ."""
    gamma = gamma_of(setup)
    sigma = star(setup)
    total = float(sigma.sum())
    if total == 0:
        return float("nan")
    above = gamma * (gamma / (np.hypot(sigma, gamma) + sigma))
    idle = max(setup.problem.d - len(sigma), 0)
    return float(above.sum() + gamma * idle) / total


def measure_energy(run: Run) -> Measurements:
    final = run.final
    energy = sum(float(np.sum(np.square(final[name]))) for name in ("W1", "W2")) / 2
    return {"energy": ended(run, energy, np.sqrt(setup_of(run).problem.k))}


NUCLEAR = Theorem(
    "spectral.nuclear",
    r"As $\gamma \to 0$ the energy $\frac{1}{2}\|W_1\|^2 + \frac{1}{2}\|W_2\|^2$ at the end goes "
    r"to the nuclear norm of $\beta^\star$, the least energy of any layers that make it.",
    hypotheses=[
        *TO_THE_END,
        Hypothesis("the init is small", _nuclear_excess, 0.2, True, "O(γ)"),
        small_step("end", 2),
    ],
    predict=lambda setup: {"energy": float(star(setup).sum())},
    measure=measure_energy,
    tolerance=1e-8,
    instances=lambda key: cases.flow(key, gamma=1e-6),
    controls=[Control("the init is small", cases.flow)],
    title="a small init minimises the nuclear norm",
    dynamics=STEPS,
    paper=PAPER,
)


def _spread(setup: Setup) -> float:
    """How much of ‖W1‖² lies outside of the direction of β*, relatively: 2γ(d − 1) of all."""
    gamma = gamma_of(setup)
    tail = 2 * gamma * (setup.problem.d - 1)
    return tail / (gamma + float(np.hypot(star(setup)[0], gamma)) + tail)


def measure_aligned(run: Run) -> Measurements:
    W1 = np.asarray(run.final["W1"])
    beta = np.ravel(end_of(run))
    values = svdvals(W1)
    unit = beta / (np.linalg.norm(beta) or 1.0)
    share = float(np.sum((unit @ W1) ** 2) / np.sum(W1**2))
    norms = np.linalg.norm(unit @ W1) / values[0]
    return {"share along theta": share, "top value along theta": float(norms)}


ALIGNMENT = Theorem(
    "spectral.alignment",
    r"With one output the top left singular vector of $W_1$ is the direction of $\beta$; as "
    r"$\gamma \to 0$ all columns of $W_1$ align with it.",
    hypotheses=[
        ONE_OUTPUT,
        *TO_THE_END,
        Hypothesis("the init is small", _spread, 0.2, True, "O(γ)"),
        small_step("end"),
    ],
    predict=lambda setup: {"share along theta": 1.0, "top value along theta": 1.0},
    measure=measure_aligned,
    tolerance=1e-8,
    instances=lambda key: cases.flow(key, k=1, gamma=1e-6),
    controls=[Control("the init is small", lambda key: cases.anisotropic(key, k=1))],
    title="a small init aligns the neurons",
    dynamics=STEPS,
    paper=PAPER,
)
