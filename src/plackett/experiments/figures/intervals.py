"""Differences from a baseline, a dot with a whisker each."""

from __future__ import annotations

from collections.abc import Sequence

from plackett.experiments.figures.canvas import COLOURS, INK, SOFT, WIDTH, line, svg, text
from plackett.experiments.report.charts import Row, Scale, ticks

_LEFT, _RIGHT, _TOP, _ROW = 190, 30, 40, 28
_UNSURE = "#8a96a3"


def interval_figure(rows: Sequence[Row], *, title: str, unit: str) -> str:
    """An SVG file of the rows around a line at zero; hollow dots are not significant."""
    reach = max([abs(v) for _, _, low, high, _ in rows for v in (low, high)] + [1e-6]) * 1.05
    scale = Scale(-reach, reach)
    bottom = _TOP + _ROW * len(rows)

    def x(value: float) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * scale.percent(value) / 100

    parts = [text(20, 24, title), line(x(0), _TOP, x(0), bottom, stroke=INK)]
    for i, (name, middle, low, high, significant) in enumerate(rows):
        y = _TOP + _ROW * (i + 0.5)
        colour = COLOURS[0] if significant else _UNSURE
        fill = colour if significant else "#ffffff"
        parts += [
            text(_LEFT - 12, y + 4, name, anchor="end"),
            line(x(low), y, x(high), y, stroke=colour, width=3),
            f'<circle cx="{x(middle):.1f}" cy="{y:.1f}" r="5" fill="{fill}" stroke="{colour}" '
            'stroke-width="2"/>',
        ]
    for tick in ticks(-reach, reach):
        label = f"{tick:+.3g}" if tick else "0"
        parts.append(text(x(tick), bottom + 18, label, anchor="middle", fill=SOFT))
    parts.append(text(x(0), bottom + 38, unit, anchor="middle", fill=SOFT))
    return svg("".join(parts), height=bottom + 50, title=title)
