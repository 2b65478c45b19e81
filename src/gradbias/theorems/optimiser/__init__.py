"""Optimisers as geometries: momentum, signs, Adam, Muon, and the balls of decoupled decay."""

from . import (
    _angular_momentum,
    _charge_sum,
    _decay_ball,
    _modified,
    _muon_lines,
    _noise_floor,
    _sign_charge,
    _update_bound,
)

THEOREMS = (
    *_angular_momentum.THEOREMS,
    *_charge_sum.THEOREMS,
    *_modified.THEOREMS,
    *_sign_charge.THEOREMS,
    *_muon_lines.THEOREMS,
    *_decay_ball.THEOREMS,
    *_update_bound.THEOREMS,
    *_noise_floor.THEOREMS,
)
