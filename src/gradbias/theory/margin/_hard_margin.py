"""The predictor of least norm with margins of at least one."""

from ...geometry import L2, GeometryLike
from ...problems import Classification, MaxMargin, Problem


def hard_margin(problem: Problem, geometry: GeometryLike = L2) -> MaxMargin:
    r"""$\hat w = \arg\min\{\|w\| : Zw \ge 1\}$, its multipliers and its residual.

    Args:
        problem: a separable Classification.
        geometry: whose norm: `L2`, `L1` or `Linf`.
    """
    return need_classes(problem).max_margin(geometry)


def need_classes(problem: Problem) -> Classification:
    """The problem, which must be a Classification."""
    if not isinstance(problem, Classification):
        raise ValueError(
            f"problem must be a gb.Classification, got {type(problem).__name__} {problem!r:.80}"
        )
    return problem
