"""How far the units of a net are from their noise equilibrium."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ._common import axes
from ._style import BLACK, BLUE

if TYPE_CHECKING:
    import matplotlib.axes


@runtime_checkable
class HasLambda(Protocol):
    """The noise balance of one family: the amount of its move, a number a unit or a matrix."""

    @property
    def lam(self) -> ArrayLike: ...


def noise_balance(
    result: Mapping[str, HasLambda],
    *,
    ax: "matplotlib.axes.Axes | None" = None,
    label: str | None = None,
    **style: Any,
) -> "matplotlib.axes.Axes":
    """Draw λ* of every unit, the amount of exp(λA) that would balance its noise; 0 is balance.

    Units that are dead (no noise, or weight on one side only) have none; they are counted.

    Args:
        result: what `gb.symmetry.noise_balance` returns.
        ax: where to draw; the current Axes of pyplot if None.
        label: for the legend, such as "before"; draw twice into the same Axes to compare.
        style: passed on to the points.
    """
    ax = axes(ax)
    names = list(result)
    kind = {"color": BLUE, "ls": "none", "marker": "o", "alpha": 0.7, **style}
    texts = []
    for row, name in enumerate(names):
        values = _of(result[name])
        alive = values[np.isfinite(values)]
        spread = np.linspace(-0.25, 0.25, len(alive)) if len(alive) > 1 else np.zeros(len(alive))
        ax.plot(np.sort(alive), row + spread, label=label if row == 0 else None, **kind)
        dead = len(values) - len(alive)
        texts.append(name + (f"\n({dead} dead)" if dead else ""))
    ax.axvline(0, color=BLACK, lw=0.8, zorder=0)
    ax.set_yticks(range(len(names)), texts)
    ax.set_ylim(-0.6, len(names) - 0.4)
    ax.set_xlabel(r"$\lambda^*$: distance to the noise equilibrium")
    if label is not None:
        ax.legend()
    return ax


def _of(balance: HasLambda) -> np.ndarray:
    lam = np.asarray(balance.lam, float)
    if lam.ndim == 2:  # a matrix family: the eigenvalues of its move
        return np.linalg.eigvalsh((lam + lam.T) / 2) if np.isfinite(lam).all() else lam.ravel()
    return np.atleast_1d(lam).ravel()
