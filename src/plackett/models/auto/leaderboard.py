"""The leaderboard: the metric of each candidate and of the ensemble on lists that they have not seen."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import scipy  # its stats is imported when it is used

from plackett.base.errors import DataError
from plackett.base.ragged import Values

ENSEMBLE = "ensemble"
"""The name of the ensemble's row."""
_LEVEL = 0.95


@dataclass(frozen=True)
class LeaderboardRow:
    """A candidate, or the ensemble, on out-of-fold lists."""

    name: str
    value: float | None
    """Mean of the metric over the lists; None if the candidate was not finished."""
    low: float | None = None
    high: float | None = None
    """Ends of the 95 % interval of the mean."""
    p_best: float | None = None
    """p-value of the paired t-test against the best single candidate."""
    p_baseline: float | None = None
    """p-value of the paired t-test against LightGBM with its defaults."""
    weight: float = 0.0
    """Share in the ensemble."""
    seconds: float = 0.0
    note: str = ""
    """Why the candidate was not finished."""

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


def make_row(
    name: str, values: Values, *, best: Values | None, baseline: Values | None, weight: float, seconds: float
) -> LeaderboardRow:
    """A row from the values per list; NaN where the metric drops a list."""
    counted = values[~np.isnan(values)]
    half = 0.0
    if len(counted) > 1:
        error = float(counted.std(ddof=1)) / math.sqrt(len(counted))
        half = float(scipy.stats.t.ppf((1 + _LEVEL) / 2, len(counted) - 1)) * error
    mean = float(counted.mean())
    return LeaderboardRow(
        name,
        mean,
        mean - half,
        mean + half,
        None if best is None else paired_p_value(values, best),
        None if baseline is None else paired_p_value(values, baseline),
        weight,
        seconds,
    )


def paired_p_value(values: Values, other: Values) -> float:
    """Two-sided p-value of the paired t-test; 1 if all differences are zero."""
    differences = values - other
    differences = differences[~np.isnan(differences)]
    if len(differences) < 2 or not differences.any():
        return 1.0
    if float(differences.std()) == 0.0:
        return 0.0
    return float(scipy.stats.ttest_1samp(differences, 0.0).pvalue)


def read_rows(content: Any) -> tuple[LeaderboardRow, ...]:
    """Rows from plain data of a file, which may be damaged."""
    names = {field.name for field in fields(LeaderboardRow)}
    if not isinstance(content, list) or not all(
        isinstance(row, dict) and set(row) == names and isinstance(row["name"], str) for row in content
    ):
        raise DataError("the leaderboard is damaged")
    return tuple(LeaderboardRow(**row) for row in content)


def format_table(rows: Sequence[LeaderboardRow], metric: str) -> str:
    """The leaderboard as text, the best first."""
    lines = [
        f"{'':<26} {metric:>9}  {'95 % interval':<15}  {'p (best)':>8}  {'p (LightGBM)':>12}"
        f"  {'weight':>6}  {'seconds':>7}"
    ]
    for row in rows:
        if row.value is None:
            lines.append(f"{row.name:<26} {row.note}")
            continue
        interval = f"{row.low:.4f}..{row.high:.4f}"
        p_values = [f"{'':>8}" if p is None else f"{p:8.3f}" for p in (row.p_best, row.p_baseline)]
        lines.append(
            f"{row.name:<26} {row.value:9.4f}  {interval:<15}  {p_values[0]}  {p_values[1]:>12}  "
            f"{row.weight:6.2f}  {row.seconds:7.1f}"
        )
    return "\n".join(lines)
