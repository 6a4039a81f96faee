"""Line charts as inline SVG, coloured by the page's own CSS, so that they read in light and in dark and need no script.

Colours are CSS variables --series-0 ... --series-3 of the page, text and axes are `currentColor`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 280
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 44
SERIES = 4
"""Colours that the page has."""


@dataclass(frozen=True)
class Point:
    """One measured value with its interval; low and high are y where there is none."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Line:
    """One series."""

    name: str
    points: Sequence[Point]
    marks: bool = True
    """Draw points and intervals; False for a curve of thousands of steps."""
    joined: bool = True
    """Draw a line through the points."""


def chart(lines: Sequence[Line], *, title: str, x: str, y: str) -> str:
    """One SVG element; "" if there is no finite point.

    Args:
        title: said by screen readers.
        x, y: labels of the axes.
    """
    points = [point for line in lines for point in line.points if math.isfinite(point.y)]
    if not points:
        return ""
    across = Scale.of([point.x for point in points], LEFT, WIDTH - RIGHT)
    up = Scale.of([value for point in points for value in (point.low, point.high)], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>',
        *_grid(across, up),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x)}</text>',
        f'<text x="14" y="{(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {(TOP + HEIGHT - BOTTOM) / 2})">{escape(y)}</text>',
        *(_drawn(line, index, across, up) for index, line in enumerate(lines)),
        "</svg>",
    ]
    return "".join(parts) + _legend(lines)


@dataclass(frozen=True)
class Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float
    step: float
    """Between two ticks."""

    @classmethod
    def of(cls, values: Sequence[float], start: float, end: float) -> Scale:
        """A scale that holds all values, its ends on ticks."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(finite), max(finite)
        if low == high:
            low, high = min(low, 0), max(high, 0) or 1
        step = _step(high - low)
        return cls(math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step, start, end, step)

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self) -> list[float]:
        return [self.low + self.step * index for index in range(round((self.high - self.low) / self.step) + 1)]


def _step(span: float) -> float:
    """1, 2 or 5 times a power of ten, so that four to ten steps span it."""
    power = 10 ** math.floor(math.log10(span / 4))
    return next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 8)


def _grid(across: Scale, up: Scale) -> list[str]:
    parts = [
        f'<path class="grid" d="M{LEFT} {up(tick)}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 6}" y="{up(tick) + 4}" text-anchor="end">{tick:.4g}</text>'
        for tick in up.ticks()
    ]
    parts += [
        f'<text x="{across(tick)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:.4g}</text>'
        for tick in across.ticks()
    ]
    return parts


def _drawn(line: Line, index: int, across: Scale, up: Scale) -> str:
    points = [point for point in line.points if math.isfinite(point.y)]
    path = "L".join(f"{across(point.x)} {up(point.y)}" for point in points)
    parts = [f'<path class="line" d="M{path}"/>'] if points and line.joined else []
    for point in points if line.marks else ():
        x = across(point.x)
        parts.append(f'<path class="interval" d="M{x} {up(point.low)}V{up(point.high)}"/>')
        label = f"{escape(line.name)}: {point.y:.4g} [{point.low:.4g}, {point.high:.4g}] at {point.x:g}"
        parts.append(f'<circle cx="{x}" cy="{up(point.y)}" r="3.5"><title>{label}</title></circle>')
    return f'<g class="series" style="--c:var(--series-{index % SERIES})">{"".join(parts)}</g>'


def _legend(lines: Sequence[Line]) -> str:
    if len(lines) < 2:
        return ""
    keys = (
        f'<li style="--c:var(--series-{index % SERIES})"><span aria-hidden="true"></span>{escape(line.name)}</li>'
        for index, line in enumerate(lines)
    )
    return f'<ul class="legend">{"".join(keys)}</ul>'
