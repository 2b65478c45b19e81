"""Tools without physics: precision, keys, checks of arguments, rank.

Import the modules, not this package's face: `numerics.precision` is the only one that needs jax.
"""
