"""One input, one output: charges decay exactly by a factor a step, in a time that κ decides."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Minibatch
from ...numerics.host_rng import generator
from ...observe import running
from ...problems import Population
from ...theory.symmetry import equilibration_time, rank_one_rate
from .. import _shared_hypotheses as common
from .._erratum import Erratum, Evidence
from .._hypothesis import Hypothesis, kind
from .._source import EQUILIBRIUM as SOURCE
from .._theorem import Control, Ensemble, Theorem, Told
from . import _instances as cases
from ._facts import kappa, misadjustment, no_momentum, sgd
from ._measurements import APART, CHANCE, mean

LR, MEMBERS, LONG = 0.01, 32, np.array([0, 1600])
NET = TwoLayer(d=1, k=1, width=2)
FRESH: Any = Minibatch(1)


def shrinking(problem, net, params, gradient, lr):
    """ln(1 − lr²g²) with g the batch's gradient in v = UW, from that in the parameters."""
    w = params["W2"][:, 0]
    g = jnp.sum(gradient["W1"][0] * w) / jnp.sum(w * w)
    return jnp.log1p(-((lr * g) ** 2))


SHRUNK = {**cases.PARAMS, "shrunk": running(shrinking)}


def scalar(key: int, noise: Any = FRESH, gamma: float = 0.0) -> Setup:
    """Two hidden units, at the minimum of fresh samples."""
    rng = generator(key, "equilibrium scalar")
    U, W = rng.uniform(0.5, 1.0, size=2), np.array([0.4, -0.5])
    return Setup(
        Population([[rng.uniform(0.8, 1.2)]], [[float(U @ W)]], [[1.0]]),
        NET,
        {"W1": W[None, :], "W2": U[:, None]},
        Descent(LR, noise, weight_decay=gamma),
        Until(steps=int(LONG[-1])),
        SHRUNK,
        LONG,
        key,
    )


def matrices(W1: np.ndarray, W2: np.ndarray) -> np.ndarray:
    """UᵀU − WWᵀ, over leading axes."""
    return W2 @ np.swapaxes(W2, -1, -2) - np.swapaxes(W1, -1, -2) @ W1


def shrunk(setup: Setup, runs: Any) -> dict[str, Any]:
    """M times the product of 1 − lr²g²."""
    factors = np.exp(runs["run"].data["shrunk"].values)
    return {"matrix": factors[:, None, None] * matrices(setup.params["W1"], setup.params["W2"])}


def seen_matrices(runs: Any) -> dict[str, Any]:
    """M at every save."""
    data = runs["run"].data
    return {"matrix": matrices(data["params_W1"].values, data["params_W2"].values)}


def of_scalars() -> list[Hypothesis]:
    """One input and one output, no decay, no momentum."""
    one = kind("one input and one output", lambda s: (s.problem.d, s.problem.k) == (1, 1))
    return [one, common.no_decay(), no_momentum()]


def printed_rank_one(key: int) -> Evidence:
    """The rate −Var[r] against κ Var[dl/dv], mean over all batches."""
    problem, rate = cases.data(key, d=1, k=1), cases.LR / cases.S
    U, W = cases.layers(cases.start(key, {"W1": (1, 2), "W2": (2, 1)}, 0.6, 0.6))
    R = problem.X * float((U @ W)[0, 0]) - problem.labels
    truth = rate * float(np.var(2 * R * problem.X))
    right = rank_one_rate(problem, U, W, rate)
    return Evidence(abs(rate * float(np.var(R)) / truth - 1), abs(right / truth - 1))


RANK_ONE = Theorem(
    "equilibrium.prop5.1.rank1",
    r"With one input and one output every step multiplies $M = U^\top U-WW^\top$ by $1-\eta^2g^2$, "
    r"$g$ the batch's gradient in $v = UW$: it decays at the rate $4\kappa\,\mathrm{Var}[rx]$, to "
    r"$W = \pm U^\top$, where all $U_iW_i$ have one sign.",
    of_scalars(),
    shrunk,
    seen_matrices,
    1e-10,
    scalar,
    [Control("there is no weight decay", lambda key: scalar(key, gamma=0.05))],
    nets=(TwoLayer,),
    needs=SHRUNK,
    given=("gradients",),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Sec. 5.1, rank-1 case",
            r"$\dot C_B = -\mathrm{Var}[r]C_B$",
            r"$\dot C_B = -4\kappa\mathrm{Var}[rx]C_B$",
            "numeric",
            printed_rank_one,
        ),
        Erratum(
            "Sec. 5.1, rank-1 case",
            r"$C_B = W_kW_l-U_kU_l$, and $\sign(U_i) = \sign(U_j)$ in the end",
            r"$C_B = 2(U_kU_l-W_kW_l)$; it is $\sign(U_iW_i)$ that agrees",
            "convention",
        ),
    ),
    source=SOURCE,
    title="one input, one output: exponential balance",
)


def two_rates(setup: Setup) -> Ensemble:
    """The same at lr and at twice lr."""
    moves: Any = setup.dynamics

    def build(factor: float, member: int) -> Setup:
        faster = Descent(factor * float(moves.lr), moves.noise)
        return setup.replace(dynamics=faster, key=setup.key * APART + member)

    return Ensemble(build, {"factor": [1.0, 2.0], "member": range(MEMBERS)})


def per_step(setup: Setup) -> Told:
    """The learning rate over the time to equilibrium."""
    problem: Any = setup.problem
    rates = [
        f * common.learning_rate(setup) / equilibration_time(*_moments(problem), f * kappa(setup))
        for f in (1, 2)
    ]
    # Fluctuations e of UW add 3E[e²]φ² to E[(ex − ε)²x²] = σ²φ, at the larger step twice as much.
    return Told({"rate": np.asarray(rates)}, expected={"rate": 6 * misadjustment(setup)})


def _moments(problem: Any) -> tuple[np.ndarray, np.ndarray]:
    return problem.sigma_x, problem.sigma_eps


def seen_per_step(runs: Any) -> dict[str, Any]:
    """−ln|M| per step, with its standard error."""
    data = runs["run"]
    M = matrices(data["params_W1"].values, data["params_W2"].values)
    size, steps = np.log(np.linalg.norm(M, axis=(-2, -1))), np.ravel(data["step"].values)[-1]
    return {"rate": mean((size[..., 0] - size[..., -1]).T / steps)}


def printed_time(key: int) -> Evidence:
    """The ratio of the times at 2κ and κ: printed 2, from the rates ½; mean squares by hand."""
    problem = cases.data(key, d=1, k=1)
    v = float(np.ravel(problem.min_norm)[0])
    square = np.mean((2 * (v * problem.X - problem.labels) * problem.X) ** 2)
    truth = (0.02 * square) / (0.04 * square)
    rates = [rank_one_rate(problem, [[1.0]], [[v]], k) for k in (0.02, 0.04)]
    return Evidence(abs(2 / truth - 1), abs(rates[0] / rates[1] / truth - 1))


def off(setup: Setup) -> float:
    """How far UW is from the teacher, relative."""
    U, W = cases.layers(setup.params)
    problem: Any = setup.problem
    return float(np.linalg.norm(U @ W - problem.V)) / max(1e-300, float(np.linalg.norm(problem.V)))


TIMES = Theorem(
    "equilibrium.timescales",
    r"After the loss, the charges: they take a time $t = 1/(4\kappa\,\mathrm{Tr}"
    r"\Sigma_\varepsilon\,\varphi_{\min})$, inversely proportional to $\kappa = \eta/S$; twice the "
    r"step size halves it.",
    [*of_scalars(), *sgd(), Hypothesis("the start is a minimum", off, 1e-8)],
    per_step,
    seen_per_step,
    CHANCE,
    scalar,
    [
        Control(
            "the noise is that of minibatches",
            lambda key: scalar(key, None),
            lambda s: per_step(scalar(s.key)),
        )
    ],
    runs=two_rates,
    nets=(TwoLayer,),
    needs=cases.PARAMS,
    problems=(Population,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Sec. 4.2, time scales",
            r"$t_{equi} \propto \sigma^2$",
            r"$t_{equi} \propto 1/\sigma^2 = 2S/\eta$",
            "numeric",
            printed_time,
        ),
    ),
    source=SOURCE,
    title="time to equilibrium",
    slow=True,
)
