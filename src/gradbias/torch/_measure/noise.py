"""How noisy the gradient is on the two sides of every unit, with standard errors."""

import dataclasses
from collections.abc import Sequence

import numpy as np
from torch import nn

from ...numerics import checks
from .._find.family import Family
from .batches import B, LossFn, size
from .deviations import deviations
from .per_sample import MEMORY
from .repeatable import check_repeatable
from .undisturbed import Named, precise, smooth

METHODS = ("auto", "linear", "vmap", "groups")


@dataclasses.dataclass(frozen=True, eq=False)
class GradientNoise:
    """Gradient noise of one family, per unit.

    Σ is the covariance of one sample's gradient (1/(n − 1)); a batch of S has Σ/S. The noise on
    a side is the trace of Σ over the side's parameters. SGD moves the charge C = θᵀAθ by
    lr²(`drift`/S + `mean_square`) a step on average, κ = lr/S.

    Attributes:
        family: its name.
        into: (units,) noise of what goes into the unit.
        out: (units,) noise of what comes out of it.
        ratio: (units,) into/out; 1 at the noise equilibrium (without weight decay), nan where both
            are 0.
        standard_error: (units,) of the ratio.
        into_error: (units,) standard error of `into`.
        out_error: (units,) standard error of `out`.
        drift: (units,) Tr ΣA = into − out.
        drift_error: (units,) its standard error.
        mean_square: (units,) ḡᵀAḡ of the mean gradient, its own noise taken off.
        method: "linear", "vmap" or "groups".
        samples: how many samples.
    """

    family: str
    into: np.ndarray
    out: np.ndarray
    ratio: np.ndarray
    standard_error: np.ndarray
    into_error: np.ndarray
    out_error: np.ndarray
    drift: np.ndarray
    drift_error: np.ndarray
    mean_square: np.ndarray
    method: str
    samples: int

    @property
    def dead(self) -> np.ndarray:
        """(units,) no gradient reached them from any sample."""
        return (self.into == 0) & (self.out == 0)


def gradient_noise(
    model: nn.Module,
    loss_fn: LossFn[B],
    batch: B,
    families: Sequence[Family],
    *,
    method: str = "auto",
    groups: int = 16,
    memory: float = MEMORY,
) -> dict[str, GradientNoise]:
    """The gradient noise on both sides of every unit, by family name.

    Three estimators. "linear" takes per-sample gradients of Linear layers from their inputs and
    output gradients, at the price of one backward pass. "vmap" computes them with `torch.func`, a
    few samples at a time. "groups" compares the mean gradients of groups of samples (two groups:
    the half-batch estimator) and works for every loss. "auto" takes the first that is valid.

    Args:
        model: in evaluation mode if it has dropout or BatchNorm.
        loss_fn: `loss_fn(model, batch)`, the mean loss over the batch.
        batch: at least 2 samples (4 for "groups"), drawn as in training.
        families: from `symmetries`, or declared.
        method: one of the above.
        groups: how many groups, for "groups" and for the standard errors of "linear".
        memory: bytes for the per-sample gradients of "vmap".

    Returns:
        `GradientNoise` by family name.
    """
    checks.one_of("method", method, METHODS)
    groups = checks.integer("groups", groups, at_least=2)
    memory = checks.number("memory", memory, above=0)
    n = size(batch)
    if n < 2:
        raise ValueError(f"batch must have at least 2 samples to see noise, got {n}")
    mean = check_repeatable(model, loss_fn, batch).gradient
    wanted = {name for family in families for name in family.parameters}
    if len({family.name for family in families}) < len(families):
        raise ValueError("families must have different names, got one of them twice")
    missing = sorted(wanted - set(mean))
    if missing:
        raise ValueError(f"families name parameters that are not trained: {', '.join(missing)}")
    mean = {name: g for name, g in mean.items() if name in wanted}
    with smooth():
        used, sides = deviations(model, loss_fn, batch, families, mean, method, groups, memory)
    return {f.name: _noise(f, mean, sides[f.name], used, n) for f in families}


def _error(rows: np.ndarray) -> np.ndarray:
    """The standard error of the mean over rows."""
    size = np.abs(rows).max(0)
    size = np.where(size > 0, size, 1.0)  # squares of squares leave the range of floats
    return (rows / size).std(0, ddof=1) * size / len(rows) ** 0.5


def _noise(
    family: Family, mean: Named, sides: tuple[np.ndarray, np.ndarray], method: str, n: int
) -> GradientNoise:
    rows = len(sides[0])
    # Deviations are from the mean of the same samples (or groups), which takes one of them away.
    lost = rows / (rows - 1) if method == "groups" else n / (n - 1)
    a, b = (side * lost for side in sides)
    into = a.mean(0)
    out = b.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = into / out
        standard_error = ratio * _error(a / into - b / out)
    square = precise(family.form(mean, mean)).cpu().numpy()
    return GradientNoise(
        *(family.name, into, out, ratio, standard_error, _error(a), _error(b)),
        *(into - out, _error(a - b), square - (into - out) / n, method, n),
    )
