"""Randomness on the host: one integer key, an independent stream for every function that draws."""

import zlib

import numpy as np

from . import checks


def generator(key: int, name: str) -> np.random.Generator:
    """The stream of the function called `name` under the integer `key`.

    Folding the name in makes it safe to give the same key to data and to an init. With one
    shared stream, `key=0` twice would start a net on a row of X, inside the row space, where
    the bias that this library shows vanishes.
    """
    entropy = checks.integer("key", key)
    stream = np.random.SeedSequence(entropy, spawn_key=(zlib.crc32(name.encode()),))
    return np.random.default_rng(stream)
