"""Classification: margins, certificates, and which samples carry the weight."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..geometry import L2, Geometry, GeometryLike, as_geometry
from ..nets import LinearNet, Net
from ..numerics import checks
from ..numerics.types import Array, Number, PyTree
from ..problems import Classification, Problem
from .base import Measurement, Observable, OfPredictor, refuse


class OfOutputs(Observable):
    """A measurement of a classification that needs only the outputs of a net on the data."""

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_classes(self, problem)
        return ThroughPredictor(self) if isinstance(net, LinearNet) else self

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> PyTree:
        known = classes_of(problem)
        return self.of_outputs(known, net(params, known.X).reshape(known.n, known.k))

    @abc.abstractmethod
    def of_outputs(self, problem: Classification, outputs: Array) -> PyTree:
        """The measurement of (n, k) outputs (jax-level)."""


class ThroughPredictor(OfPredictor):
    """The same of a linear net, whose width does not matter."""

    measurement: OfOutputs

    @property
    def name(self) -> str:
        return self.measurement.name

    def of_theta(self, problem: Problem, theta: Array) -> PyTree:
        known = classes_of(problem)
        return self.measurement.of_outputs(known, known.X @ theta)


class LogLoss(OfOutputs):
    """The logarithm of the loss, to all digits also where the loss is below the least double."""

    @property
    def name(self) -> str:
        return "log_loss"

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def of_outputs(self, problem: Classification, outputs: Array) -> Number:
        return problem.log_mean(outputs)


class DualWeights(OfOutputs):
    """The samples' shares of the gradient, Σp = 1: on separable data they become the SVM's dual.

    Of several classes p has a column for every class that a sample is told from.
    """

    @property
    def name(self) -> str:
        return "dual_weights"

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ("sample",) if problem.vector else ("sample", "class")

    def of_outputs(self, problem: Classification, outputs: Array) -> Array:
        return problem.at_edge(problem.shares(outputs))


class EntropyGap(OfOutputs):
    """Shannon's entropy of the dual weights less their min-entropy: zero if they are equal."""

    @property
    def name(self) -> str:
        return "entropy_gap"

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def of_outputs(self, problem: Classification, outputs: Array) -> jax.Array:
        p = problem.shares(outputs)
        return jnp.sum(jax.scipy.special.entr(p)) + jnp.log(jnp.max(p))


class Margin(OfPredictor):
    """The smallest margin over the norm of the predictor; see `margin`."""

    geometry: Geometry

    @property
    def name(self) -> str:
        return "margin"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_linear_classes(self, problem, net)
        return self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def of_theta(self, problem: Problem, theta: Array) -> jax.Array:
        size = jnp.asarray(self.geometry.norm(theta))
        return jnp.min(jnp.asarray(classes_of(problem).margins(theta))) / jnp.where(
            size == 0, 1.0, size
        )


class MarginCertificate(OfPredictor):
    """Bounds on the largest margin of any predictor; see `certificate`."""

    geometry: Geometry

    @property
    def name(self) -> str:
        return "certificate"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_linear_classes(self, problem, net)
        return self

    def of_theta(self, problem: Problem, theta: Array) -> dict[str, Any]:
        known = classes_of(problem)
        upper = self.geometry.dual_norm(known.combine(known.shares(known.X @ theta)))
        return {"lower": Margin(self.geometry).of_theta(problem, theta), "upper": upper}


class Direction(OfPredictor):
    """The predictor over its ℓ2 norm; zero at zero."""

    @property
    def name(self) -> str:
        return "direction"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        if not isinstance(net, LinearNet):
            refuse(self, "a linear net, whose parameters make a predictor", net)
        return self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ("feature",) if problem.vector else ("feature", "output")

    def of_theta(self, problem: Problem, theta: Array) -> Array:
        return problem.at_edge(L2().steepest(theta))


class SmoothedMargin(Observable):
    """See `smoothed_margin`."""

    degree: float = eqx.field(static=True)

    @property
    def name(self) -> str:
        return "smoothed_margin"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_classes(self, problem)
        return self

    def dims(self, problem: Problem, net: Net) -> tuple[str, ...]:
        return ()

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> jax.Array:
        known = classes_of(problem)
        total = jnp.asarray(known.log_net_loss(net, params)) + math.log(known.n)
        if known.loss_name != "exponential":  # the e^{−m} of which it would be the loss
            few = jnp.where(total < -30, 0.0, total)
            total = jnp.where(total < -30, total + 0.5 * jnp.exp(total), _log_expm1_exp(few))
        return -total / L2().norm(params) ** self.degree


class Kkt(Observable):
    """How far the parameters are from a KKT point of the margin problem of their net.

    `misalignment` is 1 − cos(θ, Σp_i∇q_i) of all parameters, `slackness` Σp_i(q_i − q_min)/q_min
    with the outputs q_i on the right side and the dual weights p; both are zero at such a point.
    """

    @property
    def name(self) -> str:
        return "kkt"

    def bind(self, problem: Problem, net: Net) -> Measurement:
        need_classes(self, problem)
        return self

    def __call__(self, problem: Problem, net: Net, params: PyTree) -> dict[str, Any]:
        known = classes_of(problem)
        slope = jax.grad(lambda p: -jnp.asarray(known.log_net_loss(net, p)))(params)
        ascent = L2().steepest(slope)
        unit = L2().steepest(params)
        pairs = jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), unit, ascent)
        outputs = net(params, known.X).reshape(known.n, known.k)
        q = jnp.asarray(known.pair_margins(outputs))
        least = jnp.min(q)
        beyond = jnp.where(jnp.isfinite(q), q - least, 0.0)  # nothing for a sample's own class
        return {
            "misalignment": sum(jax.tree.leaves(pairs)) / 2,  # 1 − cos, without cancellation
            "slackness": jnp.sum(known.shares(outputs) * beyond) / least,
        }


def margin(geometry: GeometryLike = L2) -> Margin:
    """The smallest margin of a linear net's predictor over its norm; zero for a predictor of zero.

    Args:
        geometry: whose norm, such as `gb.geometry.Linf`.
    """
    return Margin(as_geometry("geometry", geometry))


def certificate(geometry: GeometryLike = L2) -> MarginCertificate:
    """A lower and an upper bound on the margin of the best linear predictor, from this one alone.

    `certificate_lower` is its own margin, `certificate_upper` ‖Σp_i z_i‖_* with its dual weights
    p, which no predictor of norm 1 can exceed.

    Args:
        geometry: in whose norm.
    """
    return MarginCertificate(as_geometry("geometry", geometry))


def smoothed_margin(degree: float) -> SmoothedMargin:
    """log(1/𝓛)/‖θ‖^degree, 𝓛 the sum of e^{−m}: of homogeneous nets it increases along the flow.

    Of the logistic and the cross-entropy loss it is −log(e^𝓛 − 1), 𝓛 the sum of losses.

    Args:
        degree: L of f(cθ) = c^L f(θ): the number of layers of a linear or relu net.
    """
    return SmoothedMargin(checks.number("degree", degree, above=0))


def classes_of(problem: Problem) -> Classification:
    """A problem that was seen to have margins when the observable was bound."""
    assert isinstance(problem, Classification)
    return problem


def need_classes(observable: Observable, problem: Problem) -> None:
    """Refuse problems without margins."""
    if not isinstance(problem, Classification):
        refuse(observable, "a gb.Classification", problem)


def need_linear_classes(observable: Observable, problem: Problem, net: Net) -> None:
    """Refuse problems without margins, and nets without a predictor."""
    need_classes(observable, problem)
    if not isinstance(net, LinearNet):
        refuse(observable, "a linear net, whose parameters make a predictor", net)


def _log_expm1_exp(x: Array) -> jax.Array:
    """log(e^{e^x} − 1), where that neither underflows nor overflows."""
    total = jnp.exp(x)
    return jnp.where(total > 30, total, jnp.log(jnp.expm1(jnp.minimum(total, 30.0))))


log_loss: LogLoss = LogLoss()
dual_weights: DualWeights = DualWeights()
entropy_gap: EntropyGap = EntropyGap()
direction: Direction = Direction()
kkt: Kkt = Kkt()
