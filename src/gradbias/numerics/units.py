"""Powers of two as units: to measure in them changes no digit of a float64 number."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

_LARGEST = float(np.finfo(np.float64).max)
_LEAST = math.ulp(0.0)


def exponent(*arrays: ArrayLike) -> int | None:
    """The e with 2^(e−1) ≤ largest |number| < 2^e; None if all of them are zero."""
    largest = max((float(np.max(np.abs(array), initial=0.0)) for array in arrays), default=0.0)
    return math.frexp(largest)[1] if largest else None


def times_power_of_two(value: ArrayLike, power: float) -> Any:
    """value·2^power, a number for a number.

    Infinite or zero only where that is beyond float64, and then silently.

    Exact for whole powers and results that are no subnormal numbers.
    """
    whole = math.floor(power)
    with np.errstate(over="ignore", under="ignore"):
        if whole != power:
            value = np.asarray(value) * 2.0 ** (power - whole)
        return np.ldexp(value, np.clip(whole, -5000, 5000))


def measured(value: ArrayLike, power: float) -> np.ndarray:
    """value·2^(−power), held within the finite numbers, and off zero where value is not zero.

    For the arguments of a function, which may refuse what is infinite or zero.
    """
    scaled = np.asarray(times_power_of_two(value, -power))
    scaled = np.clip(scaled, -_LARGEST, _LARGEST)
    lost = (scaled == 0) & (np.asarray(value) != 0)
    return np.where(lost, np.copysign(_LEAST, value), scaled)


def in_own_unit(value: ArrayLike) -> tuple[Any, int]:
    """value·2^(−e) and e, with the largest number between ½ and 1; zero has e = 0."""
    power = exponent(value) or 0
    return times_power_of_two(value, -power), power
