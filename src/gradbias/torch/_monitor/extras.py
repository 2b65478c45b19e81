"""More to measure, on demand: each is a function from what is known to scalars and arrays."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ...numerics import host_rng
from .._find.family import Family
from .._measure.batches import LossFn
from .._measure.curvature import hessian_trace
from .._measure.hessian import Hessian
from .._measure.noise import GradientNoise
from .._measure.undisturbed import Named, precise
from .headline import Sides


class ExtraInputs(NamedTuple):
    """What an extra measurement may use.

    Attributes:
        model: in evaluation mode.
        loss_fn: the mean loss.
        batch: the probe.
        families: all of them.
        params: their parameters.
        sides: squared weights.
        noises: gradient noise, by family.
        lr: the learning rate that counts, lr/(1 − β).
        weight_decay: torch's, 2γ.
        batch_size: S, or None.
    """

    model: nn.Module
    loss_fn: LossFn[Any]
    batch: object
    families: Sequence[Family]
    params: Named
    sides: Sides
    noises: Mapping[str, GradientNoise]
    lr: float
    weight_decay: float
    batch_size: int | None


class Extra(NamedTuple):
    """Scalars to log and arrays to file."""

    scalars: dict[str, float]
    arrays: dict[str, np.ndarray]


def equilibrium(inputs: ExtraInputs) -> Extra:
    """λ*: how far each unit is from noise equilibrium, as a shift of log scale."""
    # SciPy comes with it: not before somebody asks.
    from ...theory.symmetry import fixed_points

    if inputs.weight_decay and inputs.batch_size is None:
        raise ValueError("the equilibrium with weight decay depends on S: pass batch_size")
    kappa = inputs.lr / (inputs.batch_size or 1)
    arrays = {}
    distances = []
    for family in inputs.families:
        mus = {part.mu for part in family.parts}
        if family.name not in inputs.noises or not family.two_sided or len(mus) != 2:
            continue
        up = max(mus)
        down = min(mus)
        noise = inputs.noises[family.name]
        # The sides carry |μ|; the law wants plain squares.
        scale = np.array([up, -down])
        sigma2 = np.stack([noise.into, noise.out], -1) / scale
        theta2 = np.stack(inputs.sides.squares[family.name], -1) / scale
        distance = fixed_points([up, down], sigma2, theta2, kappa, inputs.weight_decay / 2).value
        alive = inputs.sides.alive(family.name, inputs.noises)
        arrays[f"lambda/{family.name}"] = np.where(alive, distance, np.nan)
        distances.append(np.abs(distance[alive & np.isfinite(distance)]))
    values = np.concatenate(distances) if distances else np.zeros(0)
    return Extra(
        {
            "equilibrium_distance": float(values.mean()) if len(values) else math.nan,
            "equilibrium_distance_max": float(values.max()) if len(values) else math.nan,
        },
        arrays,
    )


def spectrum(inputs: ExtraInputs) -> Extra:
    """Eigenvalues of the matrices WᵢₙWᵢₙᵀ − WₒᵤₜᵀWₒᵤₜ, whose diagonals are the charges."""
    arrays = {}
    largest = [math.nan]
    for family in inputs.families:
        matrix = _imbalance_matrix(family, inputs.params)
        if matrix is not None:
            values = np.linalg.eigvalsh(matrix)
            arrays[f"spectrum/{family.name}"] = values
            total = sum(side.sum() for side in inputs.sides.squares[family.name])
            largest.append(float(np.abs(values).max() / total) if total else math.nan)
    return Extra({"imbalance_spectral": float(np.nanmax([0.0, *largest]))}, arrays)


def _imbalance_matrix(family: Family, params: Named) -> np.ndarray | None:
    total = np.zeros((family.units, family.units))
    for part in family.parts:
        units = part.unit.reshape(-1)
        plain = len(part.dims) == 1 and len(units) == family.units and bool((units >= 0).all())
        if not plain or len(set(units.tolist())) != family.units:
            return None  # units that share entries, such as heads with fewer keys
        rows = precise(params[part.parameter].detach()).movedim(part.dims[0], 0)
        rows = rows.reshape(family.units, -1)
        ordered = np.empty((family.units, rows.shape[1]))
        ordered[units.cpu().numpy()] = rows.cpu().numpy()
        total += part.mu * ordered @ ordered.T
    if family.block is not None:
        blocks = np.arange(family.units) // family.block
        total *= blocks[:, None] == blocks[None, :]
    return total


def ranks(inputs: ExtraInputs) -> Extra:
    """Stable rank ‖W‖²_F/‖W‖² and effective rank exp(entropy of σ/Σσ) of every weight."""
    arrays: dict[str, np.ndarray] = {}
    for name, p in inputs.model.named_parameters():
        if p.ndim < 2 or p.numel() == 0:
            continue
        s = torch.linalg.svdvals(precise(p.detach()).flatten(1)).cpu().numpy()
        share = s[s > 0] / s.sum() if s.any() else np.ones(0)
        stable = float((s**2).sum() / s[0] ** 2) if s.any() else 0.0
        arrays[f"rank/{name}"] = np.array([stable, np.exp(-(share * np.log(share)).sum())])
    both = np.array(list(arrays.values())) if arrays else np.full((1, 2), math.nan)
    stable, effective = both.min(0)
    return Extra({"stable_rank_min": float(stable), "effective_rank_min": float(effective)}, arrays)


def trace(inputs: ExtraInputs) -> Extra:
    """The trace of the Hessian with its standard error."""
    estimate = hessian_trace(inputs.model, inputs.loss_fn, inputs.batch)
    return Extra(
        {"hessian_trace": estimate.value, "hessian_trace_error": estimate.standard_error}, {}
    )


def label_noise(inputs: ExtraInputs, probes: int = 8) -> Extra:
    """How fast label noise would flatten: the fall of the Hessian's trace, a step.

    At zero loss label noise of variance δ² in batches of S moves θ by −lr²(δ²/S)/4·∇Tr H a step
    along the minima, for a mean of ½(f − y)². The number is for δ²/S = 1, lr²/4·‖∇Tr H‖², and an
    upper one: directions away from the minima are not taken out.
    """
    hessian = Hessian(inputs.model, inputs.loss_fn, inputs.batch)
    draw = host_rng.generator(0, "label_noise")
    samples = [
        hessian.slope(hessian.like(draw.choice((-1.0, 1.0), hessian.size))) for _ in range(probes)
    ]
    gram = precise(torch.stack(samples) @ torch.stack(samples).T).cpu().numpy()
    # Products of different probes are unbiased for the square of the mean.
    square = (gram.sum() - np.trace(gram)) / (probes * (probes - 1))
    return Extra({"label_noise_drift": float(inputs.lr**2 / 4 * square)}, {})


# The scalars of each, which a row without them has as NaN.
NAMES = {
    "equilibrium": ("equilibrium_distance", "equilibrium_distance_max"),
    "spectrum": ("imbalance_spectral",),
    "ranks": ("stable_rank_min", "effective_rank_min"),
    "trace": ("hessian_trace", "hessian_trace_error"),
    "label_noise": ("label_noise_drift",),
}
EXTRAS: dict[str, Callable[[ExtraInputs], Extra]] = {
    "equilibrium": equilibrium,
    "spectrum": spectrum,
    "ranks": ranks,
    "trace": trace,
    "label_noise": label_noise,
}
