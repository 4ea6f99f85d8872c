"""What every table says of its numbers."""

from __future__ import annotations

from plackett.experiments.leaderboard import CORRECTIONS, TESTS, Leaderboard


def tested_in_words(board: Leaderboard) -> str:
    """The test behind the marks: over what, which, at what level, corrected how."""
    unit = board.unit.removesuffix("s") if board.n_counted == 1 else board.unit
    return (
        f"two-sided {TESTS[board.test]} over {board.n_counted:,} paired {unit}, level "
        f"{board.alpha:g}, {CORRECTIONS[board.correction]}'s correction"
    )


def best_means(board: Leaderboard) -> dict[str, float]:
    """The best mean of each metric."""
    return {m: max(entry.means[m] for entry in board.entries) for m in board.metrics}
