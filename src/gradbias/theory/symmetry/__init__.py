"""Noether flow and noise equilibrium: how noise moves charges, and where it leaves them.

One convention everywhere: κ = lr/S (batches of S with replacement), charge C = θᵀAθ, objective
L + γ‖θ‖² (γ is half of torch's weight decay), time t = steps·lr, and Σ the covariance of one
sample's gradient. Only NumPy and SciPy are imported here; `printed` has the paper's own forms.
"""

from . import printed
from ._broken_symmetry import ApproximateBias, approximate_bias, approximate_flow
from ._deep_equilibrium import Weights, deep_equilibrium, equilibrium_residual, seam_noise
from ._factorisation import (
    factorisation_flow,
    factorisation_hessian_trace,
    factorisation_noise,
    factorisation_residual,
    rank_one_rate,
)
from ._fixed_point import FixedPoint, FixedPoints, fixed_point, fixed_points
from ._joint_equilibrium import JointEquilibrium, joint_equilibrium
from ._noether_flow import (
    ChargeVelocity,
    flow_by_method,
    moved_noise,
    noether_flow,
    orbit_charge,
    orbit_flow,
    orbit_potential,
)
from ._pair_equilibrium import (
    Factorisation,
    PairEquilibrium,
    factorisation_equilibrium,
    pair_equilibrium,
)
from ._rates import (
    TimeScales,
    equilibration_time,
    equilibrium_norm,
    local_rate,
    pull_bound,
    rescaling_rates,
    time_scales,
    tracking_bound,
    tracking_error,
)
from ._sharpness import Autoencoder, autoencoder_equilibrium, initial_hessian_trace

_ROOMS = ("printed",)

__all__ = [
    "ApproximateBias",
    "Autoencoder",
    "ChargeVelocity",
    "Factorisation",
    "FixedPoint",
    "FixedPoints",
    "JointEquilibrium",
    "PairEquilibrium",
    "TimeScales",
    "Weights",
    "approximate_bias",
    "approximate_flow",
    "autoencoder_equilibrium",
    "deep_equilibrium",
    "equilibration_time",
    "equilibrium_norm",
    "equilibrium_residual",
    "factorisation_equilibrium",
    "factorisation_flow",
    "factorisation_hessian_trace",
    "factorisation_noise",
    "factorisation_residual",
    "fixed_point",
    "fixed_points",
    "flow_by_method",
    "initial_hessian_trace",
    "joint_equilibrium",
    "local_rate",
    "moved_noise",
    "noether_flow",
    "orbit_charge",
    "orbit_flow",
    "orbit_potential",
    "pair_equilibrium",
    "printed",
    "pull_bound",
    "rank_one_rate",
    "rescaling_rates",
    "seam_noise",
    "time_scales",
    "tracking_bound",
    "tracking_error",
]
