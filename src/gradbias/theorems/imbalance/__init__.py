"""Min, Tarmoun, Vidal and Mallada (2021): imbalance and width of two-layer linear nets."""

from . import _balanced, _bias, _conventions, _motion, _rates, _width

THEOREMS = (
    *_motion.THEOREMS,
    *_rates.THEOREMS,
    *_bias.THEOREMS,
    *_width.THEOREMS,
    *_balanced.THEOREMS,
    *_conventions.THEOREMS,
)
