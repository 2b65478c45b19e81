"""A line chart as SVG text; its colours are those of the page."""

import math
from collections.abc import Sequence

WIDTH = 420
HEIGHT = 210
_LEFT = 58
_RIGHT = 14
_TOP = 14
_BOTTOM = 30


def chart(
    x: Sequence[float], y: Sequence[float], *, log: bool = False, mark: float | None = None
) -> str:
    """One curve over steps.

    Args:
        x: steps.
        y: values; those that are not finite are left out.
        log: a logarithmic axis, when all values are positive.
        mark: a level to draw a dashed line at.
    """
    points = [(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(b)]
    if not points:
        words = '<text x="8" y="24">not measured</text>'
        return f'<svg viewBox="0 0 {WIDTH} 40" class="chart">{words}</svg>'
    log = log and all(b > 0 for _, b in points)
    levels = [b for _, b in points] + ([mark] if mark is not None else [])
    low, high = _range([math.log10(v) if log else v for v in levels])
    first = points[0][0]
    last = points[-1][0]

    def place(a: float, b: float) -> tuple[float, float]:
        across = (a - first) / (last - first) if last > first else 0.5
        up = ((math.log10(b) if log else b) - low) / (high - low)
        return (
            _LEFT + across * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - up * (HEIGHT - _TOP - _BOTTOM),
        )

    parts = [_axes(first, last)]
    for level in _log_ticks(low, high) if log else _ticks(low, high):
        y_at = place(first, level)[1]
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y_at:.1f}" y2="{y_at:.1f}" '
            f'stroke="var(--line)"/><text x="{_LEFT - 6}" y="{y_at + 4:.1f}" text-anchor="end">'
            f"{level:.3g}</text>"
        )
    if mark is not None:
        y_at = place(first, mark)[1]
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y_at:.1f}" y2="{y_at:.1f}" '
            'stroke="var(--limit)" stroke-dasharray="5 4"/>'
        )
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (place(*p) for p in points))
    parts.append(f'<polyline points="{path}" fill="none" stroke="var(--curve)" stroke-width="2"/>')
    if len(points) <= 40:
        dots = (place(*p) for p in points)
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.6" fill="var(--curve)"/>' for a, b in dots
        ]
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" class="chart">{"".join(parts)}</svg>'


def _axes(first: float, last: float) -> str:
    base = HEIGHT - _BOTTOM
    return (
        f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}" stroke="var(--quiet)"/>'
        f'<text x="{_LEFT}" y="{base + 18}">{first:g}</text>'
        f'<text x="{WIDTH - _RIGHT}" y="{base + 18}" text-anchor="end">step {last:g}</text>'
    )


def _range(values: Sequence[float]) -> tuple[float, float]:
    low = min(values)
    high = max(values)
    room = max(0.06 * (high - low), 1e-3 * abs(high)) or 0.5
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """About four round values."""
    raw = (high - low) / 4
    unit = 10 ** math.floor(math.log10(raw))
    step = next(m * unit for m in (1, 2, 5, 10) if m * unit >= raw)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """Round values between powers of ten, evenly spaced ones within less than a decade."""
    if high - low < 1:
        return [v for v in _ticks(10**low, 10**high) if v > 0]
    each = (1, 2, 5) if high - low < 2 else (1,)
    every = math.ceil((high - low) / 6)  # decades between labels
    decades = range(math.floor(low), math.ceil(high) + 1)
    values = [m * 10.0**k for k in decades if k % every == 0 for m in each]
    return [v for v in values if low <= math.log10(v) <= high]
