"""Rank-1 and balanced linear nets: where GD, SGD and the flow end, and their SDE."""

from ._any_start import Rank1Limit, rank1_limit
from ._balanced_limit import BalancedLimit, balanced_limit
from ._embedding import deep_from_rank1, rank1_from_deep
from ._finite_step import gd_gap, modified_loss, modified_velocity
from ._noise_term import Alleviation, alleviation_speed, alleviation_terms
from ._sde import balanced_sde, sde_coefficients
from ._sgd_limit import sgd_limit
from ._velocities import (
    balanced_velocity,
    depth_exponents,
    loss_rate,
    rank1_loss_rate,
    rank1_overlaps,
    theta_velocity,
    time_warp,
    warped_time,
)

__all__ = [
    "Alleviation",
    "BalancedLimit",
    "Rank1Limit",
    "alleviation_speed",
    "alleviation_terms",
    "balanced_limit",
    "balanced_sde",
    "balanced_velocity",
    "deep_from_rank1",
    "depth_exponents",
    "gd_gap",
    "loss_rate",
    "modified_loss",
    "modified_velocity",
    "rank1_from_deep",
    "rank1_limit",
    "rank1_loss_rate",
    "rank1_overlaps",
    "sde_coefficients",
    "sgd_limit",
    "theta_velocity",
    "time_warp",
    "warped_time",
]
