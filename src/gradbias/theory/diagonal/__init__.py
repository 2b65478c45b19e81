"""Diagonal linear nets, Θ = u² − v²: where gradient flow ends, and where label noise goes next.

NumPy in, NumPy out. What takes a problem answers for that problem's own weight.
"""

from ._bounds import length_bound, limiting_length_bound, limiting_pl, pl_constant
from ._canonical import canonical, distance_to_canonical, escape_potential
from ._fits import decay_rates
from ._flow import limiting_flow
from ._kernel import kernel_error, kernel_solution
from ._l1 import L1Certificate, l1_certificate, l1_rate, weighted_l1
from ._limit import DiagonalLimit, limit
from ._manifold import (
    hessian,
    limiting_field,
    manifold_dimension,
    projected_gradient,
    regulariser,
    tangent_kernel,
)
from ._recovery import Recovery, boolean_recovery, gaussian_recovery
from ._sgd import noise_level, product_law, stability_bound

diagonal_limit = limit  # its name in `gradbias.theory`

__all__ = [
    "DiagonalLimit",
    "L1Certificate",
    "Recovery",
    "boolean_recovery",
    "canonical",
    "decay_rates",
    "diagonal_limit",
    "distance_to_canonical",
    "escape_potential",
    "gaussian_recovery",
    "hessian",
    "kernel_error",
    "kernel_solution",
    "l1_certificate",
    "l1_rate",
    "length_bound",
    "limit",
    "limiting_field",
    "limiting_flow",
    "limiting_length_bound",
    "limiting_pl",
    "manifold_dimension",
    "noise_level",
    "pl_constant",
    "product_law",
    "projected_gradient",
    "regulariser",
    "stability_bound",
    "tangent_kernel",
    "weighted_l1",
]
