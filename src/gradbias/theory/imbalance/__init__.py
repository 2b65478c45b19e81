"""Imbalance and width: how fast two-layer linear nets learn, and how far from least norm they end.

What takes a problem answers for its own weight and time; what takes none is for ½‖Y − XΘ‖².
"""

from ._balanced import balanced_two_layer, balanced_whitened
from ._bias_law import bias_law
from ._certificate import Certificate, certificate, least_gram
from ._chi_square import ChiSquareMixture
from ._closed_system import (
    Closed,
    closed_state,
    closed_step,
    closed_velocity,
    rate_ceiling,
    rate_floor,
)
from ._coordinates import Split, split
from ._descent import StepRule, step_rule
from ._imbalance import (
    Signature,
    imbalance_drift,
    imbalance_level,
    imbalance_signature,
    imbalance_spectrum,
)
from ._infinite_width import InfiniteWidth, infinite_width_limit, infinite_width_trace
from ._invariant import BiasBound, bias_bound, invariant_projection, invariant_residual
from ._rates import growth_bound, log_norm_bound, rate_bound
from ._rescaling import FlowTime, Rescaled, flow_time, ntk_rescaling
from ._riccati import Grams, riccati_solution
from ._width import (
    Lemma1Bounds,
    SingularValueTail,
    WideNet,
    WidthBound,
    lemma1_bounds,
    singular_value_tail,
    width_bound,
)

__all__ = [
    "BiasBound",
    "Certificate",
    "ChiSquareMixture",
    "Closed",
    "FlowTime",
    "Grams",
    "InfiniteWidth",
    "Lemma1Bounds",
    "Rescaled",
    "Signature",
    "SingularValueTail",
    "Split",
    "StepRule",
    "WideNet",
    "WidthBound",
    "balanced_two_layer",
    "balanced_whitened",
    "bias_bound",
    "bias_law",
    "certificate",
    "closed_state",
    "closed_step",
    "closed_velocity",
    "flow_time",
    "growth_bound",
    "imbalance_drift",
    "imbalance_level",
    "imbalance_signature",
    "imbalance_spectrum",
    "infinite_width_limit",
    "infinite_width_trace",
    "invariant_projection",
    "invariant_residual",
    "least_gram",
    "lemma1_bounds",
    "log_norm_bound",
    "ntk_rescaling",
    "rate_bound",
    "rate_ceiling",
    "rate_floor",
    "riccati_solution",
    "singular_value_tail",
    "split",
    "step_rule",
    "width_bound",
]
