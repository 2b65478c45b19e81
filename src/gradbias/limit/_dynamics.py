"""The limiting diffusion on the manifold of minimisers, offered as a dynamics."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import equinox as eqx
import numpy as np

from ..dynamics.protocol import Dynamics, Stepper
from ..nets import MLP, LinearNet, Net
from ..noise import DataNoise, LabelNoise, Noise, Replay
from ..numerics import checks, counter_rng
from ..numerics.types import PyTree
from ..problems import Population, Problem, Regression
from ._diffusion import LimitDiffusionStepper, default_step
from ._flow import LimitFlowStepper
from ._reasons import REASONS


class Limit(Dynamics):
    r"""The motion along the manifold of minimisers that SGD with small steps ends in.

    $dY = P\sigma\,dW + \tfrac12\partial^2\Phi(Y)[\Sigma]\,dt$, from Y(0) = Φ(params), the end of
    gradient flow. Time is t = k·lr² after k steps, and no learning rate is left in it. A run whose
    flow does not end on a manifold of minimisers, whose loss has no such manifold, or in which the
    manifold loses directions on the way ends with the status "integrator failed", and
    `run.status.sentence` says why.

    Noise in the data under squared loss has no part along the manifold: the limit is an ordinary
    differential equation (for label noise dY = −(c/4) P∇tr H dt), integrated by an adaptive method
    of order eight. Labels that conflict are averaged, and the noise that they leave behind counts.
    Other noise diffuses: a method of weak order one with fixed steps dt.

    Args:
        noise: the noise law of the SGD whose limit is wanted; not `Replay`, which has no
            covariance.
        dt: the step, for noise that diffuses; by default 1e-3/std² for `Isotropic`. A run with
            half of it shows the error.
        rtol: relative tolerance of the adaptive method.
        rank: the number of normal directions, where the spectrum does not show it.
        dense: for a loss of `Samples` whose minimum does not fit every sample: take the whole
            Hessian, up to 2000 parameters. Without it that is done below 200 parameters, and
            from there on the Hessian is taken to be JᵀBJ (B that of the loss in the outputs),
            which is checked where the flow ends.
    """

    axis: ClassVar[Literal["step", "time"]] = "time"
    not_closed: ClassVar[str | None] = "the limit lives on the manifold of all parameters"
    at_minimum: ClassVar[bool] = True
    reasons: ClassVar[Mapping[int, str]] = REASONS
    noise: Noise
    dt: Any
    rtol: Any
    rank: Any
    dense: bool = eqx.field(static=True)
    weight_decay: Any

    def __init__(
        self,
        noise: Noise,
        dt: float | None = None,
        *,
        rtol: float = 1e-9,
        rank: int | None = None,
        dense: bool = False,
    ):
        if not isinstance(noise, Noise) or isinstance(noise, Replay):
            raise ValueError(
                "noise must be a law with a covariance, such as gb.LabelNoise(std), "
                f"got {noise!r:.80}"
            )
        self.noise = noise
        step = None if dt is None else np.asarray(checks.number("dt", dt, above=0))
        self.dt = default_step(noise) if step is None else step
        if self.dt is None and not isinstance(noise, DataNoise):
            raise ValueError(
                f"dt must be given with {type(noise).__name__}, which diffuses along the manifold: "
                "a step in which it moves parameters by a small part of their size"
            )
        self.rtol = np.asarray(checks.number("rtol", rtol, above=0, below=1e-3))
        self.rank = None if rank is None else np.asarray(checks.integer("rank", rank))
        if not isinstance(dense, bool):
            raise ValueError(f"dense must be True or False, got {dense!r:.80}")
        self.dense = dense
        self.weight_decay = np.asarray(0.0)

    @property
    def counts_steps(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Fixed steps, or adaptive ones?"""
        return self.dt is not None

    @property
    def draws(self) -> bool:
        """Does a run depend on its key? An ordinary differential equation does not."""
        return self.dt is not None

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        if isinstance(problem, Population) and not isinstance(net, LinearNet):
            raise ValueError(
                f"Limit on Population needs exact expectations, known for linear nets only, got "
                f"{net!r}: draw a data set with Population.sample and use gb.Regression on it"
            )
        self.noise.check(problem, None)
        if self.dt is not None and isinstance(net, MLP) and net.activation in ("relu", "leaky"):
            raise ValueError(
                f"net: noise that diffuses along the manifold needs a smooth net, got {net!r}: the "
                'Hessian jumps at the kinks of its units; use activation="tanh" or "swish"'
            )
        if isinstance(problem, (Regression, Population)):
            if self.dense:
                raise ValueError(
                    "dense must be False under squared loss, whose Hessian on the manifold is JᵀJ, "
                    f"got True with {type(problem).__name__}"
                )
            return
        if isinstance(self.noise, LabelNoise):
            raise ValueError(
                "noise: the covariance of label noise is known under squared loss only "
                f"(gb.Regression), got {type(problem).__name__}"
            )
        if self.dt is None:
            raise ValueError(
                f"dt must be given on {type(problem).__name__}: under a loss that is not squared, "
                "noise in the data may diffuse along the manifold"
            )

    def stepper(self, params: PyTree, key: int) -> Stepper:
        if self.dt is None:
            assert isinstance(self.noise, DataNoise)
            return LimitFlowStepper(self.noise, self.rtol, self.rank, None)
        seed = counter_rng.seed(key)
        return LimitDiffusionStepper(seed, self.noise, self.dt, self.rank, None, self.dense)

    def in_basis(self, basis: np.ndarray) -> None:
        return None

    def drive(self, clock: float, memory: PyTree, calls: int, limit: float) -> tuple[Any, float]:
        if self.dt is None:
            return memory.taken + calls, np.inf
        return None, clock + calls

    def time(self, clock: np.ndarray) -> np.ndarray:
        """The time t = k·lr² of these clock values."""
        return np.asarray(clock) * (1.0 if self.dt is None else float(self.dt))

    def clock(self, time: float) -> float:
        """The first clock value at which the time t = k·lr² is this."""
        if self.dt is None:
            return time
        return max(1, int(np.ceil(time / float(self.dt) * (1 - 1e-12))))
