"""Small charts as inline SVG: no scripts, no network, readable when printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

_WIDTH = 720
_LEFT, _RIGHT = 170, 24  # room for names at the left, for the last tick's label at the right
_ROW = 30


def bars(counts: Mapping[str, int], *, title: str) -> str:
    """Horizontal bars, one per name, with the count and share at the end."""
    total = sum(counts.values()) or 1
    top = max(counts.values(), default=1) or 1
    room = _WIDTH - _LEFT - 130
    rows = []
    for i, (name, count) in enumerate(counts.items()):
        y = i * 24
        length = room * count / top
        rows.append(
            f'<text class="name" x="{_LEFT - 10}" y="{y + 16}">{escape(name)}</text>'
            f'<rect class="bar" x="{_LEFT}" y="{y + 3}" width="{max(length, 1):.1f}" height="17"/>'
            f'<text class="note" x="{_LEFT + length + 8:.1f}" y="{y + 16}">'
            f"{count:,} ({count / total:.1%})</text>"
        )
    return _svg("".join(rows), height=24 * len(counts) + 4, title=title)


def intervals(
    rows: Sequence[tuple[str, float, float, float, bool]], *, title: str, unit: str
) -> str:
    """A dot with a whisker per row (name, middle, low, high, significant) around a line at zero."""
    reach = max([abs(v) for _, _, low, high, _ in rows for v in (low, high)] + [1e-6]) * 1.05
    scale = (_WIDTH - _LEFT - _RIGHT) / (2 * reach)
    zero = _LEFT + reach * scale
    bottom = _ROW * len(rows)
    parts = [f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{bottom}"/>']
    for i, (name, middle, low, high, significant) in enumerate(rows):
        y = i * _ROW + _ROW / 2
        kind = "sure" if significant else "unsure"
        parts.append(
            f'<text class="name" x="{_LEFT - 10}" y="{y + 5}">{escape(name)}</text>'
            f'<line class="whisker {kind}" x1="{zero + low * scale:.1f}" '
            f'x2="{zero + high * scale:.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="dot {kind}" cx="{zero + middle * scale:.1f}" cy="{y}" r="5"/>'
        )
    for tick in _ticks(-reach, reach):
        x = zero + tick * scale
        parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18}">{_signed(tick)}</text>')
    parts.append(f'<text class="tick" x="{zero:.1f}" y="{bottom + 38}">{escape(unit)}</text>')
    return _svg("".join(parts), height=bottom + 46, title=title)


def curves(series: Mapping[str, Sequence[float]], *, title: str, x_label: str) -> str:
    """One line per series over 1, 2, 3 ..., named at its best point in the legend."""
    height = 240
    longest = max(len(values) for values in series.values())
    everything = np.concatenate([np.asarray(values) for values in series.values()])
    # The first iterations are steep and tell little; start the axis above them.
    low, high = float(np.quantile(everything, 0.05)), float(everything.max())
    span = max(high - low, 1e-9)
    x_scale = (_WIDTH - 60 - _RIGHT) / max(longest - 1, 1)
    parts = []
    for tick in _ticks(low, high):
        y = height - (tick - low) / span * (height - 20)
        parts.append(
            f'<line class="grid" x1="60" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="name" x="52" y="{y + 4:.1f}">{tick:.3g}</text>'
        )
    for i, (name, values) in enumerate(series.items()):
        clipped = np.maximum(np.asarray(values), low)
        ys = height - (clipped - low) / span * (height - 20)
        points = " ".join(f"{60 + j * x_scale:.1f},{y:.1f}" for j, y in enumerate(ys))
        best = int(np.argmax(values))
        parts.append(
            f'<polyline class="curve c{i % 6}" points="{points}"/>'
            f'<circle class="best c{i % 6}" cx="{60 + best * x_scale:.1f}" cy="{ys[best]:.1f}" '
            f'r="4"/>'
            f'<text class="legend c{i % 6}" x="{70 + 320 * (i % 2)}" '
            f'y="{height + 48 + 20 * (i // 2)}">'
            f"● {escape(name)}: {values[best]:.4f} at {best + 1}</text>"
        )
    parts.append(f'<text class="tick" x="60" y="{height + 20}">1</text>')
    parts.append(f'<text class="tick" x="{_WIDTH - _RIGHT}" y="{height + 20}">{longest}</text>')
    parts.append(f'<text class="tick" x="{_WIDTH // 2}" y="{height + 20}">{escape(x_label)}</text>')
    return _svg("".join(parts), height=height + 60 + 20 * ((len(series) - 1) // 2), title=title)


def _signed(number: float) -> str:
    return f"{number:+.3g}" if number else "0"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends, about five."""
    rough = (high - low) / 5
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * min((1, 2, 5, 10), key=lambda m: abs(m * power - rough))
    first = np.ceil(low / step)
    return [float(k * step) for k in np.arange(first, np.floor(high / step) + 1)]


def _svg(body: str, *, height: float, title: str) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )
