"""Observables: named measurements f(problem, net, params) at saved states."""

from ._angular_momentum import angular_momentum
from ._balance import gap, imbalance, imbalance_of, pair_imbalance
from ._charges import charge_drift, charges
from ._curvature import hessian_trace, sharpness
from ._interpolators import interpolator_dimension
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
    "charge_drift",
    "charges",
    "distance_to",
    "effective_rank",
    "gap",
    "hessian_trace",
    "imbalance",
    "imbalance_of",
    "interpolator_dimension",
    "loss",
    "named",
    "pair_imbalance",
    "params",
    "running",
    "sharpness",
    "singular_values",
    "theta",
]
