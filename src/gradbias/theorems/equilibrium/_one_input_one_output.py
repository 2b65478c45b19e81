"""One input, one output: charges decay exactly by a factor a step, in a time that κ decides."""

import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...dynamics import Descent
from ...nets import TwoLayer
from ...noise import Minibatch, Noise
from ...numerics.host_rng import generator
from ...observe import running
from ...problems import Population
from ...theory.symmetry import equilibration_time
from ..prelude import (
    Claims,
    Control,
    Ensemble,
    Erratum,
    Evidence,
    Hypothesis,
    Measurements,
    Run,
    Setup,
    Theorem,
    Told,
    Until,
    common,
    kind,
    measured,
)
from . import _instances as cases
from ._facts import kappa, no_momentum, sgd
from ._measurements import APART, EXACT, mean
from ._paper import PAPER

LR = 0.0025
MEMBERS = 2048
LONG = np.array([0, 3200])
NET = TwoLayer(d=1, k=1, width=2)
SCALAR = cases.Shape(1, 1, 2, 6)
FRESH = Minibatch(4)  # of few the square of a gradient has a long tail


def shrinking(problem, net, params, gradient, lr):
    """ln(1 − lr²g²) with g the batch's gradient in v = UW, from that in the parameters."""
    w = params["W2"][:, 0]
    g = jnp.sum(gradient["W1"][0] * w) / jnp.sum(w * w)
    return jnp.log1p(-((lr * g) ** 2))


SHRUNK = {**cases.PARAMS, "shrunk": running(shrinking)}


def scalar(key: int, noise: Noise | None = FRESH, gamma: float = 0.0) -> Setup:
    """Two hidden units, at the minimum of fresh samples."""
    rng = generator(key, "equilibrium scalar")
    U = rng.uniform(0.5, 1.0, size=2)
    W = np.array([0.4, -0.5])
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


def predict_shrunk(setup: Setup, run: Run) -> Claims:
    """M times the product of 1 − lr²g²."""
    factors = np.exp(run.data["shrunk"].values)
    return {"matrix": factors[:, None, None] * matrices(setup.params["W1"], setup.params["W2"])}


def measure_shrunk(run: Run) -> Measurements:
    """M at every save."""
    data = run.data
    return {"matrix": matrices(data["params_W1"].values, data["params_W2"].values)}


def of_scalars() -> list[Hypothesis]:
    """One input and one output, no decay, no momentum."""
    one = kind("one input and one output", lambda s: (s.problem.d, s.problem.k) == (1, 1))
    return [one, common.no_decay(), no_momentum()]


def signs(key: int) -> Evidence:
    """U = (a, −b) with W = ±U after 500 steps: do U_1 and U_2 have one sign, do U_1W_1 and U_2W_2?

    1 for no and 0 for yes. It is where the charges are zero, and SGD keeps them so.
    """
    problem = cases.data(key, SCALAR, 3**-0.5)
    x = np.ravel(problem.X)
    y = np.ravel(problem.labels)
    v = float(np.ravel(problem.min_norm)[0])
    rng = generator(key, "equilibrium signs")
    U = np.sqrt(abs(v)) * np.array([0.8, -0.6])
    W = np.sign(v) * U
    for i in rng.integers(len(x), size=500):
        g = 2 * (float(U @ W) * x[i] - y[i]) * x[i]
        U, W = U - LR * g * W, W - LR * g * U
    return Evidence(float(U[0] * U[1] <= 0), float(U[0] * W[0] * U[1] * W[1] <= 0))


RANK_ONE = Theorem(
    "equilibrium.prop5.1.rank1",
    r"With one input and one output every step multiplies $M = U^\top U-WW^\top$ by $1-\eta^2g^2$, "
    r"$g$ the batch's gradient in $v = UW$: it decays at the rate $4\kappa\,\mathrm{Var}[rx]$, to "
    r"$W = \pm U^\top$, where all $U_iW_i$ have one sign.",
    hypotheses=of_scalars(),
    predict=predict_shrunk,
    measure=measure_shrunk,
    tolerance=1e-10,
    instances=scalar,
    controls=[Control("there is no weight decay", lambda key: scalar(key, gamma=0.05))],
    nets=(TwoLayer,),
    needs=SHRUNK,
    given=("gradients",),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Section 5.1, one input and one output",
            "$C_B = W_kW_l-U_kU_l$",
            "$C_B = 2(U_kU_l-W_kW_l)$, by its definition above",
            "misprint",
            quote="we obtain that CB(θ)=WkWl−UkUl",
        ),
        Erratum(
            "Section 5.1, one input and one output, the end",
            "in the end $U_i$ and $U_j$ have the same sign",
            r"$U_iW_i$ and $U_jW_j$ have: $W_kW_l \to U_kU_l$ fixes $W$ up to a sign",
            "false",
            evidence=signs,
            quote="all neurons output the same sign ( sgn(Ui)=sgn(Uj)) at an exponential rate",
        ),
    ),
    paper=PAPER,
    title="one input, one output: exponential balance",
)


def two_rates(setup: Setup) -> Ensemble:
    """The same at lr, at half and at twice."""
    moves = setup.dynamics
    assert isinstance(moves, Descent)

    def build(factor: float, member: int) -> Setup:
        faster = Descent(factor * float(moves.lr), moves.noise)
        return setup.replace(dynamics=faster, key=setup.key * APART + member)

    return Ensemble(build, {"factor": [0.5, 1.0, 2.0], "member": range(MEMBERS)})


def predict_per_step(setup: Setup) -> Told:
    """The learning rate over the time to equilibrium."""
    problem = common.population(setup)
    lr = common.learning_rate(setup)
    times = [
        equilibration_time(problem.sigma_x, problem.sigma_eps, f * kappa(setup)) for f in (1, 2)
    ]
    rates = [f * lr / time for f, time in zip((1, 2), times, strict=True)]
    return Told({"rate": np.asarray(rates) / lr**2})


def predict_as_printed(setup: Setup) -> Told:
    """A time that is proportional to κ: at twice the step size a quarter of the rate."""
    rates = np.array(predict_per_step(setup).values["rate"])
    return Told({"rate": np.array([rates[0], rates[0] / 2])})


def measure_per_step(run: xr.Dataset) -> Measurements:
    """−ln|M| per step and lr², at lr and at twice lr.

    Fluctuations of UW, of the order of κ, add to the noise of the labels. A step and half of it
    tell that order, and it is taken off.
    """
    data = run
    M = matrices(data["params_W1"].values, data["params_W2"].values)
    size = np.log(np.linalg.norm(M, axis=(-2, -1)))
    steps = np.ravel(data["step"].values)[-1]
    each = (size[..., 0] - size[..., -1]) / steps / (LR * np.array([[0.5], [1.0], [2.0]])) ** 2
    rates = mean(each.T)
    assert rates.standard_error is not None
    error = np.hypot(2 * rates.standard_error[:2], rates.standard_error[1:])
    value = 2 * rates.value[:2] - rates.value[1:]
    return {"rate": measured(value * np.array([1.0, 4.0]), standard_error=error * [1.0, 4.0])}


def printed_time(key: int) -> Evidence:
    """The ratio of the times at 2κ and κ, printed 2, against SGD by hand: batches of 1 and 2."""
    problem = cases.data(key, SCALAR, 3**-0.5)
    x = np.ravel(problem.X)
    y = np.ravel(problem.labels)
    v = float(np.ravel(problem.min_norm)[0])
    rng = generator(key, "equilibrium printed time")
    many = 1000
    steps = 400
    lr = 0.005
    fallen = []
    for batch in (1, 2):
        U = np.tile([1.0, 0.6], (many, 1))
        W = v / 1.36 * U + [-0.3, 0.5]  # U·W = v: at the minimum
        before = _unbalance(U, W)
        for _ in range(steps):
            i = rng.integers(len(x), size=(many, batch))
            g = 2 * np.mean((np.sum(U * W, axis=1)[:, None] * x[i] - y[i]) * x[i], axis=1)
            U, W = U - lr * g[:, None] * W, W - lr * g[:, None] * U
        fallen.append(before - _unbalance(U, W))
    large, small = (float(np.mean(f)) for f in fallen)
    doubt = np.hypot(*(np.std(f) / np.mean(f) / np.sqrt(many) for f in fallen))
    truth = small / large
    # Fluctuations of UW add a part of order lr to the noise.
    wrong = abs(2 / truth - 1)
    right = abs(0.5 / truth - 1)
    return Evidence(wrong, right, uncertainty=2 / truth * float(doubt), tolerance=0.1)


def _unbalance(U: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Ln |UᵀU − WWᵀ| of every path."""
    M = U[:, :, None] * U[:, None, :] - W[:, :, None] * W[:, None, :]
    return np.log(np.linalg.norm(M, axis=(1, 2)))


def off(setup: Setup) -> float:
    """How far UW is from the teacher, relative."""
    U, W = cases.layers(setup.params)
    problem = common.population(setup)
    return float(np.linalg.norm(U @ W - problem.V)) / max(1e-300, float(np.linalg.norm(problem.V)))


TIMES = Theorem(
    "equilibrium.timescales",
    r"After the loss, the charges: they take a time $t = 1/(4\kappa\,\mathrm{Tr}"
    r"\Sigma_\varepsilon\,\varphi_{\min})$, inversely proportional to $\kappa = \eta/S$; twice the "
    r"step size halves it.",
    hypotheses=[*of_scalars(), *sgd(), Hypothesis("the start is a minimum", off, 1e-8)],
    predict=predict_per_step,
    measure=measure_per_step,
    tolerance=EXACT,
    instances=scalar,
    controls=[
        Control(
            "the noise is that of minibatches",
            lambda key: scalar(key, None),
            lambda s: predict_per_step(scalar(s.key)),
        )
    ],
    runs=two_rates,
    nets=(TwoLayer,),
    needs=cases.PARAMS,
    problems=(Population,),
    dynamics=(Descent,),
    errata=(
        Erratum(
            "Section 4.2, time scales",
            r"$t_{equi} \propto \sigma^2$",
            r"$t_{equi} \propto 1/\sigma^2 = 2S/\eta$",
            "false",
            evidence=printed_time,
            quote="termis of order 1, whereas tequiis proportional to σ2= η/(2S)",
            note="The sentence after it has it the other way round.",
            predict=predict_as_printed,
        ),
    ),
    paper=PAPER,
    title="time to equilibrium",
    slow=True,
)
