"""A leaderboard in LaTeX, for the package booktabs."""

from __future__ import annotations

from plackett.experiments.leaderboard import Entry, Leaderboard
from plackett.experiments.tables.words import best_means, tested_in_words

_MARKS = {"better": r"$^{\blacktriangle}$", "worse": r"$^{\blacktriangledown}$", "": ""}
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def latex_table(board: Leaderboard) -> str:
    r"""A tabular with means and half-widths of their 95 % intervals, the best in bold.

    The marks need ``\usepackage{amssymb}``, the rules ``\usepackage{booktabs}``.
    """
    best = best_means(board)
    lines = [
        r"% \usepackage{booktabs,amssymb}",
        rf"\begin{{tabular}}{{l{'r' * len(board.metrics)}}}",
        r"\toprule",
        " & ".join(["System", *(_escaped(_shown(m)) for m in board.metrics)]) + r" \\",
        r"\midrule",
    ]
    for entry in board.entries:
        name = _escaped(entry.name)
        cells = [_cell(entry, m, board, best[m]) for m in board.metrics]
        lines.append(" & ".join([name, *cells]) + r" \\")
    note = f"Marks: different from {board.baseline}, {tested_in_words(board)}."
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", f"% {note}", ""])


def _cell(entry: Entry, metric: str, board: Leaderboard, best: float) -> str:
    mean = f"{entry.means[metric]:.4f}"
    text = rf"\textbf{{{mean}}}" if entry.means[metric] == best else mean
    low, high = entry.intervals[metric]
    half = f"{(high - low) / 2:.4f}"
    return rf"{text}{_MARKS[board.verdict(entry, metric)]} {{\scriptsize $\pm${half}}}"


def _shown(metric: str) -> str:
    name, sign, rest = metric.partition("@")
    return f"{name.upper()}{sign}{rest}"


def _escaped(text: str) -> str:
    return "".join(_ESCAPES.get(c, c) for c in text)
