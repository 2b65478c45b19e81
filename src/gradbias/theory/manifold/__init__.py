"""After zero loss: the manifold of minimisers, and how noise moves a point along it.

For a point x (an array or a PyTree) and either `loss=` or `residual=` with L = ½‖residual‖², both
jax functions. Φ is the end of gradient flow, H the Hessian of L, P the projector on the tangent
space, Q = I − P, Σ the covariance of one stochastic gradient, and time is t = k·lr².
"""

from ..._manifold.covariance import Factor
from ..._manifold.residuals import Residuals, residuals
from ._clocks import (
    flow_to_limit,
    flow_to_steps,
    limit_to_flow,
    limit_to_steps,
    steps_to_flow,
    steps_to_limit,
)
from ._isotropic import IsotropicDrift, isotropic_drift, isotropic_regulariser, log_pdet
from ._label_noise import (
    conflicting_labels_constant,
    label_noise_constant,
    label_noise_drift,
    population_factor,
)
from ._label_noise_fit import LabelNoiseFit, label_noise_fit
from ._limit_jacobian import limit_jacobian
from ._limit_point import LimitInfo, LimitPoint, limit_point
from ._lyapunov import lyapunov_inverse
from ._second_derivative import SecondDerivative, drift, second_derivative, third_derivative
from ._tangent_projector import TangentProjector, tangent_projector

__all__ = [
    "Factor",
    "IsotropicDrift",
    "LabelNoiseFit",
    "LimitInfo",
    "LimitPoint",
    "Residuals",
    "SecondDerivative",
    "TangentProjector",
    "conflicting_labels_constant",
    "drift",
    "flow_to_limit",
    "flow_to_steps",
    "isotropic_drift",
    "isotropic_regulariser",
    "label_noise_constant",
    "label_noise_drift",
    "label_noise_fit",
    "limit_jacobian",
    "limit_point",
    "limit_to_flow",
    "limit_to_steps",
    "log_pdet",
    "lyapunov_inverse",
    "population_factor",
    "residuals",
    "second_derivative",
    "steps_to_flow",
    "steps_to_limit",
    "tangent_projector",
    "third_derivative",
]
