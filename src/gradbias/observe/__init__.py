"""Observables: named measurements f(problem, net, params) at saved states."""

from ._angular_momentum import angular_momentum
from ._balance import gap, imbalance, imbalance_of, pair_imbalance
from ._charges import charge_drift, charges
from ._curvature import hessian_trace, sharpness
from ._interpolators import interpolator_dimension
from ._margins import (
    certificate,
    direction,
    dual_weights,
    entropy_gap,
    kkt,
    log_loss,
    margin,
    smoothed_margin,
)
from ._predictor import distance_to, loss, params, theta
from ._record import as_observable, named
from ._running import Running, running
from ._spectra import effective_rank, singular_values
from .base import Observable

__all__ = [
    "Observable",
    "Running",
    "angular_momentum",
    "as_observable",
    "certificate",
    "charge_drift",
    "charges",
    "direction",
    "distance_to",
    "dual_weights",
    "effective_rank",
    "entropy_gap",
    "gap",
    "hessian_trace",
    "imbalance",
    "imbalance_of",
    "interpolator_dimension",
    "kkt",
    "log_loss",
    "loss",
    "margin",
    "named",
    "pair_imbalance",
    "params",
    "running",
    "sharpness",
    "singular_values",
    "smoothed_margin",
    "theta",
]
