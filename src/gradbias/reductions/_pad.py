"""Closures of unequal size as one program: padded with zeros, which stay zero.

A hidden direction whose column in one factor and row in the next are zero has no gradient in
either, and one outside the row space (its singular value is zero) has none in the first factor.
So padding is exact, whatever the noise on the data, momentum or weight decay.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from ..nets import Deep
from ..numerics.memo import latest
from ..problems.base import LossOfOutputs
from ._reduce import Lift, Reduction, chain_of
from ._row_space import SpectralMean, SpectralRegression

LANES = 4  # numbers that a processor handles at once
SMALL = 8  # sizes up to this are left as they are


class PaddedSize(NamedTuple):
    """The sizes of a reduced run, and which parts of its lift there are.

    Attributes:
        dims: of the small net.
        bases: is there a basis, or is the subspace the whole space?
        rests: does something lie outside, for each factor?
    """

    dims: tuple[int, ...]
    bases: tuple[bool, ...]
    rests: tuple[bool, ...]

    @classmethod
    def of(cls, net: Deep, lift: Lift) -> "PaddedSize":
        """The frame of a reduced run as it is."""
        bases = tuple(basis is not None for basis in lift.bases)
        return cls(tuple(net.dims), bases, tuple(rest is not None for rest in lift.rests))

    @classmethod
    def around(cls, frames: Sequence["PaddedSize"]) -> "PaddedSize":
        """The smallest frame into which all of these fit."""
        columns = [list(zip(*(frame[i] for frame in frames), strict=True)) for i in range(3)]
        return cls(
            tuple(map(max, columns[0])), tuple(map(any, columns[1])), tuple(map(any, columns[2]))
        )

    def rounded(self) -> "PaddedSize":
        """Hidden sizes as multiples of what a processor adds up at once.

        41 columns take a sixth longer than 44. A whole space, which has no basis, is left alone.
        """
        ends = 0, len(self.dims) - 1
        dims = tuple(
            -(-size // LANES) * LANES if there and k not in ends and size > SMALL else size
            for k, (size, there) in enumerate(zip(self.dims, self.bases, strict=True))
        )
        return self._replace(dims=dims)

    @property
    def net(self) -> Deep:
        """The small net of these sizes."""
        return chain_of(self.dims)

    @property
    def size(self) -> int:
        """The number of parameters of the small net."""
        return sum(a * b for a, b in itertools.pairwise(self.dims))


def rounded(found: Reduction) -> Reduction:
    """A closure with hidden sizes that are quick to compute with."""
    frame = PaddedSize.of(found.net, found.lift).rounded()
    if frame.dims == tuple(found.net.dims):
        return found
    return found._replace(
        net=frame.net,
        params=padded_params(found.params, frame),
        lift=padded_lift(found.lift, frame),
    )


def padded_params(params: dict[str, Any], frame: PaddedSize) -> dict[str, Any]:
    """The parameters of the small net in a larger frame."""
    return params | {
        f"W{k}": _grown(params[f"W{k}"], shape)
        for k, shape in enumerate(itertools.pairwise(frame.dims), start=1)
    }


def padded_problem(problem: LossOfOutputs, frame: PaddedSize) -> LossOfOutputs:
    """The problem in a larger frame: more directions, in which the data do not vary."""
    r = frame.dims[0]
    k = frame.dims[-1]
    if isinstance(problem, SpectralMean):
        return _padded(problem, inputs=(problem.n, r))
    if isinstance(problem, SpectralRegression):
        n = problem.n
        return _padded(problem, scaled=(n, r), U=(n, r), s=(r,), B=(r, k))
    return problem  # its draws have the size of its row space: not for us to change


def _padded(problem: LossOfOutputs, **sizes: tuple[int, ...]) -> LossOfOutputs:
    return _padded_to(problem, tuple(sizes.items()))


@latest
def _padded_to(
    problem: LossOfOutputs, sizes: tuple[tuple[str, tuple[int, ...]], ...]
) -> LossOfOutputs:
    grown = [_grown(getattr(problem, name), shape) for name, shape in sizes]
    return eqx.tree_at(lambda p: [getattr(p, name) for name, _ in sizes], problem, grown)


def padded_lift(lift: Lift, frame: PaddedSize) -> Lift:
    """The way back from a larger frame."""
    heights = lift.net.chain
    bases = [
        _grown(np.eye(height) if basis is None else basis, (height, size)) if there else None
        for basis, there, height, size in zip(
            lift.bases, frame.bases, heights, frame.dims, strict=True
        )
    ]
    shapes = itertools.pairwise(heights)
    rests = [
        np.zeros(shape) if there and rest is None else rest
        for rest, there, shape in zip(lift.rests, frame.rests, shapes, strict=True)
    ]
    across = lift.across
    shape = (heights[0], frame.dims[1])
    if frame.rests[0]:
        across = _grown(np.zeros(shape) if across is None else across, shape)
    return Lift(lift.net, bases, rests, across)


def _grown(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An array with zeros behind, up to a shape."""
    if array.shape == shape:
        return array
    return np.pad(array, [(0, new - old) for old, new in zip(array.shape, shape, strict=True)])
