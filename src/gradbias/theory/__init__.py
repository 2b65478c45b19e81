"""Pure mathematics: which minimum, how fast and why, computed without running anything.

NumPy in, NumPy out. Nothing here knows the dynamics, so that a comparison of the two means
something. What takes a problem answers for that problem's own weight and time; what takes none
is in the convention that its docstring names. Everything is imported when it is first used.
"""

import importlib
from typing import Any

# Public name -> the module that defines it.
_NAMES: dict[str, str] = {
    "balanced_limit": "_balanced",
    "rank1_limit": "_rank1",
    "deep_from_rank1": "_embedding",
    "rank1_from_deep": "_embedding",
    "depth_exponents": "_fields",
    "rank1_overlaps": "_fields",
    "theta_velocity": "_fields",
    "rank1_loss_rate": "_fields",
    "balanced_velocity": "_fields",
    "loss_rate": "_fields",
    "time_warp": "_fields",
    "warped_time": "_fields",
    "gd_gap": "_finite_step",
    "modified_loss": "_finite_step",
    "modified_velocity": "_finite_step",
    "sgd_limit": "_sgd",
    "sde_coefficients": "_sde",
    "balanced_sde": "_sde",
    "alleviation_terms": "_alleviation",
    "limit_singular_values": "spectral._layers",
    "limit_gram": "spectral._layers",
    "alpha_of": "spectral._layers",
    "beta_of": "spectral._layers",
    "beta_velocity": "spectral._flow",
    "alpha_velocity": "spectral._flow",
    "singular_value_velocity": "spectral._flow",
    "spectral_limit": "spectral._limit",
    "kkt_residual": "spectral._limit",
    "interpolator_dimensions": "spectral._limit",
    "exponential_rate": "spectral._rates",
    "mirror_rate_bound": "spectral._rates",
    "whitened_trajectory": "spectral._whitened",
    "activation_time": "spectral._whitened",
    "half_time": "spectral._whitened",
    "jump_limit": "spectral._whitened",
    "gd_step": "spectral._descent",
    "gd_force_step": "spectral._descent",
    "gd_imbalance_drift": "spectral._descent",
    "whitened_descent": "spectral._whitened_descent",
    "effective_gamma": "spectral._whitened_descent",
    "sharpness_at_interpolation": "spectral._curvature",
    "hessian_trace_at_interpolation": "spectral._curvature",
    "symmetric_products": "spectral._products",
    "product_velocity": "spectral._products",
    "noise_only_moments": "noise_only",
    "noise_only_lyapunov": "noise_only",
    "moment_exponent": "noise_only",
    "commutator_moments": "noise_only",
    "label_noise_rank_one_limit": "noise_only",
    "label_noise_sde_scale": "noise_only",
    "noise_only_paths": "noise_only",
    "noise_only_step": "noise_only",
    "Potential": "potentials",
    "DepthPotential": "potentials",
    "rank1_potential": "potentials",
    "HyperbolicEntropy": "potentials",
    "hyperbolic_entropy": "potentials",
    "log_det_potential": "potentials",
    "reduced_spectral_potential": "potentials",
    "singular_value_potential": "potentials",
    "spectral_scalar_potential": "potentials",
    "balanced_two_layer": "imbalance",
    "balanced_whitened": "imbalance",
    "bias_law": "imbalance",
    "certificate": "imbalance",
    "least_gram": "imbalance",
    "closed_state": "imbalance",
    "closed_step": "imbalance",
    "closed_velocity": "imbalance",
    "rate_ceiling": "imbalance",
    "rate_floor": "imbalance",
    "step_rule": "imbalance",
    "infinite_width_limit": "imbalance",
    "infinite_width_trace": "imbalance",
    "bias_bound": "imbalance",
    "invariant_projection": "imbalance",
    "invariant_residual": "imbalance",
    "imbalance_drift": "imbalance",
    "imbalance_level": "imbalance",
    "imbalance_signature": "imbalance",
    "imbalance_spectrum": "imbalance",
    "growth_bound": "imbalance",
    "log_norm_bound": "imbalance",
    "rate_bound": "imbalance",
    "flow_time": "imbalance",
    "ntk_rescaling": "imbalance",
    "riccati_solution": "imbalance",
    "split": "imbalance",
    "lemma1_bounds": "imbalance",
    "singular_value_tail": "imbalance",
    "width_bound": "imbalance",
    "diagonal_limit": "diagonal",
}
_ROOMS = ("potentials", "spectral", "imbalance", "diagonal", "manifold", "symmetry", "noise_only")

__all__ = [*_NAMES, *_ROOMS]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(importlib.import_module(f".{_NAMES[name]}", __name__), name)
    elif name in _ROOMS:
        value = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module 'gradbias.theory' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
