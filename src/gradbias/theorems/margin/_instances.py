"""Instances: separable data whose sizes are drawn, too, and what is read off their runs."""

from collections.abc import Callable

import numpy as np

from ... import observe
from ...dynamics import Flow
from ...geometry import L1, L2, Geometry, Linf
from ...nets import Deep
from ...numerics.host_rng import generator
from ...problems import Classification, separable
from ...theory import margin
from ..prelude import Hypothesis, Run, Setup, fact, kind, setup_of

SOLVED: tuple[type[Geometry], ...] = (L1, L2, Linf)  # norms whose largest margin is known exactly
THETA = {"theta": observe.theta}
TRIES = 2000
MOST = 5000  # constraints, of which an exact solver takes seconds


def draws(key: int, what: str) -> np.random.Generator:
    """The random numbers of an instance."""
    return generator(key, f"theorems.margin {what}")


def classes(setup: Setup) -> Classification:
    """The data; every theorem here is about no other kind of problem."""
    assert isinstance(setup.problem, Classification)
    return setup.problem


def found(
    key: int, what: str, make: Callable[[int], Classification], good: Callable[..., bool]
) -> Classification:
    """The first data of this key of which something is true."""
    rng = draws(key, what)
    for seed in rng.integers(2**31, size=TRIES):
        problem = make(int(seed))
        try:
            if good(problem):
                return problem
        except ValueError:  # degenerate, or not separable
            continue
    raise ValueError(f"no data for {what} with key {key} in {TRIES} draws")


def drawn(
    key: int, what: str, loss: str, good: Callable[..., bool], least: int = 0
) -> Classification:
    """Three to six samples of more inputs."""
    rng = draws(key, f"{what} sizes")
    n = int(rng.integers(3, 7))
    d = int(rng.integers(n + 1, n + 5)) + least
    if loss != "cross_entropy":
        return found(key, what, lambda seed: separable(n, d, key=seed, loss=loss), good)

    def three(seed: int) -> Classification:
        rows = generator(seed, "theorems.margin three classes").standard_normal((n, d))
        return Classification(rows, np.arange(n) % 3, loss)

    return found(key, what, three, good)


def one_layer(problem: Classification) -> Deep:
    """A linear predictor."""
    return Deep([problem.d, problem.k])


def start(problem: Classification, key: int, std: float) -> dict[str, np.ndarray]:
    """A linear predictor with independent entries."""
    return {"W1": std * draws(key, "start").standard_normal((problem.d, problem.k))}


def predictors(run: Run) -> np.ndarray:
    """One at every save, flat as the constraints take it."""
    theta = np.asarray(run.data["theta"].values)
    return theta.reshape(len(theta), -1)


def log_times(setup: Setup) -> np.ndarray:
    """The logarithm of t at every save of a flow."""
    saves = np.asarray(setup.save_at, float)
    if setup.dynamics.axis == "log_time":
        return saves
    with np.errstate(divide="ignore"):
        return np.log(saves)


@fact
def law(setup: Setup) -> margin.Offset:
    """The constants of the flow of a linear predictor."""
    return margin.offset(classes(setup))


def margins(run: Run) -> np.ndarray:
    """Of every constraint at every save."""
    return predictors(run) @ classes(setup_of(run)).constraints.T


def separated() -> list[Hypothesis]:
    """The first of all; of more data than that, solving for the margin would take minutes."""
    return [
        Hypothesis("there are at most 5000 constraints", constraints_of, MOST),
        kind("the data are separable", lambda s: classes(s).separability.separable),
    ]


def constraints_of(setup: Setup) -> float:
    """One for every sample and other class."""
    problem = classes(setup)
    return float(problem.n * max(problem.k - 1, 1))


def is_linear() -> Hypothesis:
    """The parameters are the predictor."""
    return kind("there is one layer", lambda s: isinstance(s.net, Deep) and len(s.params) == 1)


def is_flow() -> Hypothesis:
    """Without weight decay, which would stop it."""
    return kind("there is no weight decay", lambda s: float(s.dynamics.weight_decay) == 0)


def not_degenerate() -> Hypothesis:
    """The offset grows like log log t otherwise."""
    return kind("no sample is on the margin without weight", lambda s: law(s).exponent > 0)


def by_loss(rtol: float = 1e-11) -> Flow:
    """To times such as e^200."""
    return Flow(clock="loss", rtol=rtol)
