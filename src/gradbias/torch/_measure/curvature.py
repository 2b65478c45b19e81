"""How sharp the loss is: the largest eigenvalue and the trace of its Hessian."""

import dataclasses
import math
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import nn

from ...numerics import checks, host_rng
from .batches import B, LossFn
from .hessian import Hessian


@runtime_checkable
class SymmetricMatrix(Protocol):
    """A symmetric matrix that is known by its products with vectors.

    Attributes:
        size: of the vectors.
    """

    size: int

    def __matmul__(self, vector: torch.Tensor) -> torch.Tensor: ...

    def like(self, values: np.ndarray) -> torch.Tensor:
        """A vector of these numbers, where and as precise as the products are."""
        ...


@dataclasses.dataclass(frozen=True, eq=False)
class TopEigenpair:
    """The largest eigenvalue λ of the Hessian of the mean loss.

    Attributes:
        value: λ. Some eigenvalue is within `residual` of it.
        residual: ‖Hv − λv‖ for the unit vector v, measured.
        iterations: how many products with H were used.
        converged: was the residual small enough?
        vector: v, flat, in the order of `model.named_parameters()`.
    """

    value: float
    residual: float
    iterations: int
    converged: bool
    vector: torch.Tensor = dataclasses.field(repr=False)

    @property
    def lr(self) -> float:
        """2/λ: plain gradient descent with a larger rate moves away along v; inf if λ ≤ 0."""
        return 2 / self.value if self.value > 0 else math.inf


@dataclasses.dataclass(frozen=True)
class Trace:
    """The trace of the Hessian of the mean loss.

    Attributes:
        value: the estimate.
        standard_error: its standard error.
        probes: how many random vectors it is from.
    """

    value: float
    standard_error: float
    probes: int


def sharpness(
    model: nn.Module,
    loss_fn: LossFn[B],
    batch: B,
    *,
    tolerance: float = 1e-2,
    iterations: int = 100,
    memory: float = 2**30,
    start: torch.Tensor | None = None,
    key: int = 0,
) -> TopEigenpair:
    """The largest eigenvalue of the Hessian, by Lanczos iterations with its residual.

    Args:
        model: in evaluation mode if it has dropout or BatchNorm.
        loss_fn: `loss_fn(model, batch)`, the mean loss.
        batch: what it is measured on.
        tolerance: stop when the residual is below this share of λ.
        iterations: the most products with the Hessian.
        memory: bytes for Lanczos vectors; when they are full it starts again from the best one.
        start: a flat vector to start from, such as an earlier `vector`; random without. The
            residual certifies an eigenvalue, not that it is the largest: a start near another one
            is therefore not believed before 10 products.
        key: of the random vector.

    Returns:
        λ with `.lr` = 2/λ and `.residual`.
    """
    tolerance = checks.number("tolerance", tolerance, above=0)
    iterations = checks.integer("iterations", iterations, at_least=1)
    memory = checks.number("memory", memory, above=0)
    hessian = Hessian(model, loss_fn, batch)
    vector = first_vector(hessian, start, key)
    basis = min(hessian.size, max(2, int(memory // (hessian.size * vector.element_size()))))
    least = 10 if start is not None else 1
    return top_eigenpair(hessian, vector, tolerance, (least, basis, iterations))


def top_eigenpair(
    matrix: SymmetricMatrix, vector: torch.Tensor, tolerance: float, turns: tuple[int, int, int]
) -> TopEigenpair:
    """Lanczos iterations, again from the best vector whenever the basis is full.

    Args:
        matrix: products with it.
        vector: where to start.
        tolerance: the residual allowed, as a share of the largest eigenvalue.
        turns: the least products before a residual is believed, the most vectors of a basis, and
            the most products.
    """
    least, basis, iterations = turns
    best = None
    used = 0
    while best is None or not (best.converged or used >= iterations):
        most = min(basis, iterations - used)
        best = _lanczos(matrix, vector, (1 if used else least, most), tolerance)
        vector = best.vector
        used = used + best.iterations
    return dataclasses.replace(best, iterations=used)


def first_vector(matrix: SymmetricMatrix, start: torch.Tensor | None, key: int) -> torch.Tensor:
    """A random vector, or one near `start`."""
    noise = matrix.like(host_rng.generator(key, "sharpness").standard_normal(matrix.size))
    if start is None:
        return noise
    if start.numel() != matrix.size or not bool(torch.isfinite(start).all()):
        raise ValueError(
            f"start must be a finite vector of {matrix.size} entries, got {tuple(start.shape)}"
        )
    # A little of every direction: from an exact eigenvector no other one would ever be found.
    return start.to(noise) / start.norm() + 0.05 * noise / noise.norm()


def _lanczos(
    matrix: SymmetricMatrix, vector: torch.Tensor, turns: tuple[int, int], tolerance: float
) -> TopEigenpair:
    """Lanczos iterations with full orthogonalisation until the top Ritz pair is good enough.

    Args:
        matrix: products with it.
        vector: where to start.
        turns: the least and the most iterations.
        tolerance: the residual allowed, as a share of λ.
    """
    basis = [vector / vector.norm()]
    diagonal = []
    off = []
    values = np.zeros(1)
    weights = np.ones(1)
    for turn in range(1, max(turns[1], 1) + 1):
        image = matrix @ basis[-1]
        diagonal.append(float(image @ basis[-1]))
        image, length = _orthogonal(image, basis)
        values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))
        weights = vectors[:, -1]
        good = length * abs(weights[-1]) <= _allowed(values, tolerance) / 2
        # The rest is rounding once the image lies in the span of the basis.
        spent = len(basis) >= matrix.size or length <= 1e-12 * np.abs(values).max()
        if spent or (good and turn >= turns[0]):
            break
        off.append(length)
        basis.append(image / length)
    ritz = torch.stack(basis[: len(weights)]).T @ matrix.like(weights)
    ritz = ritz / ritz.norm()
    image = matrix @ ritz
    value = float(image @ ritz)
    residual = float((image - value * ritz).norm())
    done = residual <= _allowed(values, tolerance)
    return TopEigenpair(value, residual, len(weights) + 1, done, ritz)


def _allowed(values: np.ndarray, tolerance: float) -> float:
    """The residual allowed; of a top eigenvalue near 0, a little of the others' size."""
    return max(tolerance * abs(float(values[-1])), 1e-6 * float(np.abs(values).max()))


def _orthogonal(image: torch.Tensor, basis: list[torch.Tensor]) -> tuple[torch.Tensor, float]:
    """What is left of a vector outside of the basis; twice, since once is not enough in floats."""
    rows = torch.stack(basis)
    for _ in range(2):
        image = image - rows.T @ (rows @ image)
    return image, float(image.norm())


def hessian_trace(
    model: nn.Module,
    loss_fn: LossFn[B],
    batch: B,
    *,
    probes: int = 32,
    deflate: int = 0,
    key: int = 0,
) -> Trace:
    """The trace of the Hessian from random vectors of signs, with a standard error.

    `deflate` vectors catch the large eigenvalues exactly and leave the rest to chance (Hutch++):
    worth it where few of them make most of the trace. It costs 2 more products with the Hessian
    for each.

    Args:
        model: in evaluation mode if it has dropout or BatchNorm.
        loss_fn: `loss_fn(model, batch)`, the mean loss.
        batch: what it is measured on.
        probes: how many random vectors.
        deflate: how many directions are treated exactly.
        key: of the random vectors.
    """
    probes = checks.integer("probes", probes, at_least=2)
    deflate = checks.integer("deflate", deflate)
    hessian = Hessian(model, loss_fn, batch)
    draw = host_rng.generator(key, "hessian_trace")
    deflate = min(deflate, hessian.size)
    known = None
    exact = 0.0
    if deflate:
        sketch = [hessian @ hessian.like(_signs(draw, hessian.size)) for _ in range(deflate)]
        known = torch.linalg.qr(torch.stack(sketch, 1)).Q
        exact = sum(float(q @ (hessian @ q)) for q in known.T)
    samples = []
    for _ in range(probes):
        z = hessian.like(_signs(draw, hessian.size))
        z = z if known is None else z - known @ (known.T @ z)
        samples.append(float(z @ (hessian @ z)))
    error = float(np.std(samples, ddof=1) / probes**0.5)
    return Trace(exact + float(np.mean(samples)), error, probes)


def _signs(draw: np.random.Generator, size: int) -> np.ndarray:
    return draw.choice((-1.0, 1.0), size)
