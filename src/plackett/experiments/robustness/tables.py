"""Curves under noise as a table: a row per level, systems and differences in columns."""

from __future__ import annotations

from plackett.experiments.robustness.curves import Difference, RobustnessCurves
from plackett.experiments.tables.grid import Grid, Row


def curve_grid(found: RobustnessCurves, *, caption: str | None = None) -> Grid:
    """Means and half-widths of their 95 % intervals, then differences from the baseline.

    Parameters
    ----------
    found
        The curves.
    caption
        By default the metric and the noise.
    """
    title = caption or f"{found.metric} under {found.corruption}"
    rows = []
    for i, level in enumerate(found.levels):
        means = [points[i] for points in found.curves.values()]
        cells = [f"{p.mean:.4f} ±{(p.high - p.low) / 2:.4f}" for p in means]
        cells += [_difference(points[i], found.alpha) for points in found.differences.values()]
        rows.append(Row((level_text(level), *cells)))
    columns = ("level", *found.curves, *(f"{n} − {found.baseline}" for n in found.differences))
    note = (
        f"{found.metric} on clean test lists, noise in {found.noisy}; means of {found.trials} "
        f"trials ± half of the 95 % interval; level: {found.unit}. ▲ better, ▼ worse than "
        f"{found.baseline}: two-sided paired t-test over trials, level {found.alpha:g}, not "
        "corrected for the number of levels."
    )
    return Grid(title, columns, tuple(rows), note)


def level_text(level: float) -> str:
    """A level for people.

    >>> level_text(0.4), level_text(0.125)
    ('40 %', '12.5 %')
    """
    return f"{100 * level:.3g} %"


def _difference(found: Difference, alpha: float) -> str:
    mark = "" if found.p >= alpha else "▲" if found.mean > 0 else "▼"
    return f"{found.mean:+.4f}{mark}"
