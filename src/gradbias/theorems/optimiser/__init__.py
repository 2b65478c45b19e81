"""Optimisers as geometries: momentum, signs, Adam, Muon, and the balls of decoupled decay."""

from . import (
    _angular_momentum,
    _charge_sum,
    _decay_ball,
    _frank_wolfe,
    _modified,
    _muon_lines,
    _no_norm,
    _noise_floor,
    _power_charge,
    _rotation,
    _sam_drift,
    _sign_charge,
    _signal,
    _update_bound,
)

THEOREMS = (
    *_angular_momentum.THEOREMS,
    *_charge_sum.THEOREMS,
    *_modified.THEOREMS,
    *_sign_charge.THEOREMS,
    *_power_charge.THEOREMS,
    *_muon_lines.THEOREMS,
    *_decay_ball.THEOREMS,
    *_frank_wolfe.THEOREMS,
    *_update_bound.THEOREMS,
    *_noise_floor.THEOREMS,
    *_signal.THEOREMS,
    *_rotation.THEOREMS,
    *_sam_drift.THEOREMS,
    *_no_norm.THEOREMS,
)
