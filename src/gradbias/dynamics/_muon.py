"""Muon: the polar factor of an average of gradients, layer by layer."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..nets import Deep, Net, TwoLayer
from ..noise import Noise
from ..numerics import checks, counter_rng
from ..numerics.types import Number, PyTree
from ..problems import Problem
from ._schedules import Schedule
from ._steps import (
    MomentumStepper,
    Optimiser,
    averaged,
    decay_rate,
    learning_rate,
    noise_law,
    or_none,
    shrunk,
)

NOTHING = 1e-9  # singular values below this part of the largest count as zero
# Of torch.optim.Muon: x(a + bx² + cx⁴), five times, takes singular values to 0.7 … 1.2.
NEWTON_SCHULZ = (3.4445, -4.775, 2.0315)
ROUNDS = 5
TINY = 1e-7  # a gradient with a smaller norm is not scaled up to it
METHODS = ("exact", "newton_schulz")


class MuonStepper(MomentumStepper):
    """p ← (1 − lr·λ)p − lr·c·O(m), with O the polar factor, or an iteration towards it.

    Attributes:
        scale: c.
        decay: λ.
        nesterov: is the gradient counted once more?
        orthogonalise: how.
    """

    scale: Any
    decay: Any
    nesterov: bool = eqx.field(static=True)
    orthogonalise: str = eqx.field(static=True)

    def move(self, params: PyTree, grads: PyTree, memory: PyTree, lr: Number) -> tuple[Any, Any]:
        seen = grads
        if self.momentum is not None:
            memory = averaged(memory, grads, self.momentum)
            seen = averaged(memory, grads, self.momentum) if self.nesterov else memory
        factor = polar if self.orthogonalise == "exact" else newton_schulz
        kept = shrunk(params, lr, self.decay)
        return jax.tree.map(lambda p, m: p - lr * self.scale * factor(m), kept, seen), memory


class Muon(Optimiser):
    """Muon: p ← (1 − lr·λ)p − lr·c·UVᵀ for every layer, where UsVᵀ is the average of gradients.

    m ← βm + (1 − β)g as in torch.optim.Muon; Nesterov's takes the factor of βm + (1 − β)g. All
    parameters must be matrices.

    Args:
        lr: learning rate: a number, or any function of the step.
        momentum: β, in [0, 1).
        nesterov: Nesterov's momentum (torch's default).
        orthogonalise: "exact" takes UVᵀ from a singular value decomposition, without singular
            values below 1e-9 of the largest; "newton_schulz" the five rounds of torch.optim.Muon,
            here in double precision.
        weight_decay: λ of decoupled decay.
        scale: c; what torch makes of the shape of a layer (`adjust_lr_fn`) is one for all here.
        noise: what each step sees of the data; all of it if None.
    """

    follows_slope: ClassVar[bool] = False
    lr: Any
    momentum: Any
    nesterov: bool = eqx.field(static=True)
    orthogonalise: str = eqx.field(static=True)
    weight_decay: Any
    scale: Any
    noise: Noise | None

    def __init__(
        self,
        lr: float | Schedule,
        momentum: float = 0.95,
        nesterov: bool = False,
        orthogonalise: str = "exact",
        weight_decay: float = 0.0,
        scale: float = 1.0,
        noise: Noise | None = None,
    ):
        self.lr = learning_rate(lr)
        self.momentum = np.asarray(checks.number("momentum", momentum, at_least=0, below=1))
        self.nesterov = checks.boolean("nesterov", nesterov)
        self.orthogonalise = checks.one_of("orthogonalise", orthogonalise, METHODS)
        self.weight_decay = decay_rate(weight_decay, lr, True)
        self.scale = np.asarray(checks.number("scale", scale, above=0))
        self.noise = noise_law(noise)

    def check(self, problem: Problem, net: Net, limit: float | None) -> None:
        super().check(problem, net, limit)
        _need_matrices(net.shapes() or {})

    def not_closed_on(self, net: Net) -> str | None:
        return None if isinstance(net, (TwoLayer, Deep)) else "its layers are not matrices"

    def stepper(self, params: PyTree, key: int) -> MuonStepper:
        if isinstance(params, dict):
            _need_matrices({name: np.shape(leaf) for name, leaf in params.items()})
        return MuonStepper(
            key=counter_rng.seed(key),
            noise=self.noise,
            weight_decay=None,
            momentum=or_none(self.momentum),
            scale=self.scale,
            decay=or_none(self.weight_decay),
            nesterov=self.nesterov,
            orthogonalise=self.orthogonalise,
        )


def polar(G) -> jax.Array:
    """UVᵀ of G = UsVᵀ, without what is zero; a single number, as reduced runs have, stays put."""
    if G.ndim != 2:
        return jnp.zeros_like(G)
    U, s, Vt = jnp.linalg.svd(G, full_matrices=False)
    kept = jnp.where(s > NOTHING * s.max(initial=0.0), 1.0, 0.0)
    return (U * kept[None, :]) @ Vt


def newton_schulz(G) -> jax.Array:
    """Five rounds of x ← x(a + bx² + cx⁴) on the singular values of G/‖G‖."""
    if G.ndim != 2:
        return jnp.zeros_like(G)
    a, b, c = NEWTON_SCHULZ
    X = G.T if G.shape[0] > G.shape[1] else G
    largest = jnp.max(jnp.abs(X), initial=0.0)  # divided out: squares of 1e200 are infinite
    unit = X / jnp.where(largest > 0, largest, 1.0)
    length = jnp.sqrt(jnp.sum(unit * unit))
    X = unit * jnp.minimum(1 / jnp.where(length > 0, length, 1.0), largest / TINY)
    for _ in range(ROUNDS):
        A = X @ X.T
        X = a * X + (b * A + c * (A @ A)) @ X
    return X.T if G.shape[0] > G.shape[1] else X


def _need_matrices(shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        if len(shape) != 2:
            raise ValueError(
                f"Muon moves matrices, got params[{name!r}] of shape {shape}: use gb.MLP(…, "
                "bias=False), gb.Deep or gb.TwoLayer, or another optimiser"
            )
