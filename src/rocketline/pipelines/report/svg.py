"""Plots as SVG, drawn by hand: lines over time, and bars. Nothing is loaded from elsewhere."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 12, 28
_SERIES_COLOURS: Final = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)")
_DAY_S: Final = 86_400
_POINTS_MAX: Final = 600
"""More could not be told apart; of each group the greatest is drawn, so that no peak is lost."""

Points = Sequence[tuple[float, float]]


def line_chart(series: Mapping[str, Points], *, unit: str) -> str:
    """Values over time, a line for each series; a note if there are none."""
    drawn = {name: thinned(points) for name, points in series.items() if points}
    if not drawn:
        return '<p class="none">Nothing was recorded.</p>'
    times = [at for points in drawn.values() for at, _ in points]
    top = nice_ceiling(max(value for points in drawn.values() for _, value in points))
    first, last = min(times), max(times)
    span = (last - first) or 1.0

    def place(at: float, value: float) -> tuple[float, float]:
        x = _LEFT + (at - first) / span * (_WIDTH - _LEFT - _RIGHT)
        return round(x, 1), round(_HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM), 1)

    parts = [*_value_axis(top, unit), *_time_axis(first, last)]
    for number, (name, points) in enumerate(drawn.items()):
        colour = _SERIES_COLOURS[number % len(_SERIES_COLOURS)]
        places = [place(at, value) for at, value in points]
        path = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += [
            f'<circle cx="{x}" cy="{y}" r="2.5" fill="{colour}"><title>{escape(name)}: {shown(value)} {escape(unit)}'
            f" at {_clock(at)}</title></circle>"
            for (x, y), (at, value) in zip(places, points, strict=True)
        ]
    return _figure("".join(parts), drawn)


def bar_chart(values: Mapping[str, float]) -> str:
    """A bar for each name, the longest first."""
    if not values:
        return '<p class="none">None.</p>'
    ordered = sorted(values.items(), key=lambda pair: -pair[1])
    longest = max(value for _, value in ordered) or 1.0
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{shown(value)}</td>"
        f'<td class="bar"><svg viewBox="0 0 100 8" preserveAspectRatio="none">'
        f'<rect width="{value / longest * 100:.1f}" height="8" fill="var(--c1)"/></svg></td></tr>'
        for name, value in ordered
    )
    return f'<table class="bars">{rows}</table>'


def thinned(points: Points, count_max: int = _POINTS_MAX) -> list[tuple[float, float]]:
    """At most so many points: of each group of neighbours the greatest.

    >>> thinned([(1, 5), (2, 9), (3, 4), (4, 1)], 2)
    [(2, 9), (3, 4)]
    """
    size = math.ceil(len(points) / count_max)
    if size <= 1:
        return list(points)
    return [max(points[at : at + size], key=lambda point: point[1]) for at in range(0, len(points), size)]


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten.

    >>> nice_ceiling(0), nice_ceiling(1.7), nice_ceiling(220), nice_ceiling(99)
    (1.0, 2.0, 250.0, 100.0)
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-9))


def shown(value: float) -> str:
    """A number as people read it.

    >>> shown(1234567.0), shown(0.1234), shown(12.0)
    ('1,234,567', '0.123', '12')
    """
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _value_axis(top: float, unit: str) -> list[str]:
    parts = []
    for part in range(5):
        y = _HEIGHT - _BOTTOM - part / 4 * (_HEIGHT - _TOP - _BOTTOM)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" class="grid"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{shown(top * part / 4)}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_TOP - 2}" class="unit">{escape(unit)}</text>')
    return parts


def _time_axis(first: float, last: float) -> list[str]:
    ticks = [first] if last == first else [first + (last - first) * part / 4 for part in range(5)]
    parts = []
    for number, at in enumerate(ticks):
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * number / 4
        anchor = "start" if number == 0 else "end" if number == len(ticks) - 1 else "middle"
        text = _clock(at, "%H:%M:%S" if last - first < _DAY_S else "%m-%d %H:%M")
        parts.append(f'<text x="{x}" y="{_HEIGHT - 8}" text-anchor="{anchor}">{text}</text>')
    return parts


def _clock(at: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return dt.datetime.fromtimestamp(at).astimezone().strftime(form)


def _figure(content: str, series: Mapping[str, Points]) -> str:
    keys = "".join(
        f'<span><i style="background:{_SERIES_COLOURS[number % len(_SERIES_COLOURS)]}"></i>{escape(name)}</span>'
        for number, name in enumerate(series)
    )
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{content}</svg>'
    return f"<figure>{svg}<figcaption>{keys}</figcaption></figure>"
