"""Draws against the moments that are claimed for them, in standard errors."""

from typing import NamedTuple

import numpy as np

from ..numerics.host_rng import generator

LARGEST = 6.0  # standard errors: chance goes beyond once in 10⁸ times
ALL = 12  # up to this many entries are looked at one by one, else in as many directions
ROUNDING = 1e-12


class Directions(NamedTuple):
    """What is measured of a random vector: some of its components, with names."""

    matrix: np.ndarray
    names: list[str]


def directions(size: int, name: str, key: int) -> Directions:
    """Every entry of a short vector; their sum and random signs of a long one.

    A rare event shows in every direction, where one entry would have to wait for it.
    """
    if size <= ALL:
        return Directions(np.eye(size), [f"{name} {i}" for i in range(size)])
    signs = generator(key, f"check_noise {name}").choice([-1.0, 1.0], size=(ALL, size))
    signs[0] = 1.0
    random = [f"the {name}s with random signs" for _ in range(ALL - 1)]
    return Directions(signs / np.sqrt(size), [f"the sum of the {name}s", *random])


class ClaimedMoments(NamedTuple):
    """What the draws of a vector are held against.

    Attributes:
        what: how to call it, in the plural.
        draws: (N, m) minus the mean that is claimed.
        covariance: (m, m) that is claimed.
        names: of the m entries.
        size: of the numbers that the draws are rounded differences of.
    """

    what: str
    draws: np.ndarray
    covariance: np.ndarray
    names: list[str]
    size: float


def against_moments(claim: ClaimedMoments) -> list[str]:
    """What the draws say against the claim, the worst of the means and of the covariances."""
    draws = claim.draws
    covariance = claim.covariance
    count = len(draws)
    scale = _scale(draws, covariance)
    sentences = []
    means = draws.mean(axis=0)
    floor = ROUNDING * max(float(scale.max(initial=0.0)), claim.size) + 1e-150
    z = means / (scale / np.sqrt(count) + floor)
    i = int(np.argmax(np.abs(z)))
    if abs(z[i]) > LARGEST:
        sentences.append(
            f"{claim.what} are biased: their mean over {count} draws is off by {means[i]:.3g} in "
            f"{claim.names[i]}, {far(z[i])}"
        )
    second, z = _second_moments(draws, covariance, scale, floor)
    i, j = np.unravel_index(int(np.argmax(np.abs(z))), z.shape)
    if abs(z[i, j]) > LARGEST:
        where = claim.names[i] if i == j else f"{claim.names[i]} and {claim.names[j]}"
        kind = "variance" if i == j else "covariance"
        sentences.append(
            f"{claim.what} have a {kind} of {second[i, j]:.4g} in {where} over {count} draws, but "
            f"{covariance[i, j]:.4g} is claimed, {far(z[i, j])} away"
        )
    return sentences


def between(first: np.ndarray, second: np.ndarray) -> float:
    """The largest correlation of two series of draws, in standard errors; 0 for constants.

    Args:
        first: (N, m) of mean zero.
        second: (N, l) of mean zero.
    """
    products = first.T @ second / len(first)
    size = np.outer(_spread(first), _spread(second))
    # Rare events that once coincide look like much: the products' own spread says how much.
    squares = (first**2).T @ second**2 / len(first)
    size = np.maximum(size, np.sqrt(np.maximum(squares - products**2, 0.0)))
    z = np.where(size > 0, products / np.where(size > 0, size, 1.0), 0.0) * np.sqrt(len(first))
    return float(np.abs(z).max(initial=0.0))


def far(z: float) -> str:
    """A distance in words; where draws hardly fluctuate, its digits say nothing."""
    return f"{abs(z):.0f} standard errors" if abs(z) < 1000 else "over 1000 standard errors"


def _second_moments(
    draws: np.ndarray, covariance: np.ndarray, scale: np.ndarray, floor: float
) -> tuple[np.ndarray, np.ndarray]:
    """E[xxᵀ], and how many standard errors it is away from the claim.

    The error comes from the fourth moments of the draws, made larger where they are smaller than
    the claim: too few rare events must not look like certainty.
    """
    count = len(draws)
    second = draws.T @ draws / count
    fourth = (draws**2).T @ draws**2 / count
    spread = _spread(draws)
    deviation = np.sqrt(np.maximum(fourth - second**2, 0.0))
    drawn = np.outer(spread, spread)
    size = np.outer(scale, scale)
    relative = np.where(drawn > 0, deviation / np.where(drawn > 0, drawn, 1.0), np.sqrt(2.0))
    error = relative * size / np.sqrt(count) + floor * max(float(scale.max(initial=0.0)), floor)
    return second, (second - covariance) / error


def _spread(draws: np.ndarray) -> np.ndarray:
    return np.sqrt((draws**2).mean(axis=0))


def _scale(draws: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The larger of the draws' size and the claimed one, for every entry."""
    return np.maximum(_spread(draws), np.sqrt(np.maximum(np.diagonal(covariance), 0.0)))
