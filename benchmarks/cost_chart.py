"""A chart of times against lengths: one small panel per objective, on common logarithmic axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from plackett.experiments.figures import COLORS, style

COLUMNS = 4
X_TICKS = (8, 64, 1024)


@dataclass(frozen=True)
class Curve:
    """Times of one objective by length, and what was claimed."""

    name: str
    claim: str
    lengths: list[int]
    microseconds: list[float]
    """Of one list."""
    claimed: list[float]
    """The claimed growth through the last point."""
    slope: float
    claimed_slope: float


def write_chart(curves: list[Curve], path: Path) -> None:
    """Draw all curves into a file; its suffix is the format."""
    rows = math.ceil(len(curves) / COLUMNS)
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2.1 * COLUMNS, 0.6 + 1.7 * rows))
        grid = figure.subplots(rows, COLUMNS, sharex=True, sharey=True, squeeze=False).ravel()
        for axes, curve in zip(grid, curves, strict=False):
            axes.loglog(curve.lengths, curve.claimed, "--", color="#8a96a3", linewidth=1)
            axes.loglog(curve.lengths, curve.microseconds, "o-", color=COLORS[0], markersize=3)
            axes.set_title(curve.name, fontsize=9, fontweight="bold", loc="left", pad=14)
            slopes = f"{curve.claim}: {curve.claimed_slope:.2f}, measured {curve.slope:.2f}"
            axes.text(0, 1.03, slopes, transform=axes.transAxes, fontsize=7, color="#5b6875")
            axes.set_xticks(X_TICKS, [f"{n:,}" for n in X_TICKS])
            axes.minorticks_off()
            axes.grid(axis="y")
        for axes in grid[len(curves) :]:
            axes.set_axis_off()
        title = "Microseconds of one list against its number of documents n; dashed: as claimed"
        figure.suptitle(title, x=0.01, ha="left")
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
