"""Compiled programs hold memory maps; beyond the 65 530 that Linux allows, XLA crashes."""

import gc

import jax

from gradbias.numerics.compilations import memory_maps

MOST_MAPS = 30_000


def make_room():
    """Forget compiled programs where there are many, also those that no run of ours compiled."""
    if memory_maps() > MOST_MAPS:
        jax.clear_caches()
        gc.collect()
