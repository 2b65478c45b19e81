"""Label noise without its drift: moments, exponents, paths."""

from ._commutator_size import commutator_size
from ._exponents import moment_exponent, noise_only_lyapunov
from ._moments import (
    CommutatorMoments,
    LabelNoiseLimit,
    NoiseMoments,
    NoiseScale,
    commutator_moments,
    label_noise_rank_one_limit,
    label_noise_sde_scale,
    noise_only_moments,
)
from ._paths import NoisePaths, noise_only_paths, noise_only_step

__all__ = [
    "CommutatorMoments",
    "LabelNoiseLimit",
    "NoiseMoments",
    "NoisePaths",
    "NoiseScale",
    "commutator_moments",
    "commutator_size",
    "label_noise_rank_one_limit",
    "label_noise_sde_scale",
    "moment_exponent",
    "noise_only_lyapunov",
    "noise_only_moments",
    "noise_only_paths",
    "noise_only_step",
]
