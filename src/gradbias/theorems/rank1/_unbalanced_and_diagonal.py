"""Starts out of balance, and diagonal nets: where gradient flow ends."""

from ...dynamics import Descent
from ...nets import Diagonal
from ...theory import rank1_limit
from ...theory.diagonal import limit as diagonal_end
from ...theory.rank1 import Rank1Limit
from ..prelude import Control, Measurements, Run, Setup, Theorem, Told, common, fact, kind, limit
from . import _instances as cases
from ._facts import measure_end
from ._paper import RANK1_FLOW


@fact
def any_end(setup: Setup) -> Rank1Limit:
    """Where gradient flow of a rank-1 net ends from any start."""
    return rank1_limit(common.regression(setup), setup.params)


def predict_any_end(setup: Setup) -> Told:
    """θ∞."""
    exact = any_end(setup)
    return Told({"theta": exact.theta}, residual=exact.residual)


UNBALANCED = Theorem(
    "rank1.unbalanced",
    r"From any start of a rank-1 net, $M = \|v_1(\infty)\|^2$ solves "
    r"$\Xi(M)^2(M - \|P_Nv_1(0)\|^2) = \|X^+y\|^2$ with "
    r"$\Xi(M)^2 = \prod_k[(M+c_k)^2 - P_kQ_k/4]$, and "
    r"$\theta(\infty) = X^+y \pm \Xi(M)\,P_Nv_1(0)$.",
    hypotheses=[
        common.one_output(),
        *common.plain(),
        kind("the flow does not end at the saddle θ = 0", lambda s: not any_end(s).saddle),
    ],
    predict=predict_any_end,
    measure=measure_end,
    tolerance=1e-8,
    instances=cases.unbalanced,
    controls=[
        Control(
            "the path is gradient flow's",
            lambda key: cases.unbalanced(key, Descent(0.02)),
        )
    ],
    paper=RANK1_FLOW,
    title="limit of a rank-1 net from any start",
    own=True,
)


def predict_diagonal(setup: Setup) -> Told:
    """θ∞, and the product that stays."""
    exact = diagonal_end(common.regression(setup), setup.params)
    product = setup.params["u"] * setup.params["v"]
    return Told({"theta": exact.theta, "product": product}, residual=exact.residual)


def measure_diagonal(run: Run) -> Measurements:
    """The same at the end of the run."""
    return {"theta": limit(run), "product": run.final["u"] * run.final["v"]}


DIAGONAL = Theorem(
    "rank1.diagonal",
    r"Gradient flow of $\theta = u^2 - v^2$ keeps $uv$ and ends at the interpolator of least "
    r"hyperbolic entropy $\sum_i \alpha_i^2\,q(\theta_i/\alpha_i^2) - "
    r"\theta\cdot\asinh(\theta(0)/2\alpha^2)$, $\alpha^2 = u(0)v(0)$, "
    r"$q(z) = 2 - \sqrt{4+z^2} + z\,\asinh(z/2)$.",
    hypotheses=[common.one_output(), *common.plain()],
    predict=predict_diagonal,
    measure=measure_diagonal,
    tolerance=1e-8,
    instances=cases.diagonal,
    controls=[
        Control(
            "the path is gradient flow's",
            lambda key: cases.diagonal(key, Descent(0.05)),
        )
    ],
    nets=(Diagonal,),
    paper=RANK1_FLOW,
    title="limit of a diagonal net",
)

THEOREMS = (UNBALANCED, DIAGONAL)
