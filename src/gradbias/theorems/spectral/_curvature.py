"""Sharpness and Hessian trace where the flow ends."""

import numpy as np

from ...problems import Problem
from ..prelude import Claims, Control, Measurements, Run, Setup, Theorem, setup_of
from . import _instances as cases
from ._facts import STEPS, TO_THE_END, limit_of, sized
from ._finite_step import small_step
from ._measurements import ended, svdvals
from ._paper import PAPER


def predict_curvature(setup: Setup) -> Claims:
    limit = limit_of(setup)
    return sized({"sharpness": limit.sharpness, "hessian trace": limit.hessian_trace})


def measure_curvature(run: Run) -> Measurements:
    """JᵀJ of the outputs: the Hessian where the residuals are zero."""
    problem = setup_of(run).problem
    W1 = np.asarray(run.final["W1"])
    W2 = np.asarray(run.final["W2"])
    values = np.linalg.eigh(_second_derivative(problem))
    outputs = np.eye(problem.k)
    rows = np.sqrt(np.maximum(values[0], 0))[:, None] * values[1].T
    jacobian = np.hstack([np.kron(rows, W2.T), np.kron(rows @ W1, outputs)])
    squares = svdvals(jacobian) ** 2
    slope = 4 * float(values[0][-1])
    return {
        "sharpness": ended(run, squares[0], slope),
        "hessian trace": ended(run, squares.sum(), slope * problem.k * problem.d),
    }


def _second_derivative(problem: Problem) -> np.ndarray:
    """A, by differences of the gradient, which is linear in the predictor."""
    zero = np.zeros((problem.d, problem.k))
    base = np.asarray(problem.gradient(zero))[:, 0]
    columns = []
    for i in range(problem.d):
        step = zero.copy()
        step[i, 0] = 1.0
        columns.append(np.asarray(problem.gradient(step))[:, 0] - base)
    return (np.array(columns) + np.array(columns).T) / 2


CURVATURE = Theorem(
    "spectral.curvature",
    r"At the end of the flow from $I_\gamma$ the Hessian of the loss in the parameters has the "
    r"largest eigenvalue of $(XMX^T\otimes I + XX^T\otimes N)$ and the trace "
    r"$k\,\operatorname{tr}(AM) + \operatorname{tr}(A)\|W_2\|^2$, with $M$ and $N$ from "
    r"$\beta^\star$ and $\gamma$.",
    hypotheses=[*TO_THE_END, small_step("end", 4)],
    predict=predict_curvature,
    measure=measure_curvature,
    tolerance=1e-8,
    instances=cases.flow,
    controls=[Control("the init is I_γ", cases.anisotropic)],
    title="sharpness and Hessian trace of the limit",
    dynamics=STEPS,
    paper=PAPER,
    own=True,
)
