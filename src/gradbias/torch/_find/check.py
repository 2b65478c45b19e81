"""How well a symmetry holds, in numbers: |g·Aθ| on data, at the model's own point and at others."""

import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ...numerics.host_rng import generator
from .._measure.undisturbed import Named, gradient, smooth, trainable
from .family import EXACT, SINGLE, Family
from .pairs import sides
from .parameters import Call
from .results import outputs

POINTS = 3  # random points besides the model's own: a false symmetry can hide at one point
FAINT = 1e-4  # units with less than this of the largest unit's gradient count as this large
# Random numbers at a point, used again in larger models; a prime: no row repeats another.
DRAWS = 1_000_003

Scalar = Callable[[nn.Module], Tensor]


def random_scalar(call: Call, key: int = 0) -> Scalar:
    """A random combination of all of a model's outputs: it sees every change of any of them."""

    def scalar(model: nn.Module) -> Tensor:
        rng = generator(key, "torch.check")
        total = torch.zeros(())
        for out in outputs(model(*call[0], **call[1])):
            weights = torch.as_tensor(rng.standard_normal(tuple(out.shape)))
            total = total.to(out) + (weights.to(out) * out).sum()
        return total

    return scalar


def measured(
    model: nn.Module,
    scalars: Sequence[Scalar],
    families: Sequence[Family],
    key: int = 0,
    tolerance: float = EXACT,
) -> list[Family]:
    """The same families with what was measured, and pairs told from rescalings.

    Args:
        model: a copy in float64; its parameters are changed.
        scalars: what must not change; the first is also looked at from random points.
        families: what is claimed.
        key: decides the random points.
        tolerance: what is rounding in the precision that the model computes in.
    """
    worst = torch.zeros(len(families), 2)
    here = torch.zeros(len(families), 2)
    params = trainable(model)
    sizes = {name: _size(p) for name, p in params.items()}
    for point in range(POINTS + 1):
        if point:
            _to_random(params, sizes, point - 1, key)
        for scalar in scalars if point == 0 else scalars[:1]:
            cosines = _cosines(model, scalar, families, params)
            if cosines is None and point == 0:
                raise ValueError("model must have finite outputs and gradients on this input")
            worst = worst if cosines is None else torch.maximum(worst, cosines)
        here = worst if point == 0 else here
    rows = zip(families, worst.tolist(), here[:, 0].tolist(), strict=True)
    return [
        _judged(dataclasses.replace(family, tolerance=tolerance), near, *far)
        for family, far, near in rows
    ]


def _cosines(
    model: nn.Module, scalar: Scalar, families: Sequence[Family], params: Named
) -> Tensor | None:
    acted_on = {name: params[name] for family in families for name in family.parameters}
    with smooth():
        value = scalar(model)
        g = gradient(value, acted_on) if value.requires_grad else {}
    if not g or not all(bool(torch.isfinite(v).all()) for v in g.values()):
        return None if g else torch.zeros(len(families), 2)
    theta = {name: p.detach() for name, p in acted_on.items()}
    return torch.tensor([[_cosine(f, g, theta), _matrix_cosine(f, g, theta)] for f in families])


def _cosine(family: Family, g: Named, theta: Named) -> float:
    """The largest |g·Aθ|/‖g‖‖Aθ‖ of any unit, over the unit's own entries."""
    lengths = [torch.stack(family.halves(v, v)).sum(0).sqrt() for v in (g, theta)]
    floor = FAINT * lengths[0].max()
    size = torch.maximum(lengths[0], floor) * lengths[1]
    return _ratio(family.form(g, theta).abs(), size)


def _matrix_cosine(family: Family, g: Named, theta: Named) -> float:
    """The same for all matrices between a pair at once; infinite where there is no pair.

    Where it is too large for a pair it is a lower bound.
    """
    slopes = sides(family, g)
    points = sides(family, theta)
    if slopes is None or points is None:
        return float("inf")
    lengths = [
        torch.stack([s.square().sum((1, 2)) for s in v]).sum(0).sqrt() for v in (slopes, points)
    ]
    size = torch.maximum(lengths[0], FAINT * lengths[0].max()) * lengths[1]
    for rows in (slice(0, 1), slice(None)):  # one row of each matrix refutes most that are no pair
        form = slopes[0][:, rows] @ points[0].mT - points[1][:, rows] @ slopes[1].mT
        off = _ratio(torch.linalg.matrix_norm(form), size)
        if off > SINGLE:
            break
    return off


def _ratio(off: Tensor, size: Tensor) -> float:
    return float(torch.where(size > 0, off / torch.where(size > 0, size, 1.0), 0.0).max())


def _size(p: Tensor) -> float:
    """The root mean square of a parameter's entries."""
    return float(p.detach().square().mean().sqrt()) if p.numel() else 0.0


def _to_random(params: Named, sizes: dict[str, float], point: int, key: int) -> None:
    """Put every parameter at a random place: of its own size, or of the usual one."""
    rng = generator(key + point, "torch.check.points")
    total = sum(p.numel() for p in params.values())
    draws = torch.from_numpy(rng.standard_normal(max(1, min(total, DRAWS))))
    start = 0
    with torch.no_grad():
        for name, p in params.items():
            usual = max(p.shape, default=1) ** -0.5
            size = sizes[name] if point % 2 and sizes[name] > 0 else usual
            p.copy_(size * _from(draws, start, p.numel()).reshape(p.shape))
            start = (start + p.numel()) % len(draws)


def _from(draws: Tensor, start: int, count: int) -> Tensor:
    """Random numbers from a place in a long list, which begins again at its end."""
    rounds = (start + count) // len(draws) + 1
    return draws.repeat(rounds)[start : start + count]


def _judged(family: Family, near: float, cosine: float, matrix: float) -> Family:
    pair = matrix <= family.tolerance and family.kind == "rescaling"
    if family.epsilon and near > EXACT:  # how much an epsilon matters depends on the point
        cosine = near
    return dataclasses.replace(
        family,
        holds=cosine,
        kind="pair" if pair else family.kind,
        block=family.block if pair else None,
    )
