"""Do the constants of gradient flow decide its limit?"""

from typing import Any

import numpy as np

from .._generators.mixing import Pair
from .._generators.named_entries import changed, zeros
from ..nets import Deep
from ..numerics.precision import host
from ._minimiser import ACCEPTED, linearised, minimiser
from ._run_coordinates import Coordinates, by_size, coordinates

# Singular values, relative to the largest: those below are rounding, those above are not zero,
# and with one in between the rank is not known.
ZERO = 1e-13
NOT_ZERO = 1e-8
UNCLEAR = (
    "params: the count is not clear here, with a singular value of {:.0e} of the largest: the "
    "start is close to a degenerate one, or its layers are of very different sizes"
)


class Completeness(int):
    """The number of directions that are left undecided, and how it was counted.

    An integer: `manifold − constants − rotations`.

    Attributes:
        coordinates: how many coordinates move.
        manifold: the dimension of the manifold of minimisers in them.
        constants: the rank of the differentials of all constants on it.
        rotations: hidden rotations that leave all constants unchanged.
        gap: the smallest singular value counted as non-zero over the largest counted as zero, in
            the least clear of the decisions (over rounding, where none was).
        distance: how far the point is from the manifold and from the constants of the start,
            relatively.
    """

    coordinates: int
    manifold: int
    constants: int
    rotations: int
    gap: float
    distance: float

    def __new__(
        cls,
        coordinates: int,
        manifold: int,
        constants: int,
        rotations: int,
        gap: float,
        distance: float,
    ):
        """Count; see `completeness`."""
        self = super().__new__(cls, manifold - constants - rotations)
        self.coordinates = coordinates
        self.manifold = manifold
        self.constants = constants
        self.rotations = rotations
        self.gap = gap
        self.distance = distance
        return self

    @property
    def undecided(self) -> int:
        """The number itself; 0 means that the constants decide the limit."""
        return int(self)

    def __repr__(self) -> str:
        return (
            f"{int(self)} directions undecided = {self.manifold} of the manifold − "
            f"{self.constants} constants − {self.rotations} rotations (gap {self.gap:.0e})"
        )


@host
def completeness(setup: Any) -> Completeness:
    r"""In how many directions the limit of gradient flow is not decided by conserved quantities.

    In the coordinates that move: the dimension of the manifold Γ of minimisers, minus the rank on
    its tangent space of the differentials of all constants (charges, and the frozen part of the
    dual variable), minus the hidden rotations that leave those constants unchanged. 0 means that
    the limit is a function of the data and the constants: an implicit-bias theorem exists. Rank-1
    and diagonal nets give 0; a two-layer net with m outputs and data of rank r gives
    m(m − 1)/2 + r(r − 1)/2 from a generic start (width at least m + r − 1).

    Everything is evaluated at one point of Γ that has the constants of the start, reached by a
    motion that conserves them; ranks do not depend on which one, if the start is generic on its
    level set. Constants that are degenerate at the start count as what they are there. A
    *balanced* net with one output moves in one hidden direction a layer, and its imbalance matrix
    is one number in these coordinates. The *orthogonal* init I_γ has an imbalance 2γI, which all
    rotations of its r hidden directions leave unchanged: r(r − 1)/2 directions of Γ are neither
    decided nor seen by any constant, but they change neither predictor nor singular values, and
    are counted as rotations. A rotation that would move the first layer outside the row space is
    not counted: that part is a constant, and the predictor depends on it.

    Only constants that the library knows are counted. For non-linear nets the answer is an upper
    bound: units that no sample reaches, for example, do not move, but are counted as undecided.

    Args:
        setup: its problem (a squared loss), net and params are used.

    Returns:
        An integer with the parts of the count.
    """
    space = coordinates(setup.problem, setup.net, setup.params)
    flat, distance = minimiser(space)
    if not distance <= ACCEPTED:
        raise ValueError(
            f"params: no minimiser with the constants of the start was found (relative distance "
            f"{distance:.1e}); probable causes: (1) gradient flow from here ends at a saddle, "
            "(2) the net cannot fit the data, (3) the scales of the layers differ by more than 1e8"
        )
    space, flat = by_size(space, flat)
    here = linearised(space, flat)
    J = here.J[:, space.moves]
    K = here.K[:, space.moves]
    rank_J, tangent, gap_J = _kernel(J)
    rank_K, gap_K = _rank_of_constants(K, K @ tangent)
    rotations, gap_R = _rotations(space, flat)
    gap = min(gap_J, gap_K, gap_R)
    return Completeness(J.shape[1], J.shape[1] - rank_J, rank_K, rotations, gap, distance)


def _rank_of_constants(full: np.ndarray, projected: np.ndarray) -> tuple[int, float]:
    """The rank of the projected differentials; those of small parameters count like others."""
    before = np.linalg.norm(full, axis=1)
    full = full[before > 0]
    projected = projected[before > 0] / before[before > 0, None]
    lengths = np.linalg.norm(projected, axis=1)
    _, gap = _decided(np.sort(lengths)[::-1], 1.0)
    kept = lengths >= NOT_ZERO
    rank, gap_rank = _rank(projected[kept] / lengths[kept, None])
    return rank, min(gap, gap_rank)


def _rotations(space: Coordinates, flat: np.ndarray) -> tuple[int, float]:
    """The dimension of the orbit under hidden rotations that leave all constants unchanged."""
    start = space.params
    end = {k: np.asarray(v) for k, v in space.unravel(flat).items()}
    directions = []
    gaps = [np.inf]
    for name, symmetry in space.symmetries.items():
        if not isinstance(symmetry, Pair) or symmetry.B is not None:
            continue
        scale = sum(np.sum(p.of(start) ** 2) for p in symmetry.left + symmetry.right) or 1.0
        tied = space.tied.get(name, np.zeros((0, 1)))
        stabiliser, gap = _stabiliser(
            np.asarray(symmetry.charge(start)) / scale, tied / np.sqrt(scale)
        )
        gaps.append(gap)
        if stabiliser and isinstance(space.net, Deep):
            _refuse_tiny(start[symmetry.left[0].name], start[symmetry.right[0].name])
        for turn in stabiliser:
            moved = changed(zeros(end), symmetry.turned(end, turn, -turn))
            directions.append(np.concatenate([moved[k].ravel() for k in sorted(moved)]))
    if not directions:
        return 0, min(gaps)
    rank, gap = _rank(np.stack(directions))
    return rank, min(*gaps, gap)


def _refuse_tiny(left: np.ndarray, right: np.ndarray) -> None:
    """Charges are squares: of directions of 1e-8 they cannot tell what leaves them unchanged."""
    sizes = np.linalg.svd(np.vstack([left, right.T]), compute_uv=False)
    if (sizes[-1] / sizes[0]) ** 2 < ZERO:
        raise ValueError(UNCLEAR.format(sizes[-1] / sizes[0]))


def _stabiliser(charge: np.ndarray, tied: np.ndarray) -> tuple[list[np.ndarray], float]:
    """Antisymmetric matrices that commute with the charge and annihilate the tied rows."""
    tied = np.linalg.qr(tied)[1] if tied.size else np.zeros((0, len(charge)))
    turns = []
    columns = []
    for a, b in zip(*np.triu_indices(len(charge), 1), strict=True):
        turn = np.zeros_like(charge)
        turn[a, b] = 1.0
        turn[b, a] = -1.0
        turns.append(turn)
        commutator = charge @ turn - turn @ charge
        columns.append(np.concatenate([commutator.ravel(), (tied @ turn).ravel()]))
    if not turns:
        return [], np.inf
    _, kernel, gap = _kernel(np.stack(columns, axis=1), largest=1.0)
    return list(np.einsum("ik,iab->kab", kernel, np.stack(turns))), gap


def _kernel(matrix: np.ndarray, largest: float | None = None) -> tuple[int, np.ndarray, float]:
    """Rank, an orthonormal basis of the kernel, and the gap between the two."""
    wide = matrix.shape[0] < matrix.shape[1]  # else the thin one has all of Vt
    _, s, Vt = np.linalg.svd(matrix, full_matrices=wide)
    rank, gap = _decided(s, largest)
    return rank, Vt[rank:].T, gap


def _rank(matrix: np.ndarray) -> tuple[int, float]:
    if 0 in matrix.shape:
        return 0, np.inf
    return _decided(np.linalg.svd(matrix, compute_uv=False), None)


def _decided(s: np.ndarray, largest: float | None) -> tuple[int, float]:
    """How many singular values are not zero, and the ratio of those around the cut."""
    top = s.max(initial=0.0) if largest is None else largest
    if top == 0:
        return 0, np.inf
    kept = s[s >= NOT_ZERO * top]
    dropped = s[s < NOT_ZERO * top].max(initial=0.0)
    if dropped > ZERO * np.sqrt(len(s)) * top:
        raise ValueError(UNCLEAR.format(dropped / top))
    lowest = kept.min(initial=np.inf) if len(kept) else NOT_ZERO * top
    return len(kept), float(lowest / max(dropped, np.finfo(float).eps * top))
